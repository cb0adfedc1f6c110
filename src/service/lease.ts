import type { LockKey } from '../store/lock-store.ts';
import { type Applied, apply } from './apply.ts';
import { factsAbout, type LockContext } from './context.ts';
import { withPages } from './pages.ts';

/** Extends a live lease. Its fence stays the same. */
export const renew = (
  context: LockContext,
  key: LockKey,
  { leaseId, leaseMs }: { leaseId: string; leaseMs?: number | undefined },
) => apply(context, key, { kind: 'renew', leaseId, ...(leaseMs === undefined ? {} : { leaseMs }) });

/** Releases a lease, or a place in the queue. The same write hands the lock to the next waiter. */
export const release = (context: LockContext, key: LockKey, { leaseId }: { leaseId: string }): Promise<Applied> =>
  apply(context, key, { kind: 'release', leaseId });

/** Ends the lease with this fence, for an operator. */
export const revoke = (
  context: LockContext,
  key: LockKey,
  { fence, reason }: { fence: number; reason: string },
): Promise<Applied> => apply(context, key, { kind: 'revoke', fence, reason });

/**
 * The lock as it is stored now, with its whole queue, and the facts to view it. One consistent read, and the pages if
 * there are any.
 */
export async function inspect(context: LockContext, key: LockKey): Promise<Omit<Applied, 'answer'>> {
  const state = await withPages(context, key, await context.store.read(key));
  return { state, facts: await factsAbout(context, key, state) };
}
