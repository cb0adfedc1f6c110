/**
 * A part of a durable function that runs while a lock is held.
 *
 *     lease     a step: the lease id, which every replay finds again
 *     grant     a callback, which the service completes when the lock is granted
 *     park      a step: queues under that lease, with that callback
 *     …         the function is suspended and costs nothing, unless the lock was free
 *     the work  your own steps
 *     release   a step, after success and after failure
 */
import type { DurableContext, DurableLogger } from '@aws/durable-execution-sdk-js';
import {
  type Holdfast,
  HoldfastError,
  LeaseLostError,
  type LostReason,
  type ParkOptions,
  type Release,
  WaitTimeoutError,
} from '../client/index.ts';
import { systemRuntime } from '../client/runtime.ts';

/** How a durable function waits for its lock, and for how long it may hold it. */
export interface LockedStepOptions extends Omit<ParkOptions, 'notify' | 'waitMs' | 'leaseId' | 'leaseMs' | 'tier'> {
  /**
   * The longest time to hold the lock, 1,000 to 86,400,000. Nothing renews the lease while the function is suspended.
   * Choose a longer time than the work takes, with its waits and retries, or call {@link StepLock.renew} between your
   * steps.
   */
  readonly leaseMs: number;
  /** How long to wait, up to 86,400,000, which is a day and the default: a suspended function costs nothing. */
  readonly waitMs?: number | undefined;
}

/** The lock that the work holds. */
export interface StepLock {
  readonly name: string;
  /** Send it with every write: the resource refuses a fence below the highest one it has seen. */
  readonly fence: number;
  /** Anybody who has it can use the lock: keep it like a password. */
  readonly leaseId: string;
  /** Renews in a step of this name, for `leaseMs` from now on if it is given. Throws if the lease is over. */
  renew(step: string, leaseMs?: number): Promise<void>;
}

type Context = DurableContext<DurableLogger>;

interface Grant {
  readonly fence: number;
}

const dayMs = 86_400_000;
/** The service ends a wait by its own clock and reports it. This later timeout is for the case that it can't. */
const callbackSlackSeconds = 300;

/**
 * Runs the work while the lock is held. While the function waits for the lock, it is suspended and costs nothing. A
 * separate step releases the lock, even after a failure. Throws `WaitTimeoutError` if the lock was not granted within
 * `waitMs`, and `LeaseLostError` if the work succeeded after its lease had ended.
 *
 * @example
 * ```ts
 * export const handler = withDurableExecution(async (event, ctx) =>
 *   lockedStep(ctx, locks, `wallet:${event.wallet}`, { leaseMs: 600_000 }, async ({ fence }) => {
 *     await ctx.step('debit', () => debit(event.wallet, fence));
 *   }),
 * );
 * ```
 */
export async function lockedStep<T>(
  ctx: Context,
  locks: Holdfast,
  name: string,
  options: LockedStepOptions,
  work: (lock: StepLock) => Promise<T>,
): Promise<T> {
  const leaseId = await ctx.step(`${name}: lease`, () => Promise.resolve(systemRuntime.newId()));
  const release = (): Promise<Release> => ctx.step(`${name}: release`, () => locks.release({ lock: name, leaseId }));
  let value: T;
  try {
    const { fence } = await waitForGrant(ctx, locks, name, leaseId, options);
    const renew = async (step: string, leaseMs?: number) => {
      await ctx.step(step, async () => void (await locks.adopt({ lock: name, leaseId }, { leaseMs })).detach());
    };
    value = await work({ name, fence, leaseId, renew });
  } catch (error) {
    // The caller must see the error of the work. If the release fails, the lease ends by itself.
    await release().catch(() => undefined);
    throw error;
  }
  const { released, reason } = await release();
  if (released || reason === 'already_released') return value;
  // If the work ended after its lease, another holder may have worked at the same time. The caller must know, even if
  // all went well.
  throw new LeaseLostError(`The lease on ${name} had ended before the work was done.`, reason as LostReason);
}

async function waitForGrant(
  ctx: Context,
  locks: Holdfast,
  name: string,
  leaseId: string,
  { waitMs = dayMs, ...options }: LockedStepOptions,
): Promise<Grant> {
  const [granted, id] = await ctx.createCallback<Grant>(`${name}: grant`, {
    timeout: { seconds: Math.ceil(waitMs / 1_000) + callbackSlackSeconds },
    serdes: { deserialize: async (text) => (text === undefined ? undefined : (JSON.parse(text) as Grant)) },
  });
  const parked = await ctx.step(`${name}: park`, async () => {
    const answer = await locks.park(name, { ...options, waitMs, leaseId, notify: { type: 'durable-callback', id } });
    return answer.status === 'granted' ? { fence: answer.fence } : null;
  });
  if (parked !== null) return parked;
  try {
    return await granted;
  } catch (error) {
    throw toHoldfastError(error, name, waitMs);
  }
}

/** Turns the error with which the service failed the callback into the error that every other caller gets. */
function toHoldfastError(error: unknown, name: string, waitMs: number): unknown {
  const { errorType, cause } = error as { errorType?: string; cause?: { name?: string } };
  const description = `${cause?.name ?? ''} ${error instanceof Error ? error.message : ''}`;
  if (errorType === 'CallbackTimeoutError' || description.includes('Holdfast.WaitTimeout')) {
    return new WaitTimeoutError(`${name} was not granted within ${waitMs} ms.`, { waitedMs: waitMs }, { cause: error });
  }
  if (description.includes('Holdfast.WaitCancelled')) {
    return new HoldfastError('closed', `The place in the queue of ${name} was given up.`, { cause: error });
  }
  if (description.includes('Holdfast.LeaseLost')) {
    return new LeaseLostError(`${name} was granted, but the lease ended before the delivery.`, 'expired', {
      cause: error,
    });
  }
  return error;
}
