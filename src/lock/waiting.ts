import type { Facts } from './commands.ts';
import { isInPages, pageCount, positionInPage, sizesOf } from './pages.ts';
import type { LockState } from './state.ts';
import { isPresent } from './validity.ts';

/**
 * The position of a waiter in the front, from one. Absent waiters ahead of it don't count: they will be dropped, and the
 * first present waiter must sweep the lock. Undefined if the lease is not in the front.
 */
export function positionOf(state: LockState, leaseId: string, facts: Facts): number | undefined {
  const index = state.queue.findIndex((waiter) => waiter.leaseId === leaseId);
  return index < 0 ? undefined : state.queue.slice(0, index).filter((ahead) => isPresent(ahead, facts)).length + 1;
}

/** How long a claim waited until the given instant. Not below zero: two hosts wrote the two times, and their clocks may differ. */
export const waitedMs = (claim: { readonly queuedAt?: number }, until: number): number =>
  claim.queuedAt === undefined ? 0 : Math.max(0, until - claim.queuedAt);

/** An upper bound of the position of a waiter in a page. Undefined if the page has moved up. */
export const positionBehind = (state: LockState, page: number | undefined, facts: Facts): number | undefined =>
  page !== undefined && isInPages(state, page)
    ? positionInPage(state, page, sizesOf(facts).page - 1, sizesOf(facts))
    : undefined;

/** How many wait at most: the present waiters of the front, and all pages counted as full. */
export const depthOf = (state: LockState, facts: Facts): number =>
  state.queue.filter((waiter) => isPresent(waiter, facts)).length + pageCount(state) * sizesOf(facts).page;
