import type { MiddlewareObj } from '@middy/core';
import type { Context } from 'aws-lambda';
import {
  type HeldLock,
  type Holdfast,
  InvalidRequestError,
  LockHeldError,
  type OnceOptions,
  type OnceResult,
  PayloadMismatchError,
} from '../client/index.ts';
import { type LockedContext, nameFor, type PerEvent, withinInvocation } from './invocation.ts';
import { httpPayload, keyFrom, payloadDigest } from './key.ts';
import { answerBadKey, answerRefusal, isHttp, type RefusalOptions } from './refusal.ts';

export interface HandlerOnceOptions<E> extends Omit<OnceOptions, 'signal' | 'holdMsMax' | 'payload'>, RefusalOptions {
  /** One client for the whole life of the container, made outside the handler. */
  readonly locks: Holdfast;
  /**
   * The name of an event, such as an id that its sender repeats. It may have any characters. If undefined, the handler
   * runs each time. An HTTP request whose key is empty, or has a part such as `undefined`, gets 400.
   */
  readonly key: PerEvent<E, string | undefined>;
  /**
   * What must be the same in every repeat. A digest of it is kept. If the key comes again with another payload, an HTTP
   * caller gets 422, and other sources get `PayloadMismatchError`. By default method, path, query and body of an HTTP
   * request, and nothing for other events. `false` compares nothing.
   */
  readonly payload?: ((event: E) => unknown) | false | undefined;
}

const payloadOf = <E>({ payload }: HandlerOnceOptions<E>, event: E): string | undefined => {
  if (payload === false) return undefined;
  if (payload !== undefined) return payloadDigest(payload(event));
  return isHttp(event) ? payloadDigest(httpPayload(event)) : undefined;
};

/** An answer that reports a failure of the handler. This caller gets it, and the next event runs the handler again. */
class FailedAnswer extends Error {
  override readonly name = 'FailedAnswer';
  readonly answer: unknown;

  constructor(message: string, answer: unknown) {
    super(message);
    this.answer = answer;
  }
}

/** A batch of which a part failed comes again, so its answer must not be kept. */
const checked = <R>(answer: R): R => {
  const { statusCode, batchItemFailures } = (answer ?? {}) as { statusCode?: unknown; batchItemFailures?: unknown };
  if (typeof statusCode === 'number' && statusCode >= 500)
    throw new FailedAnswer(`The handler answered ${statusCode}.`, answer);
  if (Array.isArray(batchItemFailures) && batchItemFailures.length > 0)
    throw new FailedAnswer(`The handler reported ${batchItemFailures.length} failed messages.`, answer);
  return answer;
};

async function runInInvocation<E, R>(
  options: HandlerOnceOptions<E>,
  { key, event, context }: { readonly key: string; readonly event: E; readonly context: Context },
  work: (lock: HeldLock) => R | Promise<R>,
): Promise<OnceResult<R>> {
  const { locks, everyMs, offsetMs, keepMs, onFailure, owner } = options;
  const { waitMs, leaseMs, holdMsMax } = withinInvocation(options, context);
  const payload = payloadOf(options, event);
  const job = { everyMs, offsetMs, keepMs, onFailure, owner, payload, waitMs, leaseMs, holdMsMax };
  return locks.once(keyFrom(key), job, async (lock) => checked(await work(lock)));
}

/** The answer to an event that was not handled: its key is bad, or another caller has it, or the service is away. */
function answerUnhandled<E>(options: HandlerOnceOptions<E>, event: E, error: unknown): unknown {
  const isBadKey = error instanceof InvalidRequestError && error.errors.some(({ field }) => field === 'key');
  if (isBadKey || error instanceof PayloadMismatchError) return answerBadKey(event, error);
  return answerRefusal(event, error, options);
}

/** The answer to an event that another caller is working on. It is the same as for a lock that is held. */
function answerRunning<E>(options: HandlerOnceOptions<E>, event: E): unknown {
  const error = new LockHeldError('Another caller is working on this event, and has no result yet.');
  return answerRefusal(event, error, options);
}

/**
 * A handler that works on each event once. Repeats of an event, even at the same time, get the first answer. The answer
 * must be JSON. After an error, an HTTP answer of 500 and above, or a partial failure of a batch, the next repeat runs the
 * handler again. For the messages of an SQS queue use {@link onceRecords}: it keeps each message by itself.
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
      const key = nameFor(options.key, event, context);
      if (key === undefined) return await handler(event, context as LockedContext<C>);
      const result = await runInInvocation(options, { key, event, context }, work);
      return result.done ? result.value : (answerRunning(options, event) as R);
    } catch (error) {
      if (error instanceof FailedAnswer) return error.answer as R;
      if (entered) throw error;
      return answerUnhandled(options, event, error) as R;
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
        const result = await begin(options, { key, event, context }, runs);
        // Any answer here, even undefined, is the whole answer: the handler does not run.
        if (result !== undefined) {
          request.earlyResponse = result.done ? result.value : answerRunning(options, event);
        }
      } catch (error) {
        request.earlyResponse = answerUnhandled(options, event, error);
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
  asked: { readonly key: string; readonly event: E; readonly context: Context },
  runs: WeakMap<object, Run>,
): Promise<OnceResult<unknown> | undefined> {
  const { context } = asked;
  return new Promise((resolve, reject) => {
    const ended = runInInvocation(options, asked, (lock) => {
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
