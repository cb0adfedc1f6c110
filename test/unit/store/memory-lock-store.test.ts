import { describe, expect, it } from 'vitest';
import { lockLimits } from '../../../src/lock/limits.ts';
import { emptyPage, type Page, queueSizes } from '../../../src/queue/pages.ts';
import { type LockKey, type LockState, unusedLock, type Waiter } from '../../../src/lock/state.ts';
import type { PageKey } from '../../../src/queue/lock-store.ts';
import { MemoryLockStore } from '../../../src/store/memory/lock-store.ts';
import { after } from '../../../src/time/clock.ts';
import { acquireOf, startOfTime } from '../../support/lock-worlds.ts';
import { alice, bob, carol, dave, LockStory } from '../lock/story.ts';

const key = { namespace: 'test', name: 'lock' };
const waiting = { waitMs: 60_000 };
const inMs = (ms: number) => after(startOfTime, ms);
const later = inMs(10);
const release = (leaseId: string) => ({ kind: 'release', leaseId }) as const;
const held = () => new LockStory().after(acquireOf(alice));
const queued = () => held().after(acquireOf(bob, waiting), acquireOf(carol, waiting));
const waiterOf = (leaseId: string, more: Partial<Waiter> = {}): Waiter => ({
  ...(held().after(acquireOf(dave, waiting)).state.queue[0] as Waiter),
  leaseId,
  ...more,
});
const arrivalOf = (waiter: Waiter, limit: number = waiter.permits, front = queueSizes.front) => ({
  waiter,
  limit,
  sizes: { front, page: 8 },
});

/** A store with one lock, and what its watcher is told from then on. */
async function storeWith({ state }: LockStory, more: Partial<LockState> = {}) {
  const told: unknown[] = [];
  const store = new MemoryLockStore({
    lockWritten: (lock: LockKey, before: LockState, next: LockState) => told.push([lock, before, next]),
    pageWritten: (page: PageKey, before: Page, next: Page) => told.push([page, before, next]),
  });
  const before = { ...state, ...more, rev: 1 };
  if (state.rev > 0) await store.swap(key, before);
  told.length = 0;
  return { store, told, before: state.rev === 0 ? unusedLock : before };
}
type Stored = Awaited<ReturnType<typeof storeWith>>;

async function expectWritten({ store, told, before }: Stored, written: Promise<unknown>, more: Partial<LockState>) {
  const next = { ...before, rev: before.rev + 1, ...more };
  expect(await written).toEqual({ applied: true, state: next });
  expect(await store.read(key)).toEqual(next);
  expect(told).toEqual([[key, before, next]]);
}

async function expectRefused({ store, told, before }: Stored, written: Promise<unknown>) {
  expect(await written).toEqual({ applied: false, state: before, perhapsMine: false });
  expect(await store.read(key)).toEqual(before);
  expect(told).toEqual([]);
}

describe('a lock in memory', () => {
  it('is unused at first, and is never written without a decision', async () => {
    const stored = await storeWith(new LockStory());
    expect(await stored.store.readMany([key, { ...key, name: 'other' }])).toEqual([unusedLock, unusedLock]);
    await expectRefused(stored, stored.store.attempt(key));
    const used = await storeWith(held());
    await expectRefused(used, used.store.attempt(key));
  });

  it.each([
    ['a lock that is held', held(), waiterOf(dave), 1_024],
    ['a lock that others wait for', queued(), waiterOf(dave), 1_024],
    [
      'more permits than are free',
      new LockStory().after(acquireOf(alice, { limit: 3 })),
      waiterOf(dave, { permits: 3 }),
      3,
    ],
    [
      'permits that others wait for',
      new LockStory().after(acquireOf(alice, { limit: 3 }), acquireOf(bob, { limit: 3, permits: 3, ...waiting })),
      waiterOf(dave, { permits: 1 }),
      3,
    ],
  ])('takes a waiter for %s', async (_what, lock, waiter, limit) => {
    const stored = await storeWith(lock);
    const queue = [...lock.state.queue, waiter];
    await expectWritten(stored, stored.store.enqueue(key, arrivalOf(waiter, limit)), {
      queue,
      changedAt: waiter.queuedAt,
    });
  });

  it.each<[string, LockStory, ReturnType<typeof arrivalOf>, Partial<LockState>?]>([
    ['a free lock', new LockStory(), arrivalOf(waiterOf(dave))],
    [
      'permits that fit',
      new LockStory().after(acquireOf(alice, { limit: 3 })),
      arrivalOf(waiterOf(dave, { permits: 2 }), 3),
    ],
    ['another limit', held(), arrivalOf(waiterOf(dave), 3)],
    ['a waiter that waits', queued(), arrivalOf(waiterOf(carol))],
    ['the holder', held(), arrivalOf(waiterOf(alice))],
    ['a lease that has ended', queued().after(release(carol)), arrivalOf(waiterOf(carol))],
    ['a lock with pages', held(), arrivalOf(waiterOf(dave)), { pages: { first: 7, last: 7 } }],
    ['a front that is full', queued(), arrivalOf(waiterOf(dave), undefined, 2)],
  ])('takes no waiter for %s', async (_what, lock, arrival, more) => {
    const stored = await storeWith(lock, more);
    await expectRefused(stored, stored.store.enqueue(key, arrival));
  });

  it.each([
    ['first', {}, undefined, { first: startOfTime, last: startOfTime }],
    ['next', { pages: { first: 7, last: 8 } }, { first: 7, last: 8 }, { first: 7, last: 9 }],
  ])('opens the %s page if the front is full', async (_which, more, seen, pages) => {
    const stored = await storeWith(queued(), more);
    const arrival = arrivalOf(waiterOf(dave), undefined, 2);
    await expectWritten(stored, stored.store.openPage(key, arrival, seen), { pages, changedAt: startOfTime });
  });

  it('opens a page behind others even if the front has room', async () => {
    const pages = { first: 7, last: 8 };
    const stored = await storeWith(held(), { pages });
    const opened = { pages: { first: 7, last: 9 }, changedAt: startOfTime };
    await expectWritten(stored, stored.store.openPage(key, arrivalOf(waiterOf(dave)), pages), opened);
  });

  it.each<[string, ReturnType<typeof arrivalOf>, LockState['pages'], Partial<LockState>?]>([
    ['the front has room', arrivalOf(waiterOf(dave)), undefined],
    ['the limit is another', arrivalOf(waiterOf(dave), 3, 2), undefined],
    ['another page was opened', arrivalOf(waiterOf(dave), undefined, 2), undefined, { pages: { first: 7, last: 7 } }],
    ['the page that was seen is not the last', arrivalOf(waiterOf(dave), undefined, 2), { first: 7, last: 7 }],
  ])('opens no page if %s', async (_why, arrival, seen, more) => {
    const stored = await storeWith(queued(), more);
    await expectRefused(stored, stored.store.openPage(key, arrival, seen));
  });

  it('moves the waiters of closed pages up, behind those of the front', async () => {
    const stored = await storeWith(queued(), { pages: { first: 7, last: 9 } });
    const waiters = [waiterOf(dave)];
    const moved = { pages: { first: 9, last: 9 }, queue: [...stored.before.queue, ...waiters], changedAt: inMs(10) };
    await expectWritten(stored, stored.store.moveUp(key, { from: 7, to: 9, waiters }, inMs(10)), moved);
  });

  it.each([
    ['another page is the first', { pages: { first: 8, last: 9 } }],
    ['there never were pages', {}],
  ])('moves nothing up if %s', async (_why, more) => {
    const stored = await storeWith(queued(), more);
    await expectRefused(stored, stored.store.moveUp(key, { from: 7, to: 8, waiters: [waiterOf(dave)] }, inMs(10)));
  });

  it('writes until when a waiter is present, and nothing else of it', async () => {
    const stored = await storeWith(queued());
    const [first, second] = stored.before.queue as [Waiter, Waiter];
    const told = { ...second, owner: 'another', presentUntil: inMs(99) };
    const queue = [first, { ...second, presentUntil: told.presentUntil }];
    await expectWritten(stored, stored.store.attend(key, 1, told, later), { queue, changedAt: later });
    const parked = { ...second, notify: { type: 'websocket', connectionId: 'one' } } as const;
    const other = await storeWith(queued());
    await expectRefused(other, other.store.attend(key, 0, told, later));
    await expectRefused(other, other.store.attend(key, 1, parked, later));
    await expectRefused(other, other.store.attend(key, 7, parked, later));
  });

  it.each([true, false])('lets a waiter leave, remembered: %s', async (isRemembered) => {
    const many = Array.from({ length: lockLimits.endedRemembered }, (_, index) => ({
      leaseId: `${index}`,
      how: 'expired',
    }));
    const stored = await storeWith(queued(), { ended: many as LockState['ended'] });
    const [first, second] = stored.before.queue as [Waiter, Waiter];
    const ended = isRemembered
      ? [{ leaseId: carol, how: 'released' as const }, ...stored.before.ended.slice(0, -1)]
      : stored.before.ended;
    const left = { queue: [first], ended, changedAt: later };
    await expectWritten(stored, stored.store.leave(key, 1, second, isRemembered, later), left);
  });

  it('lets nobody leave from another place', async () => {
    const stored = await storeWith(queued());
    await expectRefused(stored, stored.store.leave(key, 0, waiterOf(carol), true, later));
    await expectRefused(stored, stored.store.leave(key, 5, waiterOf(carol), true, later));
  });

  it('is swapped only at the revision that was decided on', async () => {
    const stored = await storeWith(held());
    for (const rev of [1, 3]) await expectRefused(stored, stored.store.swap(key, { ...stored.before, rev }));
    await expectWritten(stored, stored.store.swap(key, { ...stored.before, rev: 2, fence: 7 }), { fence: 7 });
  });

  it('is swapped with others: all or none', async () => {
    const { store, before } = await storeWith(held());
    const other = { ...key, name: 'other' };
    const swaps = (rev: number) => [
      { key: other, next: { ...before, rev: 1 } },
      { key, next: { ...before, rev } },
    ];
    expect(await store.swapAll(swaps(3))).toBe(false);
    expect(await store.read(other)).toEqual(unusedLock);
    expect(await store.swapAll(swaps(2))).toBe(true);
    expect((await store.readMany([key, other])).map(({ rev }) => rev)).toEqual([2, 1]);
  });

  it('is listed by name, in pages, within its namespace and prefix', async () => {
    const store = new MemoryLockStore();
    const { state } = held();
    for (const name of ['b2', 'a1', 'b1', 'b3']) await store.swap({ namespace: 'one', name }, { ...state, rev: 1 });
    await store.swap({ namespace: 'two', name: 'b4' }, { ...state, rev: 1 });
    const list = async (asked: Parameters<MemoryLockStore['list']>[1]) => {
      const { locks, ...rest } = await store.list('one', asked);
      return { names: locks.map(({ name, state: { rev } }) => `${name} at ${rev}`), ...rest };
    };
    expect(await list({ prefix: 'b', limit: 2 })).toStrictEqual({ names: ['b1 at 1', 'b2 at 1'], after: 'b2' });
    expect(await list({ prefix: 'b', after: 'b2', limit: 2 })).toStrictEqual({ names: ['b3 at 1'] });
    expect(await list({ prefix: 'b', limit: 1 })).toStrictEqual({ names: ['b1 at 1'], after: 'b1' });
    expect(await list({ prefix: 'b', limit: 3 })).toStrictEqual({ names: ['b1 at 1', 'b2 at 1', 'b3 at 1'] });
    expect(await list({ prefix: 'c', limit: 4 })).toStrictEqual({ names: [] });
    expect(await list({ prefix: '', limit: 0 })).toStrictEqual({ names: [] });
  });
});

describe('a page in memory', () => {
  const page = { lock: key, number: 7 };
  const joining = { waiter: waiterOf(bob), fence: 5 };
  const sizes = { front: 2, page: 1 };

  it('follows the rules of pages, step by step, and its watcher is told of each', async () => {
    const { store, told } = await storeWith(held());
    const empty = emptyPage(7);
    const joined = { ...empty, waiters: [joining.waiter], fence: 5 };
    expect(await store.appendToPage(page, joining, sizes)).toEqual({ applied: true, page: joined });
    expect(told).toEqual([[page, empty, joined]]);
    const full = await store.appendToPage(page, { waiter: waiterOf(carol), fence: 6 }, sizes);
    expect(full).toEqual({ applied: false, page: joined, perhapsMine: false });
    const presentUntil = inMs(99);
    expect(await store.attendInPage(page, { leaseId: bob, presentUntil })).toMatchObject({
      applied: true,
      page: { waiters: [{ presentUntil }] },
    });
    const absence = { leaseId: bob, presentUntil: later };
    expect(await store.stepAwayInPage(page, absence)).toMatchObject({ page: { waiters: [{ presentUntil: later }] } });
    expect(await store.leavePage(page, bob, 'gave-up')).toMatchObject({ page: { left: [{ how: 'gave-up' }] } });
    expect(await store.closePage(page, later)).toMatchObject({ closedAt: later });
    expect(told).toHaveLength(5);
    expect(await store.closePage(page, inMs(11)), 'closed once').toMatchObject({ closedAt: later });
    expect(told, 'nothing was written').toHaveLength(5);
  });

  it('belongs to one lock and has one number', async () => {
    const store = new MemoryLockStore();
    await store.appendToPage(page, joining, sizes);
    const others = [
      { ...page, number: 8 },
      { lock: { ...key, name: 'other' }, number: 7 },
    ];
    const read = await store.readPages([page, ...others]);
    expect(read.map(({ number, waiters }) => [number, waiters.length])).toEqual([
      [7, 1],
      [8, 0],
      [7, 0],
    ]);
  });
});
