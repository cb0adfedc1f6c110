/** A locked step without the durable SDK: the test runs the steps and completes the callback. */
import type { DurableContext } from '@aws/durable-execution-sdk-js';
import { describe, expect, it } from 'vitest';
import {
  InvalidRequestError,
  LeaseLostError,
  LimitMismatchError,
  UnavailableError,
} from '../../../src/client/index.ts';
import { type LockedStepOptions, lockedStep, type StepLock } from '../../../src/durable/index.ts';
import { Twin } from '../../../src/testing/index.ts';
import { callsOf, timersOf } from '../client/inside.ts';

interface CallbackConfig {
  readonly timeout: { readonly seconds: number };
  readonly serdes: { readonly deserialize: (text: string | undefined) => Promise<unknown> };
}

type Step = () => Promise<unknown>;
type Retries = (error: Error, tries: number) => { readonly shouldRetry: boolean };

/** The usual retries of a step. */
const sixTries: Retries = (_, tries) => ({ shouldRetry: tries < 6 });

/** Steps as the durable SDK runs them: tried again after an error, and known to every later run by their stored result. */
class Steps {
  readonly names: string[] = [];
  readonly tries: string[] = [];
  readonly #results = new Map<string, string | Error>();

  async run(name: string, step: Step, { retryStrategy = sixTries }: { retryStrategy?: Retries } = {}) {
    this.names.push(name);
    const stored = this.#results.get(name) ?? (await this.#execute(name, step, retryStrategy));
    this.#results.set(name, stored);
    if (stored instanceof Error) throw stored;
    return stored === '' ? undefined : JSON.parse(stored);
  }

  async #execute(name: string, step: Step, mayRetry: Retries): Promise<string | Error> {
    for (let tries = 1; ; tries++) {
      this.tries.push(name);
      try {
        return JSON.stringify(await step()) ?? '';
      } catch (error) {
        if (mayRetry(error as Error, tries).shouldRetry) continue;
        const cause = { name: (error as Error).name, message: (error as Error).message };
        return Object.assign(new Error('The step failed.'), { errorType: 'StepError', cause });
      }
    }
  }
}

function world() {
  const twin = new Twin();
  const locks = twin.client();
  const callback = Promise.withResolvers<unknown>();
  // A callback may fail before the function waits for it.
  callback.promise.catch(() => undefined);
  const configs: CallbackConfig[] = [];
  const durable = new Steps();
  const context = {
    step: (name: string, step: Step, config?: { retryStrategy?: Retries }) => durable.run(name, step, config),
    createCallback: async (name: string, config: CallbackConfig) => {
      durable.names.push(name);
      configs.push(config);
      return [callback.promise, 'callback1'];
    },
  } as unknown as DurableContext;
  /** Runs the function. Every further call is a replay. */
  const run = (work: (lock: StepLock) => Promise<unknown>, options: Partial<LockedStepOptions> = {}) =>
    lockedStep(context, locks, 'a', { leaseMs: 60_000, ...options }, work);
  return { twin, locks, other: twin.client(), callback, configs, durable, steps: durable.names, run };
}

const operationsOf = (sent: ReturnType<typeof callsOf>) => sent.map(({ operation }) => operation);

describe('lockedStep', () => {
  it('has one step for each request, and each step has a name of its own', async () => {
    const { other, steps, run } = world();
    const value = await run(async ({ fence, name, leaseId }) => {
      expect(await other.inspect('a')).toMatchObject({ state: 'held', fence });
      expect([name, leaseId]).toEqual(['a', expect.stringMatching(/^[\w-]{16,}$/)]);
      return 'done';
    });
    expect(value).toBe('done');
    expect(steps).toEqual(['a: lease', 'a: grant', 'a: park', 'a: release']);
    expect((await other.inspect('a')).state).toBe('free');
  });

  it('gets the fence from its callback if it had to wait', async () => {
    const { other, callback, configs, run } = world();
    await other.acquire('a');
    const working = run(async ({ fence }) => fence, { waitMs: 60_000 });
    callback.resolve({ fence: 7 });
    expect(await working).toBe(7);
    const read = configs[0]?.serdes.deserialize;
    expect([await read?.('{"fence":7}'), await read?.(undefined)]).toEqual([{ fence: 7 }, undefined]);
  });

  it('fails if the lease ended before the work, although the work succeeded', async () => {
    const { twin, other, run } = world();
    const working = run(async () => {
      await twin.expire('a');
      await other.acquire('a');
      return 'done';
    });
    await expect(working).rejects.toThrow(LeaseLostError);
    await expect(working).rejects.toMatchObject({
      reason: 'expired',
      message: expect.stringContaining('The lease on a'),
    });
  });

  it('fails in the same way if nobody has taken the lock since', async () => {
    const { twin, other, run } = world();
    const working = run(async () => {
      await twin.advance(60_000);
      return 'done';
    });
    await expect(working).rejects.toMatchObject({ code: 'lease-lost', reason: 'expired' });
    expect((await other.inspect('a')).state).toBe('free');
  });

  it('succeeds if the work ended in time but the release could not be sent: the lease ends by itself', async () => {
    const { twin, locks, other, durable, run } = world();
    const working = run(async () => {
      twin.partition(locks);
      return 'done';
    });
    expect(await twin.until(working)).toBe('done');
    expect(durable.tries.filter((name) => name === 'a: release')).toHaveLength(3);
    await twin.advance(60_000);
    expect((await other.tryAcquire('a')).ok).toBe(true);
  });

  it('asks once to acquire and once to release, and in no replay again', async () => {
    const { locks, run } = world();
    const sent = callsOf(locks);
    const work = async ({ renew }: StepLock) => renew('renew: first', 90_000);
    await run(work);
    await run(work);
    expect(operationsOf(sent)).toEqual(['acquireLock', 'renewLock', 'releaseLock']);
  });

  it.each([
    ['a lease that is too short', { leaseMs: 10 }, 'invalid-request', InvalidRequestError],
    ['another limit', { limit: 3 }, 'limit-mismatch', LimitMismatchError],
  ])('ends at once if the service refuses it for good: %s', async (_, options, code, type) => {
    const { locks, other, run } = world();
    await other.acquire('a', { limit: 5 });
    const sent = callsOf(locks);
    const errors: unknown[] = [];
    for (let runs = 0; runs < 2; runs++) errors.push(await run(async () => 1, options).catch((error) => error));
    expect(operationsOf(sent)).toEqual(['acquireLock']);
    for (const error of errors) {
      expect(error).toBeInstanceOf(type);
      expect(error).toMatchObject({ code, message: expect.any(String), status: expect.any(Number) });
    }
    expect(errors[1]).toEqual(errors[0]);
  });

  it('ends at once if a renewal finds that the lease is over, and says so in every replay', async () => {
    const { twin, locks, run } = world();
    const work = async ({ renew }: StepLock) => {
      await twin.advance(60_000);
      await renew('renew');
    };
    const sent = callsOf(locks);
    for (let runs = 0; runs < 2; runs++) {
      const working = run(work);
      await expect(working).rejects.toThrow(LeaseLostError);
      await expect(working).rejects.toMatchObject({ code: 'lease-lost', reason: 'expired' });
    }
    expect(operationsOf(sent)).toEqual(['acquireLock', 'renewLock', 'releaseLock']);
  });

  it('repeats a request that got no answer, and then says that the service is unavailable', async () => {
    const { twin, locks, durable, run } = world();
    twin.partition(locks);
    const working = run(async () => 1);
    await expect(twin.until(working)).rejects.toThrow(UnavailableError);
    await expect(working).rejects.toMatchObject({ code: 'unavailable', cause: { errorType: 'StepError' } });
    expect(durable.tries.filter((name) => name === 'a: park')).toHaveLength(6);
    // The lock may have been granted.
    expect(durable.tries.filter((name) => name === 'a: release')).toHaveLength(3);
  });

  it('succeeds if the work has released the lock itself', async () => {
    const { locks, run } = world();
    const work = async ({ name, leaseId }: StepLock) => {
      await locks.release({ lock: name, leaseId });
      return 'done';
    };
    expect(await run(work)).toBe('done');
  });

  it.each([
    [undefined, 86_400],
    [90_500, 91],
  ])('gives its callback five minutes more than the wait of %s ms', async (waitMs, seconds) => {
    const { configs, run } = world();
    await run(async () => 1, { waitMs });
    expect(configs).toMatchObject([{ timeout: { seconds: seconds + 300 } }]);
  });

  it('renews in a step, and nothing renews the lease after it', async () => {
    const { twin, locks, other, steps, run } = world();
    const timers = timersOf(locks);
    await run(async ({ renew }) => {
      await renew('renew', 120_000);
      expect(steps.at(-1)).toBe('renew');
      expect((await other.inspect('a')).holders[0]?.remainingMs).toBe(120_000);
      const sent = callsOf(locks);
      await twin.advance(100_000);
      expect([sent, timers.size]).toEqual([[], 0]);
    });
  });

  it('fails with the error of the work, even if the release fails too', async () => {
    const { twin, locks, run } = world();
    const working = run(async () => {
      twin.partition(locks);
      throw new Error('card declined');
    });
    await expect(twin.until(working)).rejects.toThrow('card declined');
  });

  it.each([
    ['the timeout of the callback', { errorType: 'CallbackTimeoutError' }, 'wait-timeout'],
    ['the end of the wait', { cause: { name: 'Holdfast.WaitTimeout' } }, 'wait-timeout'],
    ['a place that was given up', { cause: { name: 'Holdfast.WaitCancelled' } }, 'closed'],
    ['a lease that ended before the delivery', { message: 'Holdfast.LeaseLost' }, 'lease-lost'],
    ['anything else, unchanged', { message: 'other', code: 'theirs' }, 'theirs'],
  ] as [string, { message?: string }, string][])('names why its callback failed: %s', async (_, fields, code) => {
    const { other, callback, run } = world();
    await other.acquire('a');
    const working = run(async () => 1, { waitMs: 60_000 });
    callback.reject(Object.assign(new Error(fields.message ?? ''), fields));
    await expect(working).rejects.toMatchObject({ code });
  });

  it('keeps the error of its callback as the cause, with what a caller may ask for', async () => {
    const failedWith = async (name: string) => {
      const { other, callback, run } = world();
      await other.acquire('a');
      const error = Object.assign(new Error('failed'), { cause: { name } });
      callback.reject(error);
      const caught = await run(async () => 1, { waitMs: 60_000 }).catch((thrown: unknown) => thrown);
      expect(caught).toMatchObject({ cause: error });
      return caught;
    };
    expect(await failedWith('Holdfast.WaitTimeout')).toMatchObject({ waitedMs: 60_000 });
    expect(await failedWith('Holdfast.WaitCancelled')).toMatchObject({ code: 'closed' });
    expect(await failedWith('Holdfast.LeaseLost')).toMatchObject({ reason: 'expired' });
  });
});
