import type { MiddlewareObj } from '@middy/core';
import type { Context } from 'aws-lambda';
import { type HeldLock, type Holdfast, LockHeldError, type OnceOptions, type OnceResult } from '../client/index.ts';
import { type LockedContext, nameFor, type PerEvent, withinInvocation } from './invocation.ts';
import { answerRefusal, type RefusalOptions } from './refusal.ts';

export interface HandlerOnceOptions<E> extends Omit<OnceOptions, 'signal' | 'holdMsMax'>, RefusalOptions {
  /** One client for the whole life of the container, made outside the handler. */
  readonly locks: Holdfast;
  /** The name of an event, such as an id that its sender repeats. If undefined, the handler runs each time. */
  readonly key: PerEvent<E, string | undefined>;
}

/** An answer that reports a failure of the handler. This caller gets it, and the next event runs the handler again. */
class FailedAnswer extends Error {
  override readonly name = 'FailedAnswer';
  readonly answer: unknown;

  constructor(statusCode: number, answer: unknown) {
    super(`The handler answered ${statusCode}.`);
    this.answer = answer;
  }
}

const checked = <R>(answer: R): R => {
  const { statusCode } = (answer ?? {}) as { statusCode?: unknown };
  if (typeof statusCode === 'number' && statusCode >= 500) throw new FailedAnswer(statusCode, answer);
  return answer;
};

async function runInInvocation<E, R>(
  options: HandlerOnceOptions<E>,
  key: string,
  context: Context,
  work: (lock: HeldLock) => R | Promise<R>,
): Promise<OnceResult<R>> {
  const { locks, everyMs, offsetMs, keepMs, onFailure, owner } = options;
  const { waitMs, leaseMs, holdMsMax } = withinInvocation(options, context);
  const job = { everyMs, offsetMs, keepMs, onFailure, owner, waitMs, leaseMs, holdMsMax };
  return locks.once(key, job, async (lock) => checked(await work(lock)));
}

/** The answer to an event that another caller is working on. It is the same as for a lock that is held. */
function answerRunning<E>(options: HandlerOnceOptions<E>, event: E): unknown {
  const error = new LockHeldError('Another caller is working on this event, and has no result yet.');
  return answerRefusal(event, error, options);
}

/**
 * A handler that works on each event once. Repeats of an event, even at the same time, get the first answer. The answer
 * must be JSON. After an error, or an HTTP answer of 500 and above, the next repeat runs the handler again.
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
  options: HandlerOnceOptions<E> & { readonly key: PerEvent<E, string> },
  handler: (event: E, context: LockedContext<C>) => R | Promise<R>,
): (event: E, context: C) => Promise<R> {
  return async (event, context) => {
    let entered = false;
    const work = (lock: HeldLock) => {
      entered = true;
      return handler(event, Object.assign(context, { lock }));
    };
    try {
      const result = await runInInvocation(options, nameFor(options.key, event, context) as string, context, work);
      return result.done ? result.value : (answerRunning(options, event) as R);
    } catch (error) {
      if (error instanceof FailedAnswer) return error.answer as R;
      if (entered) throw error;
      return answerRefusal(event, error, options) as R;
    }
  };
}

interface Run {
  readonly ended: Promise<OnceResult<unknown>>;
  succeed(answer: unknown): void;
  fail(error: unknown): void;
}

/**
 * The same as a middy middleware. Use it last, next to the handler: if other middlewares change the answer afterwards,
 * they change the answer of every repeat too.
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
  /** Keyed by context, because one container may run several invocations at once. */
  const runs = new WeakMap<object, Run>();
  return {
    before: async (request) => {
      const { event, context } = request;
      const key = nameFor(options.key, event, context);
      if (key === undefined) return;
      try {
        const result = await begin(options, key, context, runs);
        // Any answer here, even undefined, is the whole answer: the handler does not run.
        if (result !== undefined) {
          request.earlyResponse = result.done ? result.value : answerRunning(options, event);
        }
      } catch (error) {
        request.earlyResponse = answerRefusal(event, error, options);
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
      // The caller must see the handler's own error, even if the rest fails.
      await run?.ended.catch(() => undefined);
    },
  };
}

/** Resolves with nothing if the handler may run, or with the known answer. */
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
    // After the handler began, its hooks wait for `ended`. Before that, `ended` is the answer.
    ended.then(resolve, reject);
  });
}

function passFailedAnswer(error: unknown): { readonly value: unknown } {
  if (error instanceof FailedAnswer) return { value: error.answer };
  throw error;
}
