import type { LockKey } from '../lock/state.ts';
import { leaseNameOf } from '../table/digest.ts';
import { defined } from '../tools/collections.ts';
import { type Applied, apply } from './apply.ts';
import type { LockContext } from './context.ts';

/** Extends a live lease. Its fence stays the same. */
export const renew = (
  context: LockContext,
  key: LockKey,
  { leaseId, leaseMs }: { leaseId: string; leaseMs?: number | undefined },
) =>
  apply(context, key, { kind: 'renew', leaseId: leaseNameOf(leaseId), ...(leaseMs === undefined ? {} : { leaseMs }) });

/** Releases a lease, or a place in the queue. The same write hands the lock to the next waiter. */
export const release = (context: LockContext, key: LockKey, { leaseId }: { leaseId: string }): Promise<Applied> =>
  apply(context, key, { kind: 'release', leaseId: leaseNameOf(leaseId) });

/** Ends the lease with this fence, for an operator. */
export const revoke = (
  context: LockContext,
  key: LockKey,
  { fence, reason, by }: { fence: number; reason: string; by?: string },
): Promise<Applied> => apply(context, key, { kind: 'revoke', fence, reason, ...defined({ by }) });
