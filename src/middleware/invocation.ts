import type { Context } from 'aws-lambda';
import type { AcquireOptions, HeldLock, Holdfast } from '../client/index.ts';

/** The options that all wrappers of a handler share. */
export interface InvocationLockOptions
  extends Omit<AcquireOptions, 'signal' | 'holdMsMax' | 'autoRenew' | 'onUnavailable' | 'onWaiting'> {
  /** One client for the whole life of the container, made outside the handler. */
  readonly locks: Holdfast;
}

/** A context with the lock on it. */
export type LockedContext<C extends Context = Context> = C & { readonly lock: HeldLock };

/** Kept free at the end of the invocation, for the release and for the answer. */
const reserveMs = 500;
/** The shortest lease that the service grants. */
const leaseMsMin = 1_000;
/** The default lease: short enough that another container soon gets the lock if this one dies. */
const leaseMsDefault = 30_000;

/**
 * Fits the options into the rest of an invocation. No lease is longer than the invocation, and no lease is renewed after it. A wait
 * leaves enough time for the work to fail cleanly.
 */
export function withinInvocation(
  { locks: _, waitMs, leaseMs, ...options }: InvocationLockOptions,
  context: Pick<Context, 'getRemainingTimeInMillis'>,
): AcquireOptions {
  const leftMs = Math.max(0, context.getRemainingTimeInMillis() - reserveMs);
  return {
    ...options,
    leaseMs: Math.round(Math.max(leaseMsMin, Math.min(leaseMs ?? leaseMsDefault, leftMs))),
    // By default it does not wait: an invocation that waits costs as much as one that works.
    waitMs: Math.round(Math.min(waitMs ?? 0, leftMs / 2)),
    holdMsMax: leftMs,
  };
}
