import type { Context } from 'aws-lambda';
import type { AcquireOptions, HeldLock, Holdfast } from '../client/index.ts';

/** What every way of locking a handler takes. */
export interface InvocationLockOptions
  extends Omit<AcquireOptions, 'signal' | 'holdMsMax' | 'autoRenew' | 'onUnavailable' | 'onWaiting'> {
  /** One client for the whole life of the container, made outside the handler. */
  readonly locks: Holdfast;
}

/** A context with the lock on it. */
export type LockedContext<C extends Context = Context> = C & { readonly lock: HeldLock };

/** Kept back from the invocation's time, for the release and for the answer. */
const reserveMs = 500;
/** The shortest lease that the service grants. */
const leaseMsMin = 1_000;
/** What a lease lasts where nobody says otherwise: short enough that a container which dies is soon succeeded. */
const leaseMsDefault = 30_000;

/**
 * The options that fit into what is left of an invocation: no lease is longer than the invocation, none is renewed after it, and no
 * wait uses up the time that the work needs to fail cleanly.
 */
export function withinInvocation(
  { locks: _, waitMs, leaseMs, ...options }: InvocationLockOptions,
  context: Pick<Context, 'getRemainingTimeInMillis'>,
): AcquireOptions {
  const leftMs = Math.max(0, context.getRemainingTimeInMillis() - reserveMs);
  return {
    ...options,
    leaseMs: Math.round(Math.max(leaseMsMin, Math.min(leaseMs ?? leaseMsDefault, leftMs))),
    // A try by default: a waiting invocation costs as much as a working one.
    waitMs: Math.round(Math.min(waitMs ?? 0, leftMs / 2)),
    holdMsMax: leftMs,
  };
}
