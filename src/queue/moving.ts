/** Pages move up into the front. Each page is closed first, and then one write to the lock appends its waiters. */
import { hasMore, type LockKey, type LockState } from '../lock/state.ts';
import { StoreError } from '../table/store-error.ts';
import type { QueueContext } from './context.ts';
import { isInPages, type MovedPages, movedBetween, moveUp, type Page, pageNumbers } from './pages.ts';

/** Others may move the same pages up at the same time. After this many tries something else is wrong. */
const movesMax = 50;

/** The state as it will be after its first pages moved up, and the pages that were closed for that. */
export interface Closed {
  readonly state: LockState;
  readonly count: number;
}

/**
 * Closes the first page, or if it was closed before, as many as have no present waiter, and one more: if many died together, one
 * request finds their pages. If the process dies then, closed pages are left, and the next caller moves them up in the same way.
 */
export async function closePages(context: QueueContext, lock: LockKey, state: LockState, max: number): Promise<Closed> {
  const numbers = max === 1 ? pageNumbers(state).slice(0, 1) : await absentPages(context, lock, state, max);
  const pages = await Promise.all(numbers.map((number) => closePage(context, lock, number)));
  return { state: pages.reduce(moveUp, state), count: pages.length };
}

/** Appends the waiters of closed pages to the front. Refused if somebody else did it: then the refusal shows it. */
export async function moveClosed(context: QueueContext, lock: LockKey, pages: MovedPages): Promise<LockState> {
  const written = await context.store.write(lock, { kind: 'move-up', pages, now: context.clock.now() });
  context.cache.learn(lock, written.state);
  return written.state;
}

const closePage = async ({ pages, clock }: QueueContext, lock: LockKey, number: number): Promise<Page> =>
  (await pages.write({ lock, number }, { kind: 'close', now: clock.now() })).page;

/** The first pages without a present waiter, and one more. */
async function absentPages(context: QueueContext, lock: LockKey, state: LockState, max: number): Promise<number[]> {
  const numbers = pageNumbers(state).slice(0, max);
  const pages = await context.pages.read(numbers.map((number) => ({ lock, number })));
  const now = context.clock.now();
  const present = pages.findIndex(({ waiters }) => waiters.some(({ presentUntil }) => now < presentUntil));
  return present < 0 ? numbers : numbers.slice(0, present + 1);
}

/** Moves all pages up to this one into the front. This page is already closed, and the process that closed it may have died. */
export async function moveUpThrough(context: QueueContext, lock: LockKey, number: number): Promise<void> {
  for (let tries = 0; tries < movesMax; tries++) {
    const state = await context.store.read(lock);
    context.cache.learn(lock, state);
    if (!hasMore(state) || !isInPages(state, number)) return;
    const page = await closePage(context, lock, state.behind.first);
    await moveClosed(context, lock, movedBetween(state, moveUp(state, page)) as MovedPages);
  }
  throw new StoreError('conflict', 'Others kept writing to this lock.');
}
