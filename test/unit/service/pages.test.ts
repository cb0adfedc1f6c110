/** Waiters behind the front: what a page answers for them, and what the lock answers. */
import { describe, expect, it } from 'vitest';
import { lockLimits } from '../../../src/lock/limits.ts';
import { type LockState, unusedLock, type Waiter } from '../../../src/lock/state.ts';
import { apply, refill, sweepForWaiters } from '../../../src/service/apply.ts';
import { type LockContext, systemLockContext } from '../../../src/service/context.ts';
import { placesIn, readWhole, sweepPages } from '../../../src/service/pages.ts';
import { MemoryLockStore } from '../../../src/store/memory/lock-store.ts';
import { MemorySessionStore } from '../../../src/store/memory/session-store.ts';
import { StoreError } from '../../../src/table/store-error.ts';
import { VirtualTime } from '../../../src/testing/virtual-time.ts';
import { acquireOf } from '../../support/lock-worlds.ts';
import { key, watched } from './world.ts';

const leaseOf = (index: number) => `lease-${String(index).padStart(12, '0')}`;
const waiting = { waitMs: 60_000 };
const parked = { ...waiting, attendMs: null, notify: { type: 'event', ref: 'somebody' } } as const;
const newcomer = { ...waiting, place: 'new' } as const;

/** A held lock with waiters 1, 2 and so on: two in the front, and two in each page. */
async function longQueue(waiters: number, sizes = { front: 2, page: 2 }) {
  const time = new VirtualTime();
  const store = new MemoryLockStore();
  const newProcess = (alone = true): LockContext => {
    const sessionStore = new MemorySessionStore();
    return systemLockContext({ store, sessionStore, alone, clock: time, timers: time, random: () => 0.5, sizes });
  };
  const context = newProcess();
  const ask = async (index: number, more: object = waiting, process = context) =>
    (await apply(process, key, acquireOf(leaseOf(index), { leaseMs: 600_000, ...more }))).answer;
  const tell = async (kind: 'release' | 'step-away' | 'give-up', index: number, more: object = {}, process = context) =>
    (await apply(process, key, { kind, leaseId: leaseOf(index), ...more })).answer;
  await ask(0);
  for (let index = 1; index <= waiters; index++) await ask(index, newcomer);
  const lock = () => store.read(key);
  const first = (await lock()).pages?.first ?? 0;
  const waiterIn = async (page: number, index: number) =>
    (await store.readPages([{ lock: key, number: page }]))[0]?.waiters.find(
      ({ leaseId }) => leaseId === leaseOf(index),
    );
  return { time, store, context, newProcess, ask, tell, lock, first, waiterIn };
}

const leasesIn = ({ queue }: Pick<LockState, 'queue'>) => queue.map(({ leaseId }) => leaseId);

describe('a waiter in a page', () => {
  it('is told its page and its position, when it joins and each time it asks', async () => {
    const { ask, first } = await longQueue(4);
    expect(await ask(5, newcomer)).toMatchObject({ kind: 'waiting', position: 5, page: first + 1 });
    expect(await ask(6, newcomer)).toMatchObject({ kind: 'waiting', position: 6, page: first + 1 });
    expect(await ask(6)).toMatchObject({ kind: 'waiting', position: 6, page: first + 1 });
    expect(await ask(3, { ...waiting, place: first })).toMatchObject({ kind: 'waiting', position: 3, page: first });
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
    const { store, tell } = await longQueue(3);
    const leave = store.leavePage.bind(store);
    store.leavePage = async (...asked) => ({ ...(await leave(...asked)), applied: false, perhapsMine: true });
    expect(await tell('release', 3)).toEqual({ kind: 'released', reason: 'cancelled' });
  });

  it('ends its wait from the instant of its deadline on, and learns how long it waited', async () => {
    const { time, store, ask, tell, first, waiterIn } = await longQueue(4);
    await time.advance(59_999);
    expect(await ask(3)).toMatchObject({ kind: 'waiting' });
    expect(await tell('give-up', 4)).toEqual({ kind: 'wait-timeout', waitedMs: 59_999 });
    await time.advance(1);
    expect(await ask(3)).toEqual({ kind: 'wait-timeout', waitedMs: 60_000 });
    expect(await waiterIn(first, 3)).toBeUndefined();
    const [page] = await store.readPages([{ lock: key, number: first }]);
    expect(page?.left.map(({ how }) => how)).toEqual(['gave-up', 'gave-up']);
  });

  it('is found by a process that knows nothing of it, and has one place then', async () => {
    const { ask, tell, newProcess, first, lock } = await longQueue(6);
    const elsewhere = newProcess();
    expect(await ask(5, waiting, elsewhere)).toMatchObject({ kind: 'waiting', position: 5, page: first + 1 });
    expect(await tell('step-away', 4, {}, newProcess())).toEqual({ kind: 'done' });
    expect(await tell('give-up', 3, {}, newProcess())).toMatchObject({ kind: 'wait-timeout', waitedMs: 0 });
    expect(await tell('release', 6, {}, newProcess())).toEqual({ kind: 'released', reason: 'cancelled' });
    expect(await tell('release', 6, {}, newProcess())).toEqual({ kind: 'released', reason: 'already_released' });
    expect(await ask(6, waiting, newProcess())).toEqual({ kind: 'lost', reason: 'released' });
    const [whole] = await readWhole(elsewhere, [key]);
    expect(leasesIn(whole ?? unusedLock)).toEqual([1, 2, 4, 5].map(leaseOf));
    expect(await lock()).toMatchObject({ pages: { first, last: first + 2 } });
  });

  it('waits in a later page if it gave up its place in an earlier one', async () => {
    const { ask, tell, newProcess, first } = await longQueue(5);
    await tell('give-up', 3);
    expect(await ask(3, newcomer)).toMatchObject({ page: first + 1 });
    expect(await ask(3, waiting, newProcess())).toMatchObject({ page: first + 1, position: 6 });
  });

  it('has one place, even if it names an earlier page, because the answer that named the later one was lost', async () => {
    const { ask, newProcess, waiterIn, first } = await longQueue(6);
    const misled = { ...waiting, place: first };
    expect(await ask(5, misled, newProcess())).toMatchObject({ kind: 'waiting', position: 5, page: first + 1 });
    expect(await waiterIn(first + 2, 5)).toBeUndefined();
  });

  it('that lost its place is searched among the latest 64 only, because a whole crowd may come back', async () => {
    const { ask, store, newProcess, first, lock } = await longQueue(140);
    const last = (await lock()).pages?.last ?? 0;
    const read: number[][] = [];
    const { readPages } = store;
    store.readPages = (keys) => {
      read.push(keys.map(({ number }) => number));
      return readPages.call(store, keys);
    };
    expect(await ask(200, { ...waiting, place: first }, newProcess())).toMatchObject({ kind: 'waiting' });
    const latest = Array.from({ length: 32 }, (_, index) => last - 31 + index);
    expect(read).toEqual([latest]);
    read.length = 0;
    await ask(201, waiting, newProcess());
    expect(read[0]).toHaveLength(last - first + 1);
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
    const { time, store, context, ask, newProcess, first } = await longQueue(4);
    let reads = 0;
    const read = store.read.bind(store);
    store.read = (...asked) => {
      reads += 1;
      return read(...asked);
    };
    await time.advance(999);
    await ask(3);
    expect(reads).toBe(0);
    await time.advance(1);
    await ask(3);
    expect(reads).toBe(1);
    expect(context.memory.seen(key)?.at, 'the read is remembered').toBe(time.now());
    const elsewhere = newProcess();
    elsewhere.memory.learn(key, { ...(await read(key)), rev: 1, pages: { first: first - 1, last: first - 1 } });
    expect(await ask(3, { ...waiting, place: first }, elsewhere), 'a state without its page is too old').toMatchObject({
      position: 3,
    });
    expect(reads).toBe(2);
  });
});

describe('a page that was closed', () => {
  it.each(['by the first', 'by the second'])('is moved up %s of its waiters that asks', async (who) => {
    const { time, store, ask, lock, first } = await longQueue(6);
    for (const number of [first, first + 1]) await store.closePage({ lock: key, number }, time.now());
    const index = who === 'by the first' ? 3 : 4;
    const answer = await ask(index, { ...waiting, place: first });
    expect(answer).toMatchObject({ kind: 'waiting', position: index });
    expect(answer, 'it waits in the front now').not.toHaveProperty('page');
    expect(leasesIn(await lock())).toEqual([1, 2, 3, 4].map(leaseOf));
    expect(await ask(6, { ...waiting, place: first + 1 })).toMatchObject({ position: 6 });
    expect(leasesIn(await lock())).toEqual([1, 2, 3, 4, 5, 6].map(leaseOf));
    expect((await lock()).pages).toEqual({ first: first + 2, last: first + 2 });
  });

  it('is moved up with all pages ahead of it', async () => {
    const { time, store, ask, lock, first } = await longQueue(6);
    await store.closePage({ lock: key, number: first + 1 }, time.now());
    expect(await ask(5, { ...waiting, place: first + 1 })).toMatchObject({ kind: 'waiting', position: 5 });
    expect(leasesIn(await lock())).toEqual([1, 2, 3, 4, 5, 6].map(leaseOf));
  });

  it('is moved up also if others write to the lock at the same moment', async () => {
    const { time, store, ask, tell, lock, first, newProcess } = await longQueue(4);
    await store.closePage({ lock: key, number: first }, time.now());
    const move = store.moveUp.bind(store);
    store.moveUp = async (...asked) => {
      await tell('release', 0, {}, newProcess());
      return move(...asked);
    };
    expect(await ask(3, { ...waiting, place: first })).toMatchObject({ kind: 'waiting', position: 2 });
    expect(leasesIn(await lock())).toEqual([2, 3, 4].map(leaseOf));
  });

  it('is not moved up again by a process that read the lock before', async () => {
    const { time, store, ask, lock, first, newProcess } = await longQueue(6);
    await store.closePage({ lock: key, number: first }, time.now());
    const move = store.moveUp.bind(store);
    store.moveUp = async (...asked) => {
      store.moveUp = move;
      await ask(4, { ...waiting, place: first }, newProcess());
      return move(...asked);
    };
    expect(await ask(3, { ...waiting, place: first })).toMatchObject({ kind: 'waiting', position: 3 });
    expect(leasesIn(await lock())).toEqual([1, 2, 3, 4].map(leaseOf));
    expect((await lock()).pages?.first).toBe(first + 1);
  });

  it('that nobody can move up is reported, and no answer is made up', async () => {
    const { time, store, ask, first } = await longQueue(4);
    await store.closePage({ lock: key, number: first }, time.now());
    let moves = 0;
    store.moveUp = async () => {
      moves += 1;
      return { applied: false, state: await store.read(key), perhapsMine: false };
    };
    const asked = ask(3, { ...waiting, place: first }).catch((error: unknown) => error);
    expect(await asked).toMatchObject({ code: 'conflict', message: 'Others kept writing to this lock.' });
    expect(moves).toBe(50);
  });

  it('takes nobody: the next waiter opens another one', async () => {
    const { time, store, ask, first } = await longQueue(3);
    await store.closePage({ lock: key, number: first }, time.now());
    expect(await ask(4, newcomer)).toMatchObject({ kind: 'waiting', page: first + 1 });
  });

  it('is moved up for a waiter that joins it a second time', async () => {
    const { time, store, ask, lock, first, newProcess } = await longQueue(3);
    await store.closePage({ lock: key, number: first }, time.now());
    expect(await ask(3, newcomer, newProcess())).toMatchObject({ kind: 'waiting', position: 3 });
    expect(leasesIn(await lock())).toEqual([1, 2, 3].map(leaseOf));
  });
});

describe('a deadlock', () => {
  const deadlock = '[{"owner":"somebody"}]';
  const found = { kind: 'deadlock', cycle: deadlock };

  it('ends the wait of a waiter in a page, and its next request learns of it', async () => {
    const { store, ask, tell, first, lock } = await longQueue(3);
    const { rev } = await lock();
    expect(await tell('give-up', 3, { deadlock })).toEqual(found);
    const [page] = await store.readPages([{ lock: key, number: first }]);
    expect(page).toMatchObject({ waiters: [], left: [{ leaseId: leaseOf(3), how: 'gave-up' }] });
    expect(await lock()).toMatchObject({ rev: rev + 1, ended: [{ leaseId: leaseOf(3), how: 'deadlock' }] });
    expect(await ask(3)).toEqual(found);
  });

  it('ends it once, if the first answer was lost', async () => {
    const { store, tell, lock } = await longQueue(3);
    await tell('give-up', 3, { deadlock });
    const leave = store.leavePage.bind(store);
    store.leavePage = async (...asked) => ({ ...(await leave(...asked)), applied: false, perhapsMine: true });
    const { pages } = await lock();
    expect(await tell('give-up', 3, { deadlock, place: pages?.first })).toEqual(found);
    expect((await lock()).ended).toHaveLength(1);
  });

  it('ends it also if others write to the lock at the same moment, and gives up after many tries', async () => {
    const { time, store, tell, lock } = await longQueue(4);
    const swap = store.swap.bind(store);
    let refusals = 2;
    store.swap = async (...asked) => {
      refusals -= 1;
      return refusals < 0 ? swap(...asked) : { applied: false, state: await store.read(key), perhapsMine: false };
    };
    const ended = tell('give-up', 3, { deadlock });
    await time.advance(1_000);
    expect(await ended).toEqual(found);
    expect((await lock()).ended).toHaveLength(1);
    refusals = 1_000;
    const failed = tell('give-up', 4, { deadlock }).catch((error: unknown) => error);
    await time.advance(60_000);
    expect(await failed).toMatchObject({ code: 'conflict', message: 'Others kept writing to this lock.' });
    expect(refusals).toBe(950);
  });

  it('ends the wait in the front if the page has moved up, or was closed to move up', async () => {
    const { time, store, tell, lock, first } = await longQueue(4);
    await store.closePage({ lock: key, number: first }, time.now());
    expect(await tell('give-up', 3, { deadlock })).toEqual(found);
    expect(leasesIn(await lock())).toEqual([1, 2, 4].map(leaseOf));
    expect(await tell('give-up', 4, { deadlock, place: first })).toEqual(found);
    expect(leasesIn(await lock())).toEqual([1, 2].map(leaseOf));
  });

  it('of a lease that waits elsewhere moves no page up', async () => {
    const { tell, lock, first } = await longQueue(4);
    expect(await tell('give-up', 1, { deadlock, place: first })).toEqual(found);
    expect(await tell('give-up', 9, { deadlock, place: first })).toMatchObject({ kind: 'wait-timeout' });
    expect(await lock()).toMatchObject({ pages: { first }, queue: [{ leaseId: leaseOf(2) }] });
  });

  it('is remembered among the last ends only', async () => {
    const { tell, lock } = await longQueue(2 + lockLimits.endedRemembered + 1, { front: 2, page: 100 });
    for (let index = 3; index < 3 + lockLimits.endedRemembered + 1; index++) await tell('give-up', index, { deadlock });
    const { ended } = await lock();
    expect(ended).toHaveLength(lockLimits.endedRemembered);
    expect(ended[0]).toMatchObject({ leaseId: leaseOf(3 + lockLimits.endedRemembered) });
  });
});

describe('a waiter that joins', () => {
  it('is told that the queue is full when the last page that may be opened is full', async () => {
    const { queueLengthMax } = lockLimits;
    const full = await longQueue(3, { front: 2, page: queueLengthMax - 2 });
    await full.store.closePage({ lock: key, number: full.first }, full.time.now());
    expect(await full.ask(4, newcomer)).toEqual({ kind: 'queue-full' });
    const roomy = await longQueue(3, { front: 2, page: queueLengthMax - 3 });
    await roomy.store.closePage({ lock: key, number: roomy.first }, roomy.time.now());
    expect(await roomy.ask(4, newcomer)).toMatchObject({ kind: 'waiting' });
  });

  it('has its place even if the next page can not be opened', async () => {
    const { store, ask, first } = await longQueue(3);
    store.openPage = () => Promise.reject(new StoreError('unavailable', 'The store did not answer.'));
    expect(await ask(4, newcomer)).toMatchObject({ kind: 'waiting', page: first, position: 4 });
  });

  it('fails if something is wrong that is no failure of the store', async () => {
    const { store, ask } = await longQueue(3);
    store.openPage = () => Promise.reject(new TypeError('a fault in the code'));
    await expect(ask(4, newcomer)).rejects.toThrow('a fault in the code');
  });

  it('opens no page behind the last one that may be', async () => {
    const { time, store, ask } = await longQueue(2, { front: 2, page: lockLimits.queueLengthMax });
    let opened = 0;
    const open = store.openPage.bind(store);
    store.openPage = (...asked) => {
      opened += 1;
      return open(...asked);
    };
    const append = store.appendToPage.bind(store);
    // As if its last place was taken.
    const left = Array.from({ length: lockLimits.queueLengthMax }, () => ({
      leaseId: leaseOf(99),
      how: 'gave-up' as const,
      queuedAt: time.now(),
    }));
    store.appendToPage = async (...asked) => {
      const written = await append(...asked);
      return { ...written, page: { ...written.page, left } };
    };
    await ask(3, newcomer);
    expect(opened).toBe(1);
  });

  it('tries again after a pause if the keys of the pages take no writes for a moment', async () => {
    const { time, store, ask, newProcess, first } = await longQueue(3);
    const append = store.appendToPage.bind(store);
    let refusals = 3;
    store.appendToPage = async (...asked) => {
      refusals -= 1;
      if (refusals >= 0) throw new StoreError('throttled', 'The store asked for less traffic.');
      return append(...asked);
    };
    const joined = ask(4, newcomer, newProcess(false));
    await time.settle();
    expect(refusals, 'one try, and then a pause').toBe(2);
    await time.advance(1_000);
    expect(await joined).toMatchObject({ kind: 'waiting', page: first });
    expect(refusals).toBe(-1);
  });

  it('tries again also if the lock takes no new page for a moment', async () => {
    const { time, store, ask, newProcess, lock, first } = await longQueue(3);
    await store.closePage({ lock: key, number: first }, time.now());
    const open = store.openPage.bind(store);
    let refusals = 2;
    store.openPage = async (...asked) => {
      refusals -= 1;
      if (refusals >= 0) throw new StoreError('throttled', 'The store asked for less traffic.');
      return open(...asked);
    };
    const joined = ask(4, newcomer, newProcess(false));
    await time.advance(1_000);
    expect(await joined).toMatchObject({ kind: 'waiting', page: first + 1 });
    expect((await lock()).pages).toEqual({ first, last: first + 1 });
  });

  it('fills a page also with the places of those who left it', async () => {
    const { ask, tell, lock, first } = await longQueue(3);
    await tell('release', 3);
    await ask(4, newcomer);
    expect((await lock()).pages, 'whoever took the last place opened the next page').toEqual({
      first,
      last: first + 1,
    });
  });

  it('joins no second page if a copy of its request has moved up while it waited for its turn', async () => {
    const { time, store, context, ask, newProcess, lock, first } = await longQueue(3, { front: 2, page: 3 });
    const append = store.appendToPage.bind(store);
    store.appendToPage = async (...asked) => {
      store.appendToPage = append;
      await new Promise<void>((resolve) => time.after(1_000, resolve));
      return append(...asked);
    };
    const slow = ask(4, newcomer);
    const waitingForTurn = ask(5, newcomer);
    await time.settle();
    const other = newProcess();
    await ask(5, newcomer, other);
    await store.closePage({ lock: key, number: first }, time.now());
    await ask(6, newcomer, other);
    await ask(5, { ...waiting, place: first }, other);
    context.memory.learn(key, await lock());
    await time.advance(1_000);
    await slow;
    const answer = await waitingForTurn;
    expect(answer).toMatchObject({ kind: 'waiting', position: 4 });
    expect(answer, 'it waits in the front').not.toHaveProperty('page');
    const [whole] = await readWhole(context, [key]);
    expect(leasesIn(whole ?? unusedLock).filter((leaseId) => leaseId === leaseOf(5))).toHaveLength(1);
  });

  it('joins the page that another process has opened in the meantime', async () => {
    const { time, store, ask, newProcess, lock, first } = await longQueue(3);
    const slow = newProcess(false);
    slow.memory.learn(key, await lock());
    await ask(4, newcomer);
    const joined = ask(5, newcomer, slow);
    await time.advance(1_000);
    expect(await joined).toMatchObject({ kind: 'waiting', page: first + 1, position: 5 });
    expect((await store.read(key)).pages).toEqual({ first, last: first + 1 });
  });
});

describe('all waiters of a lock', () => {
  it('are found with one search, each with its page', async () => {
    const { context, first } = await longQueue(5);
    expect(await placesIn(context, key)).toEqual(
      new Map([
        [leaseOf(3), first],
        [leaseOf(4), first],
        [leaseOf(5), first + 1],
      ]),
    );
    expect(await placesIn(context, { ...key, name: 'unused' })).toEqual(new Map());
  });

  it('are shown in order, whether their pages are closed or not, and the store keeps its pages', async () => {
    const { time, store, context, lock, first } = await longQueue(6);
    await store.closePage({ lock: key, number: first }, time.now());
    const before = await lock();
    const [whole] = await readWhole(context, [key]);
    expect(leasesIn(whole ?? unusedLock)).toEqual([1, 2, 3, 4, 5, 6].map(leaseOf));
    expect(whole).not.toHaveProperty('pages');
    expect(await lock()).toBe(before);
  });
});

describe('a sweep of the pages', () => {
  it('ends the waits of parked waiters whose deadline has come, and tells the next deadline', async () => {
    const { time, store, context, ask, lock, first, waiterIn } = await longQueue(2);
    const startedAt = time.now();
    await ask(3, { ...parked, place: 'new', waitMs: 10_000 });
    await ask(4, { ...newcomer, waitMs: 1_000 });
    await ask(5, { ...parked, place: 'new', waitMs: 30_000 });
    await ask(6, { ...parked, place: 'new', waitMs: 20_000 });
    const sweep = async () => sweepPages(context, key, await lock());
    expect(await sweep()).toBe(startedAt + 10_000);
    await time.advance(9_999);
    await sweep();
    expect(await waiterIn((await lock()).pages?.first ?? first, 3)).toBeDefined();
    await time.advance(1);
    expect(await sweep()).toBe(startedAt + 20_000);
    const { pages = { first: 0 } } = await lock();
    expect(await waiterIn(pages.first, 3)).toBeUndefined();
    const [page] = await store.readPages([{ lock: key, number: pages.first }]);
    expect(page?.left).toMatchObject([{ how: 'gave-up' }]);
    expect(await waiterIn(pages.first, 4), 'it polls, so it ends its wait itself').toBeDefined();
    await time.advance(20_000);
    expect(await sweep()).toBeNull();
    expect(await sweepPages(context, key, unusedLock)).toBeNull();
  });
});

/** The names of the requests that reach the store from now on. */
function requestsTo(store: MemoryLockStore): string[] {
  const sent: string[] = [];
  const names = ['read', 'attempt', 'swap', 'enqueue', 'attend', 'leave', 'openPage', 'moveUp'] as const;
  for (const name of [...names, 'appendToPage', 'attendInPage', 'leavePage', 'closePage', 'readPages'] as const) {
    const request = store[name].bind(store) as (...asked: unknown[]) => never;
    Object.assign(store, {
      [name]: (...asked: unknown[]) => {
        sent.push(name);
        return request(...asked);
      },
    });
  }
  return sent;
}

const holdersOf = ({ holders }: LockState) => holders.map(({ leaseId }) => leaseId);

describe('a release of a lock with a long queue', () => {
  it('serves the front, and moves the first page up if the front is empty', async () => {
    const { tell, lock, first } = await longQueue(4);
    await tell('release', 0);
    expect(holdersOf(await lock())).toEqual([leaseOf(1)]);
    await tell('release', 1);
    await tell('release', 2);
    const { holders, queue, pages } = await lock();
    expect([holdersOf({ holders } as LockState), leasesIn({ queue }), pages?.first]).toEqual([
      [leaseOf(3)],
      [leaseOf(4)],
      first + 1,
    ]);
  });

  it('sends no write that would be refused, if the process knows that a page must move up', async () => {
    const { store, tell, lock } = await longQueue(4);
    await tell('release', 0);
    await tell('release', 1);
    const sent = requestsTo(store);
    await tell('release', 2);
    // The store in memory refuses every attempt.
    expect(sent).toEqual(['closePage', 'moveUp', 'attempt', 'swap']);
    expect(holdersOf(await lock())).toEqual([leaseOf(3)]);
  });

  it('does not hold up the notifier, which moves a page up ahead of need in the same moment', async () => {
    const { store, context, tell, lock, first, newProcess } = await longQueue(8, { front: 6, page: 2 });
    for (const holder of [0, 1, 2, 3]) await tell('release', holder);
    const sent = requestsTo(store);
    const close = store.closePage.bind(store);
    store.closePage = async (...asked) => {
      const page = await close(...asked);
      await tell('release', 4, {}, newProcess());
      return page;
    };
    await apply(context, key, { kind: 'refill' });
    expect(sent.filter((name) => name === 'moveUp' || name === 'swap')).toEqual(['swap', 'moveUp']);
    expect(holdersOf(await lock()), 'the release, by a process that swaps').toEqual([leaseOf(5)]);
    expect(leasesIn(await lock())).toEqual([6, 7, 8].map(leaseOf));
    expect((await lock()).pages).toEqual({ first: first + 1, last: first + 1 });
  });

  it('tries the common case first if others may have written since', async () => {
    const { time, store, tell, newProcess, lock } = await longQueue(4);
    await tell('release', 0);
    await tell('release', 1);
    const other = newProcess(false);
    other.memory.learn(key, await lock());
    await time.advance(101);
    const sent = requestsTo(store);
    await tell('release', 2, {}, other);
    expect(sent[0]).toBe('attempt');
  });

  it('skips pages whose waiters are all absent, however many there are', async () => {
    const { time, ask, tell, lock } = await longQueue(2);
    for (let index = 3; index <= 12; index++) await ask(index, { ...newcomer, attendMs: 1_000 });
    await ask(13, { ...newcomer, attendMs: 60_000 });
    await time.advance(25_000);
    await tell('release', 0);
    const { holders, queue, pages } = await lock();
    expect([holdersOf({ holders } as LockState), queue]).toEqual([[leaseOf(13)], []]);
    expect((pages?.last ?? 0) < (pages?.first ?? 0), 'no page is left').toBe(true);
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
    const { store, ask, tell, lock } = await longQueue(0);
    await tell('release', 0);
    for (const index of [1, 2]) await ask(index, { limit: 2, permits: 1 });
    await ask(3, { ...newcomer, limit: 2, permits: 1 });
    const sent = requestsTo(store);
    await tell('release', 1);
    expect(sent).toEqual(['swap']);
    expect(holdersOf(await lock())).toEqual([leaseOf(2), leaseOf(3)]);
  });

  it('shows each waiter of a page in the lock before it shows its grant or its end', async () => {
    const { store, time, ask, tell } = await longQueue(4);
    const seen = new Set<string>();
    const swap = store.swap.bind(store);
    const granted: string[] = [];
    store.swap = (lock, next) => {
      for (const { leaseId } of next.holders) if (!seen.has(leaseId)) granted.push(leaseId);
      for (const { leaseId } of [...next.queue, ...next.holders]) seen.add(leaseId);
      return swap(lock, next);
    };
    await time.advance(1_000);
    for (const index of [0, 1, 2]) await tell('release', index);
    await ask(9, { waitMs: 0 });
    expect(granted.filter((leaseId) => ![1, 2, 3].map(leaseOf).includes(leaseId))).toEqual([]);
  });
});

describe('a refill', () => {
  /** Another process has not seen the lock. Two waiters are left in the front, and two wait in a page. */
  async function lowFront() {
    const here = await longQueue(5, { front: 6, page: 2 });
    const { store, tell, newProcess, lock } = here;
    await here.ask(6, newcomer);
    await here.ask(7, newcomer);
    for (const holder of [0, 1, 2, 3]) await tell('release', holder);
    return { ...here, shown: await lock(), notifier: newProcess(false), sent: requestsTo(store) };
  }

  it('needs no read of the lock, because the record of the stream shows its first page', async () => {
    const { shown, notifier, sent, lock } = await lowFront();
    await refill(notifier, key, shown);
    expect(sent).toEqual(['closePage', 'moveUp']);
    expect((await lock()).pages?.first).toBe((shown.pages?.first ?? 0) + 1);
  });

  it('reads the lock if it was seen a while ago, and changes nothing if the page has moved up since', async () => {
    const { time, shown, notifier, context, sent, lock } = await lowFront();
    notifier.memory.learn(key, shown);
    await apply(context, key, { kind: 'refill' });
    const moved = await lock();
    await time.advance(101);
    sent.length = 0;
    await apply(notifier, key, { kind: 'refill' });
    expect(sent).toEqual(['attempt']);
    expect(await lock()).toBe(moved);
  });

  it('of an old record finds its page closed, and moves nobody up twice', async () => {
    const { shown, notifier, context, lock } = await lowFront();
    await apply(context, key, { kind: 'refill' });
    const { queue, pages } = await lock();
    await refill(notifier, key, shown);
    expect(await lock()).toMatchObject({ queue, pages });
  });

  it('moves one page up if few are left in the front, and grants to nobody while the lock is held', async () => {
    const { context, tell, lock, first } = await longQueue(7, { front: 3, page: 2 });
    await apply(context, key, { kind: 'refill' });
    expect((await lock()).pages?.first, 'the front is full').toBe(first);
    for (const index of [1, 2]) await tell('release', index);
    await apply(context, key, { kind: 'refill' });
    const { holders, queue, pages } = await lock();
    expect(holders.map(({ leaseId }) => leaseId)).toEqual([leaseOf(0)]);
    expect(leasesIn({ queue })).toEqual([3, 4, 5].map(leaseOf));
    expect(pages).toEqual({ first: first + 1, last: first + 2 });
  });
});

describe('a sweep for the waiters of a process', () => {
  it('grants what has expired, and returns the state after it', async () => {
    const { time, context, lock } = await longQueue(0);
    await apply(context, key, { kind: 'release', leaseId: leaseOf(0) });
    await apply(context, key, acquireOf(leaseOf(1), { leaseMs: 1_000 }));
    await apply(context, key, acquireOf(leaseOf(2), waiting));
    await time.advance(1_000 + lockLimits.graceMs);
    const swept = await sweepForWaiters(context, key);
    expect(holdersOf(swept)).toEqual([leaseOf(2)]);
    expect(swept).toBe(await lock());
  });
});

describe('a process that knows the lock', () => {
  it('joins the front by one write, and attends in it by one', async () => {
    const { time, store, ask } = await longQueue(0);
    const sent = requestsTo(store);
    await ask(1, newcomer);
    await time.advance(1);
    await ask(1);
    expect(sent).toEqual(['enqueue', 'attend']);
  });

  it('only reads the lock for a waiter that asks again and changes nothing', async () => {
    const { store, ask } = await longQueue(0);
    await ask(1, newcomer);
    const sent = requestsTo(store);
    await ask(1);
    expect(sent).toEqual(['read']);
  });

  it('joins the last page by one write', async () => {
    const { store, ask } = await longQueue(3);
    const sent = requestsTo(store);
    await ask(4, newcomer);
    // The waiter that fills a page opens the next one.
    expect(sent).toEqual(['appendToPage', 'openPage']);
  });

  it('reads the lock for a lease that may be known to it, and searches its pages', async () => {
    const { store, ask } = await longQueue(3);
    const sent = requestsTo(store);
    await ask(4);
    expect(sent).toEqual(['read', 'readPages', 'appendToPage', 'openPage']);
  });

  it('tries the front first if it was full, and nobody had opened a page', async () => {
    const { store, ask, newProcess, lock, tell } = await longQueue(2);
    const other = newProcess();
    other.memory.learn(key, await lock());
    await tell('release', 2);
    const sent = requestsTo(store);
    expect(await ask(3, newcomer, other)).toMatchObject({ kind: 'waiting', position: 2 });
    expect(sent).toEqual(['enqueue']);
    expect(await ask(4, newcomer)).toMatchObject({ kind: 'waiting', position: 3, page: expect.any(Number) });
  });

  it('tries to take the lock if somebody in it is under a session, because the session may be over', async () => {
    const { store, context, ask, tell } = await longQueue(0);
    await tell('release', 0);
    await context.sessionStore.create(key.namespace, {
      sessionId: 'session-0',
      owner: 'me',
      ttlMs: 60_000,
      createdAt: context.clock.now(),
      expiresAt: context.clock.now(),
      waits: [],
    });
    await ask(5, { leaseMs: null, sessionId: 'session-0' });
    const sent = requestsTo(store);
    await ask(6, newcomer);
    expect(sent[0]).toBe('attempt');
  });

  it('gives up a place in the front by one write, unless it is the first', async () => {
    const { store, tell, lock } = await longQueue(2);
    const sent = requestsTo(store);
    expect(await tell('release', 2)).toEqual({ kind: 'released', reason: 'cancelled' });
    expect(sent).toEqual(['attempt', 'leave']);
    expect(await tell('give-up', 1)).toMatchObject({ kind: 'wait-timeout' });
    expect((await lock()).queue).toEqual([]);
  });

  it('is told the position that others left it, if they joined at the same moment', async () => {
    const { store, ask, newProcess } = await longQueue(0, { front: 5, page: 2 });
    const enqueue = store.enqueue.bind(store);
    store.enqueue = async (...asked) => {
      store.enqueue = enqueue;
      await ask(1, newcomer, newProcess());
      return enqueue(...asked);
    };
    expect(await ask(2, newcomer)).toMatchObject({ kind: 'waiting', position: 2 });
  });
});

describe('the requests of one command', () => {
  const others = { limit: 2, permits: 1 };

  /** A lock with a free permit, an empty front, and two waiters in a page, as after many were served at once. */
  async function freePermit() {
    const world = await longQueue(0);
    const { context, store, ask, tell, lock, time } = world;
    await tell('release', 0);
    for (const index of [20, 21]) await ask(index, others);
    for (const index of [22, 23]) await ask(index, { ...newcomer, ...others });
    const [first = { leaseId: '' }, second = { leaseId: '' }] = (await lock()).queue;
    const page = { lock: key, number: 7 };
    for (const waiter of [first, second])
      await store.appendToPage(page, { waiter: waiter as Waiter, fence: 1 }, { front: 2, page: 2 });
    const state = await lock();
    const holders = state.holders.slice(0, 1);
    const { state: made } = await store.swap(key, {
      ...state,
      rev: state.rev + 1,
      changedAt: time.now(),
      holders,
      queue: [],
      pages: { first: 7, last: 7 },
    });
    context.memory.learn(key, made);
    return world;
  }

  it('that renews serve nobody else', async () => {
    const { context, store, lock } = await freePermit();
    const sent = requestsTo(store);
    await apply(context, key, { kind: 'renew', leaseId: leaseOf(20) });
    expect(sent).toEqual(['attempt', 'swap']);
    expect((await lock()).pages?.first).toBe(7);
  });

  it('write a page up before a newcomer that follows it, so that the stream shows who was there first', async () => {
    const { store, ask } = await freePermit();
    const writes: { first: number | undefined; leases: string[] }[] = [];
    const swap = store.swap.bind(store);
    store.swap = (lock, next) => {
      writes.push({ first: next.pages?.first, leases: [...next.holders, ...next.queue].map(({ leaseId }) => leaseId) });
      return swap(lock, next);
    };
    await ask(9, { ...waiting, ...others });
    expect(writes[0]).toEqual({ first: 8, leases: [20, 22, 23].map(leaseOf) });
  });

  it('search pages only for a lease that may wait there', async () => {
    const { context, time, store, ask, tell } = await longQueue(4);
    const other = { namespace: key.namespace, name: key.name };
    const sent = requestsTo(store);
    expect(await ask(9, { waitMs: 0 })).toEqual({ kind: 'held' });
    expect((await apply(context, other, { kind: 'renew', leaseId: leaseOf(9) })).answer).toMatchObject({
      kind: 'lost',
    });
    expect((await apply(context, other, { kind: 'revoke', fence: 1, reason: 'stuck' })).answer.kind).toBe('lost');
    expect(await tell('give-up', 0)).toMatchObject({ kind: 'granted' });
    await time.advance(600_000 + lockLimits.graceMs);
    expect(sent.filter((name) => name === 'readPages')).toEqual([]);
  });

  it('ask the lock for a renewal or a failed delivery of a lease that waits in a page', async () => {
    const { context, first, waiterIn } = await longQueue(3);
    const leaseId = leaseOf(3);
    expect((await apply(context, key, { kind: 'renew', leaseId })).answer).toEqual({
      kind: 'lost',
      reason: 'not_owner',
    });
    await apply(context, key, { kind: 'undelivered', leaseId, fence: 1 });
    expect(await waiterIn(first, 3)).toBeDefined();
  });

  it.each([
    ['of a whole lock', 2, 0],
    ['of a whole lock with pages', 4, 0],
    ['of a lease that the lock does not know', 4, 99],
  ])('that release begin with the common case %s', async (_what, waiters, index) => {
    const { store, tell } = await longQueue(waiters);
    const sent = requestsTo(store);
    await tell('release', index);
    expect(sent[0]).toBe('attempt');
  });

  it('that release a part begin with the common case if nobody waits', async () => {
    const { store, ask, tell } = await longQueue(0);
    await tell('release', 0);
    for (const index of [1, 2]) await ask(index, others);
    const sent = requestsTo(store);
    await tell('release', 1);
    expect(sent[0]).toBe('attempt');
  });

  it('that release a lease that is gone by now do not say that they released it', async () => {
    const { ask, tell, newProcess, lock } = await longQueue(0);
    await tell('release', 0);
    for (const index of [1, 2]) await ask(index, others);
    await ask(3, { ...newcomer, ...others });
    const other = newProcess();
    other.memory.learn(key, await lock());
    await tell('release', 1);
    expect(await tell('release', 1, {}, other)).toEqual({ kind: 'released', reason: 'already_released' });
    expect(await tell('release', 98, {}, other)).toMatchObject({ kind: 'lost' });
  });

  it('try an update that commutes twice, and then swap the whole state', async () => {
    const { store, ask } = await longQueue(0);
    store.enqueue = async () => ({ applied: false, state: await store.read(key), perhapsMine: false });
    const sent = requestsTo(store);
    expect(await ask(1, newcomer)).toMatchObject({ kind: 'waiting', position: 1 });
    expect(sent.filter((name) => name !== 'read')).toEqual(['enqueue', 'enqueue', 'swap']);
  });

  it('drop hundreds of dead pages without a pause, and close no page behind the first waiter that lives', async () => {
    const { time, store, ask, tell, lock } = await longQueue(1, { front: 1, page: 1 });
    const dead = 110;
    for (let index = 2; index < 2 + dead; index++) await ask(index, { ...newcomer, attendMs: 1_000 });
    for (const index of [200, 201, 202]) await ask(index, { ...newcomer, attendMs: 60_000 });
    await time.advance(25_000);
    const sent = requestsTo(store);
    await tell('release', 0);
    expect((await lock()).holders).toMatchObject([{ leaseId: leaseOf(200) }]);
    const count = (wanted: string) => sent.filter((name) => name === wanted).length;
    expect(count('closePage')).toBe(dead + 1);
    // Thirty-two pages are dropped in one write, and each read finds the dead ones among the next.
    expect(count('moveUp')).toBe(4);
    expect([count('attempt'), count('swap')], 'nothing is tried while the front is empty').toEqual([1, 1]);
    expect(count('readPages')).toBeLessThanOrEqual(4);
  });

  it('wait for their turn on a slow page, and send nothing to the lock meanwhile', async () => {
    const { time, store, ask, first } = await longQueue(3, { front: 2, page: 9 });
    const append = store.appendToPage.bind(store);
    store.appendToPage = async (...asked) => {
      await new Promise<void>((resolve) => time.after(2_500, resolve));
      return append(...asked);
    };
    const sent = requestsTo(store);
    const joining = [4, 5, 6, 7, 8].map((index) => ask(index, newcomer));
    await time.advance(15_000);
    for (const [index, answer] of (await Promise.all(joining)).entries())
      expect(answer).toMatchObject({ kind: 'waiting', page: first, position: 4 + index });
    expect(new Set(sent)).toEqual(new Set(['appendToPage']));
  });

  it('end with the advice to repeat them if their turn does not come in time', async () => {
    const { time, store, ask } = await longQueue(3, { front: 2, page: 9 });
    store.appendToPage = () => new Promise(() => {});
    void ask(4, newcomer);
    const late = ask(5, newcomer).catch((error: unknown) => error);
    await time.advance(14_000);
    const isOver = watched(late);
    await time.settle();
    expect(isOver.done).toBe(false);
    await time.advance(4_000);
    expect(await late).toMatchObject({ code: 'throttled' });
  });
});
