import { describe, expect, it } from 'vitest';
import { lockLimits } from '../../../src/lock/limits.ts';
import { unusedLock } from '../../../src/lock/state.ts';
import { readWhole } from '../../../src/queue/finding.ts';
import { queueSizes } from '../../../src/queue/pages.ts';
import { apply } from '../../../src/service/apply.ts';
import { type LockContext, systemLockContext } from '../../../src/service/context.ts';
import type { StoreError } from '../../../src/table/store-error.ts';
import { seededRandom, VirtualTime } from '../../../src/testing/virtual-time.ts';
import { pauseFor } from '../../../src/time/timers.ts';
import { acquireOf } from '../../support/lock-worlds.ts';
import { afterWork, memoryStores, outOfReach, refused, throttled, unanswered } from '../../support/memory-table.ts';
import { watched } from '../service/world.ts';
import { key, leaseOf, leasesIn, longQueue, newcomer, waiting } from './long-queue.ts';

const { queueLengthMax } = lockLimits;

describe('a waiter that joins', () => {
  it('is told that the queue is full when the last page that may be opened is full', async () => {
    const full = await longQueue(3, { front: 2, page: queueLengthMax - 2 });
    await full.close(full.first);
    expect(await full.ask(4, newcomer)).toEqual({ kind: 'queue-full' });
    const roomy = await longQueue(3, { front: 2, page: queueLengthMax - 3 });
    await roomy.close(roomy.first);
    expect(await roomy.ask(4, newcomer)).toMatchObject({ kind: 'waiting' });
  });

  it('has its place even if the next page can not be opened', async () => {
    const { table, ask, first } = await longQueue(3);
    table.meddle('open-page', outOfReach);
    expect(await ask(4, newcomer)).toMatchObject({ kind: 'waiting', place: first, position: 4 });
  });

  it('opens no page behind the last one that may be', async () => {
    const { time, table, context, ask, tell, lock, first, elsewhere } = await longQueue(3);
    // As many pages as the longest queue has. The last one is empty.
    const last = first + (queueLengthMax - 2) / 2 - 1;
    const state = await lock();
    const next = { ...state, rev: state.rev + 1, changedAt: time.now(), behind: { first, last } };
    context.cache.learn(key, (await elsewhere.store.write(key, { kind: 'replace', next })).state);
    table.take();
    expect(await ask(4, newcomer)).toMatchObject({ kind: 'waiting', place: last, position: queueLengthMax - 1 });
    expect(await ask(5, newcomer)).toMatchObject({ kind: 'waiting', place: last, position: queueLengthMax });
    expect(await ask(6, newcomer)).toEqual({ kind: 'queue-full' });
    expect(table.take()).toEqual(['join page', 'join page']);
    await tell('release', 2);
    expect(await ask(6, newcomer)).toMatchObject({ kind: 'waiting', place: last + 1 });
  });

  it('tries again after a pause if the keys of the pages take no writes for a moment', async () => {
    const { time, table, ask, newProcess, first } = await longQueue(3);
    table.meddle('join page', throttled, 3);
    const joined = ask(4, newcomer, newProcess(false));
    await time.settle();
    expect(table.take(), 'one try, and then a pause').toEqual(['grant', 'join page']);
    await time.advance(1_000);
    expect(await joined).toMatchObject({ kind: 'waiting', place: first });
    expect(table.take().filter((name) => name === 'join page')).toHaveLength(3);
  });

  it('tries again also if the lock takes no new page for a moment', async () => {
    const { time, table, ask, newProcess, lock, first, close } = await longQueue(3);
    await close(first);
    table.meddle('open-page', throttled, 2);
    const joined = ask(4, newcomer, newProcess(false));
    await time.advance(1_000);
    expect(await joined).toMatchObject({ kind: 'waiting', place: first + 1 });
    expect((await lock()).behind).toEqual({ first, last: first + 1 });
  });

  it.each([true, false])(
    'ends in bounded steps if no page takes a write, even if no time passes (alone: %s)',
    async (alone) => {
      const { time, table, ask, newProcess } = await longQueue(3);
      const process = { ...newProcess(alone), random: () => 0 };
      table.meddle('join page', throttled);
      const joined = ask(4, newcomer, process).catch((error: unknown) => error);
      // Pauses of no length, so only the number of steps can end it.
      await time.advance(3_000);
      expect(await joined).toMatchObject({ code: 'conflict' });
      expect(table.take().filter((name) => name === 'join page').length).toBeLessThanOrEqual(200);
    },
  );

  it('fills a page also with the places of those who left it', async () => {
    const { ask, tell, lock, first } = await longQueue(3);
    await tell('release', 3);
    await ask(4, newcomer);
    expect((await lock()).behind, 'whoever took the last place opened the next page').toEqual({
      first,
      last: first + 1,
    });
  });

  it('joins no second page if a copy of its request has moved up while it waited for its turn', async () => {
    const { time, table, context, ask, another, lock, first, close } = await longQueue(3, { front: 2, page: 3 });
    table.beforeNext('join page', () => pauseFor(time, 1_000));
    const slow = ask(4, newcomer);
    const waitingForTurn = ask(5, newcomer);
    await time.settle();
    await ask(5, newcomer, another);
    await close(first);
    const opening = ask(6, newcomer, another);
    await time.advance(100);
    await opening;
    await ask(5, { ...waiting, place: first }, another);
    context.cache.learn(key, await lock());
    await time.advance(1_000);
    await slow;
    const answer = await waitingForTurn;
    expect(answer).toMatchObject({ kind: 'waiting', position: 4 });
    expect(answer, 'it waits in the front').not.toHaveProperty('place');
    const [whole] = await readWhole(context, [key]);
    expect(leasesIn(whole ?? unusedLock).filter((leaseId) => leaseId === leaseOf(5))).toHaveLength(1);
  });

  it('joins the page that another process has opened in the meantime', async () => {
    const { time, ask, newProcess, lock, first } = await longQueue(3);
    const slow = newProcess(false);
    slow.cache.learn(key, await lock());
    await ask(4, newcomer);
    const joined = ask(5, newcomer, slow);
    await time.advance(1_000);
    expect(await joined).toMatchObject({ kind: 'waiting', place: first + 1, position: 5 });
    expect((await lock()).behind).toEqual({ first, last: first + 1 });
  });

  it('joins the front if it has a place again, though it was seen full', async () => {
    const { table, ask, newProcess, lock, tell } = await longQueue(2);
    const other = newProcess();
    other.cache.learn(key, await lock());
    await tell('release', 2);
    table.take();
    expect(await ask(3, newcomer, other)).toMatchObject({ kind: 'waiting', position: 2 });
    expect(table.take()).toEqual(['arrive']);
    expect(await ask(4, newcomer)).toMatchObject({ kind: 'waiting', position: 3, place: expect.any(Number) });
  });

  it('decides again if the write that opens a page is refused, and nobody waits behind the front', async () => {
    const { table, ask } = await longQueue(2);
    table.meddle('open-page', refused, 1);
    expect(await ask(3, newcomer)).toMatchObject({ kind: 'waiting', position: 3 });
  });

  it('waits for its turn on a slow page, and sends nothing to the lock meanwhile', async () => {
    const { time, table, ask, first } = await longQueue(3, { front: 2, page: 9 });
    table.meddle(
      'join page',
      afterWork(() => pauseFor(time, 2_500)),
    );
    const joining = [4, 5, 6, 7, 8].map((index) => ask(index, newcomer));
    await time.advance(15_000);
    for (const [index, answer] of (await Promise.all(joining)).entries())
      expect(answer).toMatchObject({ kind: 'waiting', place: first, position: 4 + index });
    expect(new Set(table.take())).toEqual(new Set(['join page']));
  });
});

/** Many processes on a table whose requests take four milliseconds, as in DynamoDB, so that their requests cross. */
function crowd() {
  const time = new VirtualTime();
  const random = seededRandom(1);
  let callMs = 4;
  const { table, elsewhere, ...stores } = memoryStores({
    clock: time,
    timers: time,
    random,
    before: () => pauseFor(time, callMs),
  });
  /** A process that knows nothing of the lock yet, one of several. */
  const newProcess = () =>
    systemLockContext({ ...stores, alone: false, clock: time, timers: time, random, sizes: queueSizes });
  let leases = 0;
  const join = async (process: LockContext) => {
    leases += 1;
    const command = acquireOf(`lease-${String(leases).padStart(16, '0')}`, { waitMs: 60_000, attendMs: null });
    return (await apply(process, key, { ...command, place: 'new' })).answer.kind;
  };
  const run = async <T>(work: Promise<T>): Promise<T> => {
    let isDone = false;
    const end = () => {
      isDone = true;
    };
    work.then(end, end);
    while (!isDone) await time.advance(100);
    return work;
  };
  const slowDown = (ms: number) => {
    callMs = ms;
  };
  return { time, table, elsewhere, newProcess, join, run, slowDown };
}

describe('a crowd that joins a queue', () => {
  const { front, page } = queueSizes;

  it('gets in whole from many processes, with few writes for each', async () => {
    const { table, newProcess, join, run } = crowd();
    expect(await run(join(newProcess()))).toBe('granted');
    const waiters = 200;
    table.take();
    const kinds = await run(Promise.all(Array.from({ length: waiters }, () => join(newProcess()))));
    expect(new Set(kinds)).toEqual(new Set(['waiting']));
    // Without pauses each is refused by every page that fills up before its turn: more than twelve times.
    const writes = table.take().filter((name) => name !== 'read');
    expect(writes.length / waiters).toBeLessThan(11);
  });

  it('finds the next page open, because the waiter that filled the last one opened it', async () => {
    const { table, elsewhere, newProcess, join, run } = crowd();
    const process = newProcess();
    for (let index = 0; index <= front + page; index++) await run(join(process));
    const { behind } = await elsewhere.store.read(key);
    expect((behind?.last ?? 0) - (behind?.first ?? 0)).toBe(1);
    table.take();
    expect(await run(join(newProcess()))).toBe('waiting');
    // The first write of a process that knows nothing of the lock is refused, and no other.
    expect(table.take()).toEqual(['grant', 'join page']);
  });

  it('waits for its turn on a slow table without further writes to the lock, and is told in time to repeat', async () => {
    const { time, table, newProcess, join, run, slowDown } = crowd();
    const process = newProcess();
    for (let index = 0; index <= front; index++) await run(join(process));
    table.take();
    slowDown(500);
    const startedAt = time.now();
    const answers = await run(
      Promise.all(
        Array.from({ length: 100 }, () => join(process).catch((error: unknown) => (error as StoreError).code)),
      ),
    );
    expect(new Set(answers)).toEqual(new Set(['waiting', 'throttled']));
    expect(table.take()).not.toContain('grant');
    // Long before API Gateway would cut the request.
    expect(time.now() - startedAt).toBeLessThan(20_000);
  });

  it('joins by what a read shows if the key of the lock takes no writes', async () => {
    const { table, newProcess, join, run } = crowd();
    for (let index = 0; index <= front + 1; index++) await run(join(newProcess()));
    for (const name of ['grant', 'replace', 'arrive', 'open-page']) table.meddle(name, throttled);
    expect(await run(join(newProcess()))).toBe('waiting');
  });

  it('is told to repeat its request if its turn does not come in time', async () => {
    const { time, table, ask } = await longQueue(3, { front: 2, page: 9 });
    table.meddle('join page', unanswered);
    void ask(4, newcomer);
    const late = watched(ask(5, newcomer).catch((error: unknown) => error));
    await time.advance(14_000);
    expect(late.done).toBe(false);
    await time.advance(4_000);
    expect(await late.promise).toMatchObject({ code: 'throttled' });
  });
});
