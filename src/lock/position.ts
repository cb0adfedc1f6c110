import type { Facts } from './commands.ts';
import type { LockState } from './state.ts';
import { isPresent } from './validity.ts';

/**
 * The place of a waiter, from one, counted among those who are there: the absent ahead of it will be dropped, not served, and the first behind
 * the dead is who has to look after the lock. Undefined where it does not wait.
 */
export function positionOf(state: LockState, leaseId: string, facts: Facts): number | undefined {
  const index = state.queue.findIndex((waiter) => waiter.leaseId === leaseId);
  return index < 0 ? undefined : state.queue.slice(0, index).filter((ahead) => isPresent(ahead, facts)).length + 1;
}
