import type { MiddlewareObj } from '@middy/core';
import type { Context } from 'aws-lambda';
import { type HeldLock, type Holdfast, LockHeldError, type OnceOptions, type OnceResult } from '../client/index.ts';
import { type LockedContext, withinInvocation } from './invocation.ts';
import { answerRefusal, type RefusalOptions } from './refusal.ts';

export interface HandlerOnceOptions<E> extends Omit<OnceOptions, 'signal' | 'holdMsMax'>, RefusalOptions {
  /** One client for the whole life of the container, made outside the handler. */
  readonly locks: Holdfast;
  /** What names an event, such as the id that its sender repeats. Undefined runs the handler each time. */
  readonly key: string | ((event: E, context: Context) => string | undefined);
}

const keyFor = <E>({ key }: HandlerOnceOptions<E>, event: E, context: Context): string | undefined =>
  typeof key === 'function' ? key(event, context) : key;

/** An answer that says that the handler failed. This caller gets it, and the next event runs the handler again. */
class FailedAnswer extends Error {
  readonly answer: unknown;

  constructor(answer: unknown) {
    const { statusCode } = answer as { statusCode: number };
    super(`The handler answered ${statusCode}.`);
    this.name = 'FailedAnswer';
    this.answer = answer;
  }
}

const isFailure = (answer: unknown): boolean => {
  const { statusCode } = (answer ?? {}) as { statusCode?: unknown };
  return typeof statusCode === 'number' && statusCode >= 500;
};

const checked = <R>(answer: R): R => {
  if (isFailure(answer)) throw new FailedAnswer(answer);
  return answer;
};

async function runInInvocation<E, R>(
  options: HandlerOnceOptions<E>,
  key: string,
  context: Context,
  work: (lock: HeldLock) => R | Promise<R>,
): Promise<OnceResult<R>> {
  const { locks, everyMs, offsetMs, keepMs, onFailure, leaseMs, owner } = options;
  const within = withinInvocation({ locks, waitMs: options.waitMs, leaseMs, owner }, context);
  const { waitMs, leaseMs: fittingMs, holdMsMax } = within;
  const job = { everyMs, offsetMs, keepMs, onFailure, owner, waitMs, leaseMs: fittingMs, holdMsMax };
  return locks.once(key, job, async (lock) => checked(await work(lock)));
}

/** The answer to an event that somebody else is working on: as for a lock that is held. */
function answerRunning<E>(options: HandlerOnceOptions<E>, event: E): unknown {
  const error = new LockHeldError('Somebody else is at work on this event, and its result is not there yet.');
  const answer = answerRefusal(event, error, options);
  if (answer === undefined) throw error;
  return answer;
}

/**
 * A handler that works on each event once. Repeats of an event, also at the same time, get the answer of the first. It must be JSON.
 * An error, or an HTTP answer of 500 and above, leaves the event open: the next repeat is worked on.
 *
 * @example
 * ```ts
 * export const handler = withOnceHandler(
 *   { locks, key: (event) => `webhook:${event.headers['webhook-id']}`, waitMs: 5_000 },
 *   async (event, { lock }) => ({ statusCode: 200, body: await charge(event, lock.fence) }),
 * );
 * ```
 */
export function withOnceHandler<E, R, C extends Context = Context>(
  options: HandlerOnceOptions<E> & { readonly key: string | ((event: E, context: Context) => string) },
  handler: (event: E, context: LockedContext<C>) => R | Promise<R>,
): (event: E, context: C) => Promise<R> {
  return async (event, context) => {
    let entered = false;
    const work = (lock: HeldLock) => {
      entered = true;
      return handler(event, Object.assign(context, { lock }));
    };
    try {
      const result = await runInInvocation(options, keyFor(options, event, context) as string, context, work);
      return result.done ? result.value : (answerRunning(options, event) as R);
    } catch (error) {
      if (error instanceof FailedAnswer) return error.answer as R;
      const answer = entered ? undefined : answerRefusal(event, error, options);
      if (answer === undefined) throw error;
      return answer as R;
    }
  };
}

interface Run {
  readonly ended: Promise<OnceResult<unknown>>;
  succeed(answer: unknown): void;
  fail(error: unknown): void;
}

/**
 * The same as a middy middleware. Use it last, next to the handler: what other middlewares make of the answer afterwards is made of
 * every repeat's answer too.
 *
 * @example
 * ```ts
 * export const handler = middy<APIGatewayProxyEventV2>()
 *   .use(holdfastOnce({ locks, key: (event) => `webhook:${event.headers['webhook-id']}` }))
 *   .handler(async (event, context) => ({ statusCode: 200, body: await charge(event, context.lock.fence) }));
 * ```
 */
export function holdfastOnce<E = unknown>(
  options: HandlerOnceOptions<E>,
): MiddlewareObj<E, unknown, Error, LockedContext> {
  /** By context, since one container may run several invocations at once. */
  const runs = new WeakMap<object, Run>();
  return {
    before: async (request) => {
      const { event, context } = request;
      const key = keyFor(options, event, context);
      if (key === undefined) return;
      try {
        const result = await begin(options, key, context, runs);
        // An answer here, undefined included, is the whole answer: the handler does not run.
        if (result !== undefined) {
          request.earlyResponse = result.done ? result.value : answerRunning(options, event);
        }
      } catch (error) {
        const answer = answerRefusal(event, error, options);
        if (answer === undefined) throw error;
        request.earlyResponse = answer;
      }
    },
    after: async (request) => {
      const run = runs.get(request.context);
      runs.delete(request.context);
      run?.succeed(request.response);
      const result = await run?.ended.catch(passFailedAnswer);
      if (result !== undefined) request.response = result.value;
    },
    onError: async ({ context, error }) => {
      const run = runs.get(context);
      runs.delete(context);
      run?.fail(error);
      // The handler's own error is what the caller must see, whatever becomes of the rest.
      await run?.ended.catch(() => undefined);
    },
  };
}

/** Resolves when the handler may run, with nothing, or with what is known without running it. */
async function begin<E>(
  options: HandlerOnceOptions<E>,
  key: string,
  context: Context,
  runs: WeakMap<object, Run>,
): Promise<OnceResult<unknown> | undefined> {
  return new Promise((resolve, reject) => {
    const ended = runInInvocation(options, key, context, (lock) => {
      Object.assign(context, { lock });
      const outcome = new Promise<unknown>((succeed, fail) => runs.set(context, { ended, succeed, fail }));
      resolve(undefined);
      return outcome;
    });
    // Once the handler runs, its own hooks wait for this end; before that, it is the answer.
    ended.then(resolve, reject);
  });
}

function passFailedAnswer(error: unknown): { readonly value: unknown } {
  if (error instanceof FailedAnswer) return { value: error.answer };
  throw error;
}
