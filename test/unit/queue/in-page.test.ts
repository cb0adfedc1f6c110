/** Waiters behind the front: what a page answers for them, and what the lock answers. */
import { describe, expect, it } from 'vitest';
import { lockLimits } from '../../../src/lock/limits.ts';
import { unusedLock } from '../../../src/lock/state.ts';
import { readWhole } from '../../../src/queue/finding.ts';
import { readInPage } from '../../../src/queue/in-page.ts';
import { pageKeyOf } from '../../../src/queue/page-item.ts';
import { apply } from '../../../src/service/apply.ts';
import { fromStored, type StoredItem } from '../../../src/table/json.ts';
import { acquireOf } from '../../support/lock-worlds.ts';
import { afterWork, answerLost } from '../../support/memory-table.ts';
import { key, leaseOf, leasesIn, longQueue, newcomer, waiting } from './long-queue.ts';

const parked = { ...waiting, attendMs: null, notify: { type: 'event', ref: 'somebody' } } as const;

/** The number of the page with this key. */
const numberOf = (stored: StoredItem) => pageKeyOf(fromStored(stored) as { pk: string; sk: string })?.number;

describe('a waiter in a page', () => {
  it('is told its page and its position, when it joins and each time it asks', async () => {
    const { ask, first } = await longQueue(4);
    expect(await ask(5, newcomer)).toMatchObject({ kind: 'waiting', position: 5, place: first + 1 });
    expect(await ask(6, newcomer)).toMatchObject({ kind: 'waiting', position: 6, place: first + 1 });
    expect(await ask(6)).toMatchObject({ kind: 'waiting', position: 6, place: first + 1 });
    expect(await ask(3, { ...waiting, place: first })).toMatchObject({ kind: 'waiting', position: 3, place: first });
  });

  it('is present for a while after each request, and if it is parked until its deadline', async () => {
    const { time, ask, first, waiterIn } = await longQueue(3);
    const startedAt = time.now();
    await time.advance(10_000);
    await ask(3);
    expect(await waiterIn(first, 3)).toMatchObject({ presentUntil: time.now() + 25_000 });
    await ask(3, parked);
    expect(await waiterIn(first, 3)).toMatchObject({ presentUntil: startedAt + 60_000, notify: parked.notify });
  });

  it('that is parked asks again by a read, until its deadline', async () => {
    const { time, table, context, ask, first } = await longQueue(3);
    await ask(4, { ...parked, place: 'new' });
    table.take();
    const look = () => readInPage(context, key, acquireOf(leaseOf(4), parked), first);
    await time.advance(waiting.waitMs - 1);
    expect(await look()).toMatchObject({ answer: { kind: 'waiting', position: 4, place: first } });
    await time.advance(1);
    expect(await look()).toBe('needs-write');
    expect(table.take()).toEqual(['read pages', 'read', 'read pages']);
  });

  it('keeps its place for a while if its caller is gone, and a second such message changes nothing', async () => {
    const { time, tell, first, waiterIn } = await longQueue(3);
    const absentAt = time.now() + lockLimits.waiterAbsenceMs;
    expect(await tell('step-away', 3)).toEqual({ kind: 'done' });
    await time.advance(100);
    expect(await tell('step-away', 3)).toEqual({ kind: 'done' });
    expect(await waiterIn(first, 3)).toMatchObject({ presentUntil: absentAt });
  });

  it('gives its place back once, and does not join again by a late copy of its request', async () => {
    const { tell, ask, first, waiterIn, newProcess } = await longQueue(3);
    const place = { place: first };
    expect(await tell('release', 3, place)).toEqual({ kind: 'released', reason: 'cancelled' });
    expect(await tell('release', 3, place, newProcess())).toEqual({ kind: 'released', reason: 'already_released' });
    expect(await ask(3, newcomer, newProcess())).toEqual({ kind: 'lost', reason: 'released' });
    expect(await ask(3, { ...waiting, ...place })).toEqual({ kind: 'lost', reason: 'released' });
    expect(await waiterIn(first, 3)).toBeUndefined();
  });

  it('gets the answer of its first release if that answer was lost', async () => {
    const { table, tell } = await longQueue(3);
    table.meddle('leave page', answerLost);
    expect(await tell('release', 3)).toEqual({ kind: 'released', reason: 'cancelled' });
  });

  it('ends its wait from the instant of its deadline on, and learns how long it waited', async () => {
    const { time, ask, tell, first, pageAt, waiterIn } = await longQueue(4);
    await time.advance(59_999);
    expect(await ask(3)).toMatchObject({ kind: 'waiting' });
    expect(await tell('give-up', 4)).toEqual({ kind: 'wait-timeout', waitedMs: 59_999 });
    await time.advance(1);
    expect(await ask(3)).toEqual({ kind: 'wait-timeout', waitedMs: 60_000 });
    expect(await waiterIn(first, 3)).toBeUndefined();
    const page = await pageAt(first);
    expect(page?.left.map(({ how }) => how)).toEqual(['gave-up', 'gave-up']);
  });

  it('is found by a process that knows nothing of it, and has one place then', async () => {
    const { ask, tell, newProcess, first, lock } = await longQueue(6);
    const elsewhere = newProcess();
    expect(await ask(5, waiting, elsewhere)).toMatchObject({ kind: 'waiting', position: 5, place: first + 1 });
    expect(await tell('step-away', 4, {}, newProcess())).toEqual({ kind: 'done' });
    expect(await tell('give-up', 3, {}, newProcess())).toMatchObject({ kind: 'wait-timeout', waitedMs: 0 });
    expect(await tell('release', 6, {}, newProcess())).toEqual({ kind: 'released', reason: 'cancelled' });
    expect(await tell('release', 6, {}, newProcess())).toEqual({ kind: 'released', reason: 'already_released' });
    expect(await ask(6, waiting, newProcess())).toEqual({ kind: 'lost', reason: 'released' });
    const [whole] = await readWhole(elsewhere, [key]);
    expect(leasesIn(whole ?? unusedLock)).toEqual([1, 2, 4, 5].map(leaseOf));
    expect(await lock()).toMatchObject({ behind: { first, last: first + 2 } });
  });

  it('waits in a later page if it gave up its place in an earlier one', async () => {
    const { ask, tell, newProcess, first } = await longQueue(5);
    await tell('give-up', 3);
    expect(await ask(3, newcomer)).toMatchObject({ place: first + 1 });
    expect(await ask(3, waiting, newProcess())).toMatchObject({ place: first + 1, position: 6 });
  });

  it('has one place, even if it names an earlier page, because the answer that named the later one was lost', async () => {
    const { ask, newProcess, waiterIn, first } = await longQueue(6);
    const misled = { ...waiting, place: first };
    expect(await ask(5, misled, newProcess())).toMatchObject({ kind: 'waiting', position: 5, place: first + 1 });
    expect(await waiterIn(first + 2, 5)).toBeUndefined();
  });

  it('that lost its place is searched among the latest 64 only, because a whole crowd may come back', async () => {
    const { ask, table, newProcess, first, lock } = await longQueue(140);
    const last = (await lock()).behind?.last ?? 0;
    const pagesRead = () =>
      table.requests.flatMap(({ request }) => {
        const asked = 'RequestItems' in request ? Object.values(request.RequestItems) : [];
        return asked.flatMap((batch) => ('Keys' in batch ? batch.Keys.map(numberOf) : []));
      });
    table.requests.length = 0;
    expect(await ask(200, { ...waiting, place: first }, newProcess())).toMatchObject({ kind: 'waiting' });
    expect(pagesRead()).toEqual(Array.from({ length: 32 }, (_, index) => last - 31 + index));
    table.requests.length = 0;
    await ask(201, waiting, newProcess());
    expect(pagesRead()).toHaveLength(last - first + 1);
  });

  it('that is in another place than it says is answered by the lock', async () => {
    const { ask, tell, first } = await longQueue(4);
    await tell('release', 4);
    expect(await ask(1, { ...waiting, place: first })).toMatchObject({ kind: 'waiting', position: 1 });
    expect(await ask(0, { ...waiting, place: first })).toMatchObject({ kind: 'granted' });
    expect(await tell('release', 9, { place: first })).toEqual({ kind: 'lost', reason: 'not_owner' });
    expect(await tell('give-up', 9, { place: first })).toEqual({ kind: 'wait-timeout', waitedMs: 0 });
  });

  it('gets a position from a state of the lock that is a second old at most', async () => {
    const { time, table, context, ask, newProcess, first, lock } = await longQueue(4);
    await time.advance(999);
    await ask(3);
    expect(table.take()).toEqual(['attend in page']);
    await time.advance(1);
    await ask(3);
    expect(table.take()).toEqual(['attend in page', 'read']);
    expect(context.cache.seen(key)?.at, 'the read is remembered').toBe(time.now());
    const elsewhere = newProcess();
    elsewhere.cache.learn(key, { ...(await lock()), rev: 1, behind: { first: first - 1, last: first - 1 } });
    expect(await ask(3, { ...waiting, place: first }, elsewhere), 'a state without its page is too old').toMatchObject({
      position: 3,
    });
    expect(table.take()).toEqual(['attend in page', 'read']);
  });
});

describe('a deadlock', () => {
  const deadlock = '[{"owner":"somebody"}]';
  const found = { kind: 'deadlock', cycle: deadlock };

  it('ends the wait of a waiter in a page, and its next request learns of it', async () => {
    const { ask, tell, first, lock, pageAt } = await longQueue(3);
    const { rev } = await lock();
    expect(await tell('give-up', 3, { deadlock })).toEqual(found);
    const page = await pageAt(first);
    expect(page).toMatchObject({ waiters: [], left: [{ leaseId: leaseOf(3), how: 'gave-up' }] });
    expect(await lock()).toMatchObject({ rev: rev + 1, ended: [{ leaseId: leaseOf(3), how: 'deadlock' }] });
    expect(await ask(3)).toEqual(found);
  });

  it('ends it once, if the first answer was lost', async () => {
    const { table, tell, lock, first } = await longQueue(3);
    table.meddle('leave page', answerLost);
    expect(await tell('give-up', 3, { deadlock, place: first })).toEqual(found);
    expect(await tell('give-up', 3, { deadlock, place: first }), 'the request itself was repeated').toEqual(found);
    expect((await lock()).ended).toHaveLength(1);
  });

  it('ends it also if others write to the lock at the same moment, and gives up after many tries', async () => {
    const { time, table, tell, lock, another } = await longQueue(4);
    const renew = () => apply(another, key, { kind: 'renew', leaseId: leaseOf(0) });
    table.meddle('replace', afterWork(renew), 2);
    const ended = tell('give-up', 3, { deadlock });
    await time.advance(1_000);
    expect(await ended).toEqual(found);
    expect((await lock()).ended).toHaveLength(1);
    table.meddle('replace', afterWork(renew));
    table.take();
    const failed = tell('give-up', 4, { deadlock }).catch((error: unknown) => error);
    await time.advance(60_000);
    expect(await failed).toMatchObject({ code: 'conflict', message: 'Others kept writing to this lock.' });
    expect(table.take().filter((name) => name === 'replace')).toHaveLength(50);
  });

  it('ends the wait in the front if the page has moved up, or was closed to move up', async () => {
    const { tell, lock, first, close } = await longQueue(4);
    await close(first);
    expect(await tell('give-up', 3, { deadlock })).toEqual(found);
    expect(leasesIn(await lock())).toEqual([1, 2, 4].map(leaseOf));
    expect(await tell('give-up', 4, { deadlock, place: first })).toEqual(found);
    expect(leasesIn(await lock())).toEqual([1, 2].map(leaseOf));
  });

  it('of a lease that waits elsewhere moves no page up', async () => {
    const { tell, lock, first } = await longQueue(4);
    expect(await tell('give-up', 1, { deadlock, place: first })).toEqual(found);
    expect(await tell('give-up', 9, { deadlock, place: first })).toMatchObject({ kind: 'wait-timeout' });
    expect(await lock()).toMatchObject({ behind: { first }, queue: [{ leaseId: leaseOf(2) }] });
  });

  it('is remembered among the last ends only', async () => {
    const { tell, lock } = await longQueue(2 + lockLimits.endedRemembered + 1, { front: 2, page: 100 });
    for (let index = 3; index < 3 + lockLimits.endedRemembered + 1; index++) await tell('give-up', index, { deadlock });
    const { ended } = await lock();
    expect(ended).toHaveLength(lockLimits.endedRemembered);
    expect(ended[0]).toMatchObject({ leaseId: leaseOf(3 + lockLimits.endedRemembered) });
  });
});
