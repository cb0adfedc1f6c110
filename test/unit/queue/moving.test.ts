import { describe, expect, it } from 'vitest';
import { apply, refill } from '../../../src/service/apply.ts';
import { refused } from '../../support/memory-table.ts';
import { holdersOf, key, leaseOf, leasesIn, longQueue, newcomer, waiting } from './long-queue.ts';

describe('a page that was closed', () => {
  it.each(['by the first', 'by the second'])('is moved up %s of its waiters that asks', async (who) => {
    const { ask, lock, first, close } = await longQueue(6);
    for (const number of [first, first + 1]) await close(number);
    const index = who === 'by the first' ? 3 : 4;
    const answer = await ask(index, { ...waiting, place: first });
    expect(answer).toMatchObject({ kind: 'waiting', position: index });
    expect(answer, 'it waits in the front now').not.toHaveProperty('place');
    expect(leasesIn(await lock())).toEqual([1, 2, 3, 4].map(leaseOf));
    expect(await ask(6, { ...waiting, place: first + 1 })).toMatchObject({ position: 6 });
    expect(leasesIn(await lock())).toEqual([1, 2, 3, 4, 5, 6].map(leaseOf));
    expect((await lock()).behind).toEqual({ first: first + 2, last: first + 2 });
  });

  it('is moved up with all pages ahead of it', async () => {
    const { ask, lock, first, close } = await longQueue(6);
    await close(first + 1);
    expect(await ask(5, { ...waiting, place: first + 1 })).toMatchObject({ kind: 'waiting', position: 5 });
    expect(leasesIn(await lock())).toEqual([1, 2, 3, 4, 5, 6].map(leaseOf));
  });

  it('is moved up also if others write to the lock at the same moment', async () => {
    const { table, ask, tell, lock, first, close, another } = await longQueue(4);
    await close(first);
    table.beforeNext('move-up', () => tell('release', 0, {}, another));
    expect(await ask(3, { ...waiting, place: first })).toMatchObject({ kind: 'waiting', position: 2 });
    expect(leasesIn(await lock())).toEqual([2, 3, 4].map(leaseOf));
  });

  it('is not moved up again by a process that read the lock before', async () => {
    const { table, ask, lock, first, close, another } = await longQueue(6);
    await close(first);
    table.beforeNext('move-up', () => ask(4, { ...waiting, place: first }, another));
    expect(await ask(3, { ...waiting, place: first })).toMatchObject({ kind: 'waiting', position: 3 });
    expect(leasesIn(await lock())).toEqual([1, 2, 3, 4].map(leaseOf));
    expect((await lock()).behind?.first).toBe(first + 1);
  });

  it('that nobody can move up is reported, and no answer is made up', async () => {
    const { table, ask, first, close } = await longQueue(4);
    await close(first);
    table.meddle('move-up', refused);
    const asked = ask(3, { ...waiting, place: first }).catch((error: unknown) => error);
    expect(await asked).toMatchObject({ code: 'conflict', message: 'Others kept writing to this lock.' });
    expect(table.take().filter((name) => name === 'move-up')).toHaveLength(50);
  });

  it('takes nobody: the next waiter opens another one', async () => {
    const { ask, first, close } = await longQueue(3);
    await close(first);
    expect(await ask(4, newcomer)).toMatchObject({ kind: 'waiting', place: first + 1 });
  });

  it('is moved up for a waiter that joins it a second time', async () => {
    const { ask, lock, first, close, newProcess } = await longQueue(3);
    await close(first);
    expect(await ask(3, newcomer, newProcess())).toMatchObject({ kind: 'waiting', position: 3 });
    expect(leasesIn(await lock())).toEqual([1, 2, 3].map(leaseOf));
  });
});

describe('a release of a lock with a long queue', () => {
  it('serves the front, and moves the first page up if the front is empty', async () => {
    const { tell, lock, first } = await longQueue(4);
    await tell('release', 0);
    expect(holdersOf(await lock())).toEqual([leaseOf(1)]);
    await tell('release', 1);
    await tell('release', 2);
    const { holders, queue, behind } = await lock();
    expect([holdersOf({ holders }), leasesIn({ queue }), behind?.first]).toEqual([
      [leaseOf(3)],
      [leaseOf(4)],
      first + 1,
    ]);
  });

  it('sends no write that would be refused, if the process knows that a page must move up', async () => {
    const { table, tell, lock } = await longQueue(4);
    await tell('release', 0);
    await tell('release', 1);
    table.take();
    await tell('release', 2);
    expect(table.take()).toEqual(['close page', 'move-up', 'release']);
    expect(holdersOf(await lock())).toEqual([leaseOf(3)]);
  });

  it('does not hold up the notifier, which moves a page up ahead of need in the same moment', async () => {
    const { table, context, tell, lock, first, another } = await longQueue(8, { front: 6, page: 2 });
    for (const holder of [0, 1, 2, 3]) await tell('release', holder);
    table.take();
    table.beforeNext('move-up', () => tell('release', 4, {}, another));
    await apply(context, key, { kind: 'refill' });
    expect(table.take()).toEqual(['close page', 'move-up']);
    expect(holdersOf(await lock())).toEqual([leaseOf(5)]);
    expect(leasesIn(await lock())).toEqual([6, 7, 8].map(leaseOf));
    expect((await lock()).behind).toEqual({ first: first + 1, last: first + 1 });
  });

  it('tries the common case first if others may have written since', async () => {
    const { time, table, tell, newProcess, lock } = await longQueue(4);
    await tell('release', 0);
    await tell('release', 1);
    const other = newProcess(false);
    other.cache.learn(key, await lock());
    await time.advance(101);
    table.take();
    await tell('release', 2, {}, other);
    expect(table.take()[0]).toBe('release');
  });

  it('skips pages whose waiters are all absent, however many there are', async () => {
    const { time, ask, tell, lock } = await longQueue(2);
    for (let index = 3; index <= 12; index++) await ask(index, { ...newcomer, attendMs: 1_000 });
    await ask(13, { ...newcomer, attendMs: 60_000 });
    await time.advance(25_000);
    await tell('release', 0);
    const { holders, queue, behind } = await lock();
    expect([holdersOf({ holders }), queue]).toEqual([[leaseOf(13)], []]);
    expect((behind?.last ?? 0) < (behind?.first ?? 0), 'no page is left').toBe(true);
  });

  it('leaves the lock free if all waiters are absent', async () => {
    const { time, tell, lock } = await longQueue(6);
    await time.advance(25_000);
    await tell('release', 0);
    expect(await lock()).toMatchObject({ holders: [], queue: [] });
  });

  it('serves all waiters that fit, page by page', async () => {
    const { ask, tell, lock, first } = await longQueue(0);
    await tell('release', 0);
    const part = { limit: 10, permits: 1 };
    await ask(20, { limit: 10, permits: 10 });
    for (let index = 1; index <= 8; index++) await ask(index, { ...newcomer, ...part });
    expect((await lock()).holders).toHaveLength(1);
    await tell('release', 20);
    expect(holdersOf(await lock())).toEqual([1, 2, 3, 4, 5, 6, 7, 8].map(leaseOf));
    expect(first).toBe(0);
  });

  it('of a part tries nothing in one write, because the rules say who is served', async () => {
    const { table, ask, tell, lock } = await longQueue(0);
    await tell('release', 0);
    for (const index of [1, 2]) await ask(index, { limit: 2, permits: 1 });
    await ask(3, { ...newcomer, limit: 2, permits: 1 });
    table.take();
    await tell('release', 1);
    expect(table.take()).toEqual(['replace']);
    expect(holdersOf(await lock())).toEqual([leaseOf(2), leaseOf(3)]);
  });

  it('shows each waiter of a page in the lock before it shows its grant or its end', async () => {
    const { table, time, ask, tell, lock } = await longQueue(4);
    const seen = new Set<string>();
    const unseen: string[] = [];
    // The state before each request: what the stream shows.
    table.before = async () => {
      const { queue, holders } = await lock();
      for (const { leaseId } of holders) if (!seen.has(leaseId)) unseen.push(leaseId);
      for (const { leaseId } of [...queue, ...holders]) seen.add(leaseId);
    };
    await time.advance(1_000);
    for (const index of [0, 1, 2]) await tell('release', index);
    await ask(9, { waitMs: 0 });
    expect(unseen).toEqual([leaseOf(0)]);
  });
});

describe('a refill', () => {
  /** Another process has not seen the lock. Two waiters are left in the front, and two wait in a page. */
  async function lowFront() {
    const here = await longQueue(5, { front: 6, page: 2 });
    const { table, tell, newProcess, lock } = here;
    await here.ask(6, newcomer);
    await here.ask(7, newcomer);
    for (const holder of [0, 1, 2, 3]) await tell('release', holder);
    table.take();
    return { ...here, shown: await lock(), notifier: newProcess(false) };
  }

  it('needs no read of the lock, because the record of the stream shows its first page', async () => {
    const { shown, notifier, table, lock } = await lowFront();
    await refill(notifier, key, shown);
    expect(table.take()).toEqual(['close page', 'move-up']);
    expect((await lock()).behind?.first).toBe((shown.behind?.first ?? 0) + 1);
  });

  it('reads the lock if it was seen a while ago, and changes nothing if the page has moved up since', async () => {
    const { time, shown, notifier, context, table, lock } = await lowFront();
    notifier.cache.learn(key, shown);
    await apply(context, key, { kind: 'refill' });
    const moved = await lock();
    await time.advance(101);
    table.take();
    await apply(notifier, key, { kind: 'refill' });
    expect(table.take()).toEqual(['read']);
    expect(await lock()).toEqual(moved);
  });

  it('of an old record finds its page closed, and moves nobody up twice', async () => {
    const { shown, notifier, context, lock } = await lowFront();
    await apply(context, key, { kind: 'refill' });
    const { queue, behind } = await lock();
    await refill(notifier, key, shown);
    expect(await lock()).toMatchObject({ queue, behind });
  });

  it('moves one page up if few are left in the front, and grants to nobody while the lock is held', async () => {
    const { context, tell, lock, first } = await longQueue(7, { front: 3, page: 2 });
    await apply(context, key, { kind: 'refill' });
    expect((await lock()).behind?.first, 'the front is full').toBe(first);
    for (const index of [1, 2]) await tell('release', index);
    await apply(context, key, { kind: 'refill' });
    const { behind, ...state } = await lock();
    expect(holdersOf(state)).toEqual([leaseOf(0)]);
    expect(leasesIn(state)).toEqual([3, 4, 5].map(leaseOf));
    expect(behind).toEqual({ first: first + 1, last: first + 2 });
  });
});
