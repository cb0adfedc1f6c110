import type { MiddlewareObj } from '@middy/core';
import type { Context } from 'aws-lambda';
import { releaseAfterWork } from '../client/held.ts';
import type { HeldLock } from '../client/index.ts';
import {
  type InvocationLockOptions,
  type LockedContext,
  nameFor,
  type PerEvent,
  releaseWithin,
  underLock,
  withinInvocation,
} from './invocation.ts';
import { answerRefusal, type RefusalOptions } from './refusal.ts';

export interface HandlerLockOptions<E> extends InvocationLockOptions, RefusalOptions {
  /** The lock that an event needs. If it is undefined, the handler runs without a lock. */
  readonly name: PerEvent<E, string | undefined>;
}

/**
 * A middy middleware. The handler runs while the lock is held, and finds it as `context.lock`. The lock is released in
 * every case. If the lock is refused, an HTTP caller gets 409, an SQS batch fails, and every other source gets an
 * error. If the work succeeds after its lease was lost, it fails with `LeaseLostError`.
 *
 * Use it last, next to the handler. If another middleware answers early, middy skips the rest of the chain, and a
 * skipped middleware releases nothing. Even then the lease is not renewed beyond the invocation.
 *
 * @example
 * ```ts
 * export const handler = middy<APIGatewayProxyEventV2>()
 *   .use(holdfastLock({ locks, name: (event) => `wallet:${event.pathParameters?.id}`, waitMs: 2_000 }))
 *   .handler(async (event, context) => debit(event, context.lock.fence, context.lock.signal));
 * ```
 */
export function holdfastLock<E = unknown>(
  options: HandlerLockOptions<E>,
): MiddlewareObj<E, unknown, Error, LockedContext> {
  /** Keyed by context, because one container may run several invocations at once. */
  const held = new WeakMap<object, HeldLock>();
  return {
    before: async (request) => {
      const name = nameFor(options.name, request.event, request.context);
      if (name === undefined) return undefined;
      try {
        const lock = await options.locks.acquire(name, withinInvocation(options, request.context));
        held.set(request.context, lock);
        Object.assign(request.context, { lock });
        return undefined;
      } catch (error) {
        // middy sends this as the answer. The handler and the middlewares after this one do not run.
        return answerRefusal(request.event, error, options, name);
      }
    },
    after: async ({ context }) => {
      const lock = held.get(context);
      held.delete(context);
      if (lock !== undefined) await releaseAfterWork(lock, releaseWithin(context));
    },
    onError: async ({ context }) => {
      const lock = held.get(context);
      held.delete(context);
      // The caller must see the handler's own error, even if the release fails.
      await lock?.release(releaseWithin(context)).catch(() => undefined);
    },
  };
}

/**
 * The same for a plain handler, without middy.
 *
 * @example
 * ```ts
 * export const handler = withLockHandler({ locks, name: 'nightly-report' }, async (event, context) => {
 *   await writeReport(context.lock.fence, context.lock.signal);
 * });
 * ```
 */
export function withLockHandler<E, R, C extends Context = Context>(
  options: HandlerLockOptions<E> & { readonly name: PerEvent<E, string> },
  handler: (event: E, context: LockedContext<C>) => R | Promise<R>,
): (event: E, context: C) => Promise<R> {
  return async (event, context) => {
    const name = nameFor(options.name, event, context) as string;
    let entered = false;
    try {
      return await underLock(options.locks, name, withinInvocation(options, context), context, (lock) => {
        entered = true;
        return handler(event, Object.assign(context, { lock }));
      });
    } catch (error) {
      if (entered) throw error;
      return answerRefusal(event, error, options, name) as R;
    }
  };
}
