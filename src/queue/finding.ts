/** Where the waiters of a lock are, over all its pages. */
import { hasMore, type LockKey, type LockState } from '../lock/state.ts';
import { type EpochMs, epochMs } from '../time/clock.ts';
import type { QueueContext } from './context.ts';
import { moveUp, type Page, pageNumbers } from './pages.ts';

/**
 * The page in which a lease waits, or in which it gave its place back. Undefined if there is none. `pagesMax`: how many pages
 * to search, from the end of the queue.
 */
export async function findPage(
  context: QueueContext,
  lock: LockKey,
  lease: string,
  state: LockState,
  pagesMax = Number.POSITIVE_INFINITY,
): Promise<number | undefined> {
  const pages = await readPages(context, lock, state, pagesMax);
  // A lease that left one page may wait in a later one.
  const found =
    pages.find(({ waiters }) => waiters.some((waiter) => waiter.leaseId === lease)) ??
    pages.find(({ left }) => left.some((entry) => entry.leaseId === lease && entry.how === 'released'));
  return found?.number;
}

/** The pages in which the waiters of a lock wait, by lease: one search for many of them. */
export async function pagesByLease(context: QueueContext, lock: LockKey): Promise<ReadonlyMap<string, number>> {
  const pages = await readPages(context, lock, await context.store.read(lock));
  return new Map(pages.flatMap(({ number, waiters }) => waiters.map(({ leaseId }) => [leaseId, number] as const)));
}

function readPages(
  context: QueueContext,
  lock: LockKey,
  state: LockState,
  pagesMax = Number.POSITIVE_INFINITY,
): Promise<Page[]> {
  if (!hasMore(state)) return Promise.resolve([]);
  const numbers = pageNumbers(state).slice(-pagesMax);
  return context.pages.read(numbers.map((number) => ({ lock, number })));
}

/** Locks with their whole queue in `queue`, for people and for the search for deadlocks. */
export async function readWhole(context: QueueContext, keys: readonly LockKey[]): Promise<LockState[]> {
  const states = await context.store.readMany(keys);
  return Promise.all(states.map((state, index) => withPages(context, keys[index] as LockKey, state)));
}

export async function withPages(context: QueueContext, lock: LockKey, state: LockState): Promise<LockState> {
  if (!hasMore(state)) return state;
  const pages = await readPages(context, lock, state);
  const { behind: _, ...whole } = pages.reduce<LockState>((merged, page) => moveUp(merged, asIfClosed(page)), state);
  return whole;
}

/** The page as if it were closed now, so that all its waiters count. */
const asIfClosed = (page: Page): Page => (page.closedAt === null ? { ...page, closedAt: epochMs(0) } : page);

/**
 * Ends the waits of parked waiters in pages whose deadline has come, because no request does it for them. Returns the next such deadline.
 * A waiter that polls ends its wait itself, or is dropped when its page moves up.
 */
export async function sweepPages(context: QueueContext, lock: LockKey, state: LockState): Promise<EpochMs | null> {
  const now = context.clock.now();
  const deadlines: number[] = [];
  for (const { number, waiters } of await readPages(context, lock, state)) {
    for (const { leaseId, deadlineAt, notify } of waiters) {
      if (notify === undefined) continue;
      if (deadlineAt > now) deadlines.push(deadlineAt);
      else await context.pages.write({ lock, number }, { kind: 'leave', leaseId, how: 'gave-up', now });
    }
  }
  return deadlines.length === 0 ? null : epochMs(Math.min(...deadlines));
}
