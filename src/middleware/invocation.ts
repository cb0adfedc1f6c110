import type { Context } from 'aws-lambda';
import { runUnder } from '../client/held.ts';
import type { AcquireOptions, HeldLock, Holdfast } from '../client/index.ts';
import { acquireOptionsIn } from '../client/lock-options.ts';

/** The options that all wrappers of a handler share. */
export interface InvocationLockOptions
  extends Omit<AcquireOptions, 'signal' | 'holdMsMax' | 'autoRenew' | 'onUnavailable' | 'onWaiting'> {
  /** One client for the whole life of the container, made outside the handler. */
  readonly locks: Holdfast;
}

/** A context with the lock on it. */
export type LockedContext<C extends Context = Context> = C & { readonly lock: HeldLock };

/** Each lock of a batch gets its own context, because other messages run under other locks at the same time. */
export const contextWith = (context: Context, lock: HeldLock): LockedContext =>
  Object.assign(Object.create(context) as Context, { lock });

/** A name or key that may depend on the event. */
export type PerEvent<E, Name> = string | ((event: E, context: Context) => Name);

export const nameFor = <E>(name: PerEvent<E, string | undefined>, event: E, context: Context): string | undefined =>
  typeof name === 'function' ? name(event, context) : name;

/** Reserved at the end of the invocation for the release and the answer. */
const reserveMs = 500;
/** For an acquire that gets no answer from the service: two seconds, the same as the client's own default. */
const deadlineMsDefault = 2_000;
/** Reserved for the answer after the release. */
const answerMs = 100;
/** A release takes tens of milliseconds. After five seconds the lease ends by itself. */
const releaseMsMin = 100;
const releaseMsMax = 5_000;
/** The shortest lease that the service grants. */
const leaseMsMin = 1_000;
/** The default lease: short enough that another container soon gets the lock if this one dies. */
const leaseMsDefault = 30_000;

/** True if there is still time for the shortest lease. Work that would be cut off should not begin. */
export const hasTimeLeft = ({ getRemainingTimeInMillis }: Pick<Context, 'getRemainingTimeInMillis'>): boolean =>
  getRemainingTimeInMillis() >= reserveMs + leaseMsMin;

/**
 * Fits the options into the rest of an invocation. No lease is longer than the invocation, and no lease is renewed
 * after it. A wait leaves enough time for the work to fail cleanly.
 */
export function withinInvocation(
  { locks, waitMs, leaseMs, deadlineMs, ...options }: InvocationLockOptions,
  context: Pick<Context, 'getRemainingTimeInMillis'>,
): AcquireOptions {
  const leftMs = Math.max(0, context.getRemainingTimeInMillis() - reserveMs);
  const { defaults } = locks;
  const wantedLeaseMs = leaseMs ?? defaults.leaseMs ?? leaseMsDefault;
  // By default it does not wait: an invocation that waits costs as much as one that works.
  const wantedWaitMs = waitMs ?? defaults.waitMs ?? 0;
  return {
    ...acquireOptionsIn(options),
    leaseMs: Math.round(Math.max(leaseMsMin, Math.min(wantedLeaseMs, leftMs))),
    waitMs: Math.round(Math.min(wantedWaitMs, leftMs / 2)),
    holdMsMax: leftMs,
    // Even if the service does not answer, the invocation ends by itself with an error.
    deadlineMs: Math.max(1, Math.min(deadlineMs ?? wantedWaitMs + deadlineMsDefault, leftMs)),
  };
}

/** How long a release may take at the end of an invocation: the answer must still be sent. */
export const releaseWithin = (context: Pick<Context, 'getRemainingTimeInMillis'>): { readonly deadlineMs: number } => ({
  deadlineMs: Math.max(releaseMsMin, Math.min(releaseMsMax, context.getRemainingTimeInMillis() - answerMs)),
});

/** Like `withLock`, with a release that leaves time for the answer. */
export async function underLock<T>(
  locks: Holdfast,
  name: string,
  options: AcquireOptions,
  context: Pick<Context, 'getRemainingTimeInMillis'>,
  work: (lock: HeldLock) => T | Promise<T>,
): Promise<T> {
  return runUnder(await locks.acquire(name, options), work, () => releaseWithin(context));
}
