import { lockLimits } from '../lock/limits.ts';
import type { LockContext } from '../service/context.ts';
import { Problem } from './problems.ts';

interface Asked {
  readonly leaseMs?: number | undefined;
  readonly waitMs?: number | undefined;
  readonly sessionId?: string | undefined;
}

/** What was asked for, held against what this deployment allows. A lease that was not asked for is as long as usual, or as allowed. */
export function withinMaxima<T extends Asked>(context: LockContext, asked: T): T {
  const { leaseMsMax = lockLimits.leaseMsMax, waitMsMax = lockLimits.parkedWaitMsMax } = context;
  refuseAbove('leaseMs', asked.leaseMs, leaseMsMax);
  refuseAbove('waitMs', asked.waitMs, waitMsMax);
  if (asked.leaseMs !== undefined || asked.sessionId !== undefined || leaseMsMax >= lockLimits.leaseMsDefault)
    return asked;
  return { ...asked, leaseMs: leaseMsMax };
}

/** A renewal without a time of its own is for as long as the lease was granted for, which was allowed then. */
export function renewalWithin<T extends Asked>({ leaseMsMax = lockLimits.leaseMsMax }: LockContext, asked: T): T {
  refuseAbove('leaseMs', asked.leaseMs, leaseMsMax);
  return asked;
}

function refuseAbove(field: string, value: number | undefined, max: number): void {
  if (value === undefined || value <= max) return;
  const message = `must be at most ${max} in this deployment, got ${value}`;
  throw new Problem('invalid-request', `${field} ${message}.`, { errors: [{ field, message }] });
}
