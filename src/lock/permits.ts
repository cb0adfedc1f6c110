/**
 * One way to count permits for every kind of lock.
 *
 * A semaphore has N permits. A read-write lock is a semaphore whose writers take every permit, and a mutex is
 * a read-write lock that has only writers, so a plain acquire and a reader of the same name exclude each other.
 */

/** More than the largest semaphore (1,000), so a read-write lock and a semaphore never have the same limit. It is also the most readers at once. */
export const everyPermit = 1_024;

export type LockMode = 'exclusive' | 'shared';

export interface Demand {
  readonly limit: number;
  readonly permits: number;
}

/** Turns what a caller asked for into permits of a semaphore. `limit: 1` is a mutex. */
export function demandOf(asked: {
  limit?: number | undefined;
  permits?: number | undefined;
  mode?: LockMode | undefined;
}): Demand {
  if (asked.mode === 'shared') return { limit: everyPermit, permits: 1 };
  const limit = asked.limit ?? 1;
  if (limit === 1) return { limit: everyPermit, permits: everyPermit };
  return { limit, permits: asked.permits ?? 1 };
}

/** The permits of a holder or waiter as callers see them. An exclusive claim counts as one permit. */
export const shownPermits = (permits: number): number => (permits === everyPermit ? 1 : permits);

/** The limit as callers see it: 1 for a mutex, and the most readers while a read-write lock has readers. */
export function shownLimit(limit: number, holders: readonly { readonly permits: number }[]): number {
  if (limit !== everyPermit) return limit;
  return holders.some((holder) => holder.permits < everyPermit) ? everyPermit : 1;
}
