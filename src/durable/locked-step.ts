/**
 * A part of a durable function that runs while a lock is held.
 *
 *     lease     a step: the lease id, which every replay finds again
 *     grant     a callback, which the service completes when the lock is granted
 *     park      a step: queues under that lease, with that callback
 *     …         the function is suspended and costs nothing, unless the lock was free
 *     the work  your own steps
 *     release   a step, after success and after failure
 *
 * A final refusal is the result of its step, and not an error: a step is tried again after every error. So each replay
 * finds the same refusal, and turns it into the same error.
 */
import type { DurableContext, DurableLogger, RetryDecision } from '@aws/durable-execution-sdk-js';
import { overBefore } from '../client/held.ts';
import {
  type ErrorCode,
  type Holdfast,
  HoldfastError,
  isHoldfastError,
  LeaseLostError,
  type ParkOptions,
  type Release,
  UnavailableError,
  WaitTimeoutError,
} from '../client/index.ts';
import { errorOf } from '../client/problem.ts';
import { systemRuntime } from '../client/runtime.ts';
import type { Answer } from '../client/transport.ts';

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
/** Tries to release: enough for a short outage. The result of the work should not wait for a long one. */
const releasesMax = 3;

/**
 * Runs the work while the lock is held. While the function waits for the lock, it is suspended and costs nothing. A
 * separate step releases the lock, even after a failure. Throws `WaitTimeoutError` if the lock was not granted within
 * `waitMs`, and `LeaseLostError` if the work succeeded after its lease had ended. If the release can't be sent, the
 * result of the work stands, and the lease ends by itself.
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
  { waitMs = dayMs, ...options }: LockedStepOptions,
  work: (lock: StepLock) => Promise<T>,
): Promise<T> {
  const leaseId = await ctx.step(`${name}: lease`, () => Promise.resolve(systemRuntime.newId()));
  const release = (): Promise<Release> =>
    ask(ctx, `${name}: release`, () => locks.release({ lock: name, leaseId }), releaseRetries);
  // The caller must see the first error. If the release fails too, the lease ends by itself.
  const giveBack = () => release().catch(() => undefined);

  const [granted, id] = await ctx.createCallback<Grant>(`${name}: grant`, {
    timeout: { seconds: Math.ceil(waitMs / 1_000) + callbackSlackSeconds },
    serdes: { deserialize: async (text) => (text === undefined ? undefined : (JSON.parse(text) as Grant)) },
  });
  const park = async (): Promise<Grant | null> => {
    const notify = { type: 'durable-callback', id } as const;
    const answer = await locks.park(name, { ...options, waitMs, leaseId, notify });
    return answer.status === 'granted' ? { fence: answer.fence } : null;
  };
  const parked = await ask(ctx, `${name}: park`, park).catch(async (error: unknown) => {
    // After a refusal there is nothing to release. If no answer came, there may be.
    if (!isRefusal(error)) await giveBack();
    throw error;
  });
  let value: T;
  try {
    const { fence } = parked ?? (await grantIn(granted, name, waitMs));
    const renew = async (step: string, leaseMs?: number) => {
      await ask(ctx, step, async () => void (await locks.adopt({ lock: name, leaseId }, { leaseMs })).detach());
    };
    value = await work({ name, fence, leaseId, renew });
  } catch (error) {
    await giveBack();
    throw error;
  }
  // If the release can't be sent, the work has still succeeded.
  const lost = await release().then(overBefore, () => undefined);
  if (lost === undefined) return value;
  // The work went well, but it ended too late: another holder may have worked at the same time.
  throw new LeaseLostError(`The lease on ${name} had ended before the work was done.`, lost);
}

type Retries = (error: Error, tries: number) => RetryDecision;

const releaseRetries: Retries = (_, tries) => ({ shouldRetry: tries < releasesMax, delay: { seconds: 2 * tries } });

/** Codes after which the same request may succeed later. Every other refusal is final. */
const temporary: ReadonlySet<ErrorCode> = new Set([
  'unavailable',
  'internal',
  'throttled',
  'queue-full',
  'closed',
  'unexpected-answer',
]);

const isRefusal = (error: unknown): error is HoldfastError => isHoldfastError(error) && !temporary.has(error.code);

/** The result of a step that asks the service. It is stored as JSON. */
type Asked<T> = { readonly value: T } | { readonly refusal: Answer };

/** Asks the service in a step. Only temporary failures are tried again. Throws the SDK's errors, also in a replay. */
async function ask<T>(ctx: Context, step: string, request: () => Promise<T>, retryStrategy?: Retries): Promise<T> {
  const asking = async (): Promise<Asked<T>> => {
    try {
      return { value: await request() };
    } catch (error) {
      if (isRefusal(error)) return { refusal: toAnswer(error) };
      throw error;
    }
  };
  const asked = await ctx
    .step(step, asking, retryStrategy === undefined ? {} : { retryStrategy })
    .catch((error: unknown) => Promise.reject(toUnavailable(error)));
  if ('refusal' in asked) throw errorOf(asked.refusal);
  return asked.value;
}

/** A refusal in the form in which the service sent it. `errorOf` makes the same error of it. */
function toAnswer(refusal: HoldfastError): Answer {
  const { status = 0, requestId, message: detail, ...fields } = { ...refusal, message: refusal.message };
  const headers: Answer['headers'] = requestId === undefined ? {} : { 'x-request-id': requestId };
  return { status, headers, body: { ...fields, detail } };
}

/** A step fails only after its tries are used up, with an error of its own. */
function toUnavailable(error: unknown): unknown {
  const { errorType, cause } = error as { errorType?: string; cause?: { message?: string } };
  if (errorType !== 'StepError') return error;
  return new UnavailableError(`The service gave no answer: ${cause?.message ?? 'unknown'}`, {}, { cause: error });
}

/** The errors with which the service fails a callback, as the errors that every other caller gets. */
const callbackErrors: Readonly<Record<string, (name: string, waitMs: number, cause: unknown) => HoldfastError>> = {
  WaitTimeout: (name, waitMs, cause) =>
    new WaitTimeoutError(`${name} was not granted within ${waitMs} ms.`, { waitedMs: waitMs }, { cause }),
  WaitCancelled: (name, _, cause) =>
    new HoldfastError('closed', `The place in the queue of ${name} was given up.`, { cause }),
  LeaseLost: (name, _, cause) =>
    new LeaseLostError(`${name} was granted, but the lease ended before the delivery.`, 'expired', { cause }),
};

async function grantIn(callback: PromiseLike<Grant>, name: string, waitMs: number): Promise<Grant> {
  try {
    return await callback;
  } catch (error) {
    const { errorType, cause } = error as { errorType?: string; cause?: { name?: string } };
    const description = `${cause?.name ?? ''} ${error instanceof Error ? error.message : ''}`;
    const said = errorType === 'CallbackTimeoutError' ? 'WaitTimeout' : /Holdfast\.(\w+)/.exec(description)?.[1];
    throw callbackErrors[said ?? '']?.(name, waitMs, error) ?? error;
  }
}
