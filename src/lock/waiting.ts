import type { Facts } from './commands.ts';
import type { LockState } from './state.ts';
import { isPresent } from './validity.ts';

/**
 * The position of a waiter, from one, counted among those that are present: absent waiters ahead of it will be dropped, not served, and
 * the first one behind them has to look after the lock. Undefined if it does not wait.
 */
export function positionOf(state: LockState, leaseId: string, facts: Facts): number | undefined {
  const index = state.queue.findIndex((waiter) => waiter.leaseId === leaseId);
  return index < 0 ? undefined : state.queue.slice(0, index).filter((ahead) => isPresent(ahead, facts)).length + 1;
}

/** How long a claim waited until the given instant. Two hosts wrote the two ends, and their clocks may differ by more than it lasted. */
export const waitedMs = (claim: { readonly queuedAt?: number }, until: number): number =>
  claim.queuedAt === undefined ? 0 : Math.max(0, until - claim.queuedAt);
