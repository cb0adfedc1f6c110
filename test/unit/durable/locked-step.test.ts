/** A locked step without the durable SDK: the test runs the steps and completes the callback. */
import type { DurableContext } from '@aws/durable-execution-sdk-js';
import { describe, expect, it } from 'vitest';
import { type LockedStepOptions, lockedStep, type StepLock } from '../../../src/durable/index.ts';
import { Twin } from '../../../src/testing/index.ts';
import { callsOf, timersOf } from '../client/inside.ts';

interface CallbackConfig {
  readonly timeout: { readonly seconds: number };
}

function world() {
  const twin = new Twin();
  const locks = twin.client();
  const callback = Promise.withResolvers<unknown>();
  // A callback may fail before the function waits for it.
  callback.promise.catch(() => undefined);
  const configs: CallbackConfig[] = [];
  const context = {
    step: (_name: string, run: () => Promise<unknown>) => run(),
    createCallback: async (_name: string, config: CallbackConfig) => {
      configs.push(config);
      return [callback.promise, 'callback1'];
    },
  } as unknown as DurableContext;
  const run = (work: (lock: StepLock) => Promise<unknown>, options: Partial<LockedStepOptions> = {}) =>
    lockedStep(context, locks, 'a', { leaseMs: 60_000, ...options }, work);
  return { twin, locks, other: twin.client(), callback, configs, run };
}

describe('lockedStep', () => {
  it.each([
    [undefined, 86_400],
    [90_500, 91],
  ])('gives its callback five minutes more than the wait of %s ms', async (waitMs, seconds) => {
    const { configs, run } = world();
    await run(async () => 1, { waitMs });
    expect(configs).toMatchObject([{ timeout: { seconds: seconds + 300 } }]);
  });

  it('renews in a step, and nothing renews the lease after it', async () => {
    const { twin, locks, other, run } = world();
    const timers = timersOf(locks);
    await run(async ({ renew }) => {
      await renew('renew', 120_000);
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
});
