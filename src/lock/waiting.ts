import type { Facts } from './commands.ts';
import { isInPages, pageCount, positionInPage, sizesOf } from './pages.ts';
import type { LockState } from './state.ts';
import { isPresent } from './validity.ts';

/**
 * The position in the front of a waiter, from one, counted among those that are present: absent waiters ahead of it will be dropped, not served, and
 * the first one behind them has to look after the lock. Undefined if it does not wait.
 */
export function positionOf(state: LockState, leaseId: string, facts: Facts): number | undefined {
  const index = state.queue.findIndex((waiter) => waiter.leaseId === leaseId);
  return index < 0 ? undefined : state.queue.slice(0, index).filter((ahead) => isPresent(ahead, facts)).length + 1;
}

/** How long a claim waited until the given instant. Two hosts wrote the two ends, and their clocks may differ by more than it lasted. */
export const waitedMs = (claim: { readonly queuedAt?: number }, until: number): number =>
  claim.queuedAt === undefined ? 0 : Math.max(0, until - claim.queuedAt);

/** An upper bound of the position of a waiter in a page; undefined if it is not in one any more. */
export const positionBehind = (state: LockState, page: number | undefined, facts: Facts): number | undefined =>
  page !== undefined && isInPages(state, page)
    ? positionInPage(state, page, sizesOf(facts).page - 1, sizesOf(facts))
    : undefined;

/** How many wait: those present in the front, and as many as may lie in the pages. */
export const depthOf = (state: LockState, facts: Facts): number =>
  state.queue.filter((waiter) => isPresent(waiter, facts)).length + pageCount(state) * sizesOf(facts).page;
