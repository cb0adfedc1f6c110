import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type DurableContext, withDurableExecution } from '@aws/durable-execution-sdk-js';
import { LocalDurableTestRunner } from '@aws/durable-execution-sdk-js-testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Core } from '../../../src/client/core.ts';
import { Holdfast, InvalidRequestError } from '../../../src/client/index.ts';
import { type LockedStepOptions, lockedStep, type StepLock } from '../../../src/durable/index.ts';
import { loadExample } from '../../support/doc-examples.ts';
import { startCallbacks } from '../../support/lambda-callbacks.ts';
import { patient, startService, type TestService } from '../../support/service.ts';

/** The runners in progress, so that a callback finds the execution that waits for it. */
const runners = new Map<string, LocalDurableTestRunner>();
let callbacks: Awaited<ReturnType<typeof startCallbacks>>;
let service: TestService;
let locks: Holdfast;

beforeAll(async () => {
  await LocalDurableTestRunner.setupTestEnvironment({ skipTime: false });
  callbacks = await startCallbacks(async ({ id, outcome, body }) => {
    for (const [lock, runner] of runners) {
      const operation = runner.getOperation(`${lock}: grant`);
      if (operation.getCallbackDetails()?.callbackId !== id) continue;
      if (outcome === 'succeed') await operation.sendCallbackSuccess(body);
      else await operation.sendCallbackFailure(JSON.parse(body));
      return;
    }
    throw new Error('Nobody waits for this callback.');
  });
  service = await startService({ callbacksUrl: callbacks.url });
  locks = new Holdfast({ url: service.url, namespace: 'test', owner: 'function', patience: patient });
});

afterAll(async () => {
  await locks.close();
  await service.stop();
  await callbacks[Symbol.asyncDispose]();
  await LocalDurableTestRunner.teardownTestEnvironment();
});

type Work = (lock: StepLock, ctx: DurableContext) => Promise<unknown>;

/** Starts a durable function that works under a lock, and counts how often its code is run. */
function start(lock: string, work: Work, more: Partial<LockedStepOptions> = {}) {
  const count = { invocations: 0 };
  const handler = withDurableExecution(async (_event: unknown, ctx: DurableContext) => {
    count.invocations += 1;
    return lockedStep(ctx, locks, lock, { leaseMs: 60_000, ...more }, (held) => work(held, ctx));
  });
  const runner = new LocalDurableTestRunner({ handlerFunction: handler });
  runners.set(lock, runner);
  return { ended: runner.run({ payload: {} }), count, runner };
}

const waitersOf = async (lock: string) => (await locks.inspect(lock)).queueDepth;
const untilWaiting = async (lock: string) => {
  while ((await waitersOf(lock)) === 0) await new Promise((resolve) => setTimeout(resolve, 20));
};
const stateOf = async (lock: string) => (await locks.inspect(lock)).state;

describe('docs/jobs.md', () => {
  it('runs a durable function under the lock of its wallet', async () => {
    type Debit = (wallet: string, fence: number) => Promise<string>;
    type Example = { debitor(locks: Holdfast, debit: Debit): Parameters<typeof run>[0] };
    const run = (handlerFunction: ConstructorParameters<typeof LocalDurableTestRunner>[0]['handlerFunction']) =>
      new LocalDurableTestRunner({ handlerFunction });
    const { debitor } = await loadExample<Example>('jobs.md', 'A durable function');
    const wallet = randomUUID();
    const held = await locks.acquire(`wallet:${wallet}`);
    const runner = run(debitor(locks, async (name, fence) => `${name} ${fence > held.fence}`));
    runners.set(`wallet:${wallet}`, runner);
    const ended = runner.run({ payload: { wallet } });
    await untilWaiting(`wallet:${wallet}`);
    await held.release();
    expect((await ended).getResult()).toEqual({ receipt: `${wallet} true` });
    expect(await stateOf(`wallet:${wallet}`)).toBe('free');
  });
});

describe('docs/jobs.md, testing on one machine', () => {
  it('completes the callbacks of a function through the endpoint of the example', async () => {
    type Example = { callbacksOf(runner: LocalDurableTestRunner, lock: string): Server };
    const { callbacksOf } = await loadExample<Example>('jobs.md', 'A durable function', 1);
    const lock = randomUUID();
    let client: Holdfast | undefined;
    const handlerFunction = withDurableExecution(async (_: unknown, ctx: DurableContext) =>
      lockedStep(ctx, client as Holdfast, lock, { leaseMs: 60_000 }, async ({ fence }) => ({ fence })),
    );
    const runner = new LocalDurableTestRunner({ handlerFunction });
    const server = callbacksOf(runner, lock).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const callbacksUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const own = await startService({ callbacksUrl });
    client = new Holdfast({ url: own.url, namespace: 'test', patience: patient });
    try {
      const held = await client.acquire(lock);
      const ended = runner.run({ payload: {} });
      while ((await client.inspect(lock)).queueDepth === 0) await new Promise((resolve) => setTimeout(resolve, 20));
      await held.release();
      const { fence } = (await ended).getResult() as { fence: number };
      expect(fence).toBeGreaterThan(held.fence);
    } finally {
      await client.close();
      await own.stop();
      server.closeAllConnections();
      server.close();
    }
  });
});

/** Every request about this lock from now on. */
function requestsFor(lock: string): string[] {
  const sent: string[] = [];
  const { transport } = (locks as unknown as { core: Core }).core;
  const request = transport.request.bind(transport);
  transport.request = (call, signal) => {
    if (call.parameters.name === lock && call.method === 'POST') sent.push(call.operation);
    return request(call, signal);
  };
  return sent;
}

describe('the requests of a durable function', () => {
  const work: Work = async ({ renew }, ctx) => {
    await renew('renew 1');
    // It is suspended here, and then replayed from its beginning.
    await ctx.wait({ seconds: 1 });
    await renew('renew 2', 120_000);
    return 'done';
  };

  it.each(['free', 'held'])('are one for each step, however often it is replayed: the lock is %s', async (state) => {
    const lock = randomUUID();
    const held = state === 'held' ? await locks.acquire(lock) : undefined;
    const [plain, renewing] = [requestsFor(lock), requestsFor(`${lock}-renewed`)];
    const first = start(lock, () => Promise.resolve('done'));
    if (held !== undefined) {
      await untilWaiting(lock);
      await held.release();
    }
    expect((await first.ended).getResult()).toBe('done');
    // The holder before it releases too.
    expect(plain).toEqual(['acquireLock', ...(held === undefined ? [] : ['releaseLock']), 'releaseLock']);
    const second = start(`${lock}-renewed`, work);
    expect((await second.ended).getResult()).toBe('done');
    expect(second.count.invocations).toBeGreaterThan(1);
    expect(renewing).toEqual(['acquireLock', 'renewLock', 'renewLock', 'releaseLock']);
  });
});

describe('a refusal that is final', () => {
  /** Catches the error, and is replayed after a wait. Tells what each run of its code has seen. */
  function seenBy(lock: string, options: Partial<LockedStepOptions>, work: Work) {
    const seen: unknown[] = [];
    const handler = withDurableExecution(async (_event: unknown, ctx: DurableContext) => {
      await lockedStep(ctx, locks, lock, { leaseMs: 60_000, ...options }, (held) => work(held, ctx)).catch((error) =>
        seen.push(error),
      );
      await ctx.wait({ seconds: 1 });
      return 'caught';
    });
    return { seen, ended: new LocalDurableTestRunner({ handlerFunction: handler }).run({ payload: {} }) };
  }

  it('ends the function at once with an error of the SDK, also in a replay', async () => {
    const lock = randomUUID();
    const sent = requestsFor(lock);
    const { seen, ended } = seenBy(lock, { leaseMs: 10 }, () => Promise.resolve());
    expect((await ended).getResult()).toBe('caught');
    expect(sent).toEqual(['acquireLock']);
    expect(seen.length).toBeGreaterThan(1);
    for (const error of seen) {
      expect(error).toBeInstanceOf(InvalidRequestError);
      expect(error).toMatchObject({ code: 'invalid-request', errors: [{ field: 'leaseMs' }] });
    }
  });

  it('names a renewal that came too late', async () => {
    const lock = randomUUID();
    const sent = requestsFor(lock);
    const { seen, ended } = seenBy(lock, {}, async ({ fence, renew }, ctx) => {
      await ctx.step('revoke', () => locks.revoke(lock, { fence, reason: 'stuck' }));
      await renew('renew');
    });
    expect((await ended).getResult()).toBe('caught');
    expect(sent).toEqual(['acquireLock', 'revokeLock', 'renewLock', 'releaseLock']);
    for (const error of seen) expect(error).toMatchObject({ name: 'LeaseLostError', reason: 'revoked' });
  });
});

describe('a durable function under a lock', () => {
  it('fails if its lease was over before the work, even if nobody has taken the lock', async () => {
    const lock = randomUUID();
    const { ended } = start(lock, (_, ctx) => ctx.wait({ seconds: 2 }), { leaseMs: 1_000 });
    const result = await ended;
    expect(result.getStatus()).toBe('FAILED');
    expect(result.getError()).toMatchObject({ errorMessage: expect.stringContaining('had ended before the work') });
    expect(await stateOf(lock)).toBe('free');
  });

  it('runs at once if the lock is free, and releases it', async () => {
    const lock = randomUUID();
    const states: string[] = [];
    const { ended } = start(lock, async ({ fence }, ctx) => {
      const state = await ctx.step('work', () => stateOf(lock));
      states.push(state);
      return { fence };
    });
    const result = await ended;
    expect(result.getStatus()).toBe('SUCCEEDED');
    expect(result.getResult()).toEqual({ fence: expect.any(Number) });
    expect(states).toContain('held');
    expect(await stateOf(lock)).toBe('free');
  });

  it('is suspended while the lock is held, and goes on by the callback with the same lease in every replay', async () => {
    const lock = randomUUID();
    const held = await locks.acquire(lock);
    const leases = new Set<string>();
    const effects: string[] = [];
    const { ended, count } = start(lock, async ({ fence, leaseId, renew }, ctx) => {
      leases.add(leaseId);
      await ctx.step('first', async () => effects.push('first'));
      await ctx.wait({ seconds: 1 });
      await renew('renew', 120_000);
      await ctx.step('second', async () => effects.push('second'));
      return fence;
    });
    await untilWaiting(lock);
    const before = count.invocations;
    await new Promise((resolve) => setTimeout(resolve, 500));
    expect(count.invocations, 'it does not run while it waits').toBe(before);
    await held.release();
    const result = await ended;
    expect(result.getStatus()).toBe('SUCCEEDED');
    expect(result.getResult()).toBeGreaterThan(held.fence);
    expect(leases.size).toBe(1);
    expect(effects).toEqual(['first', 'second']);
    expect(count.invocations).toBeGreaterThan(2);
    expect(callbacks.completed.filter(({ body }) => body.includes(lock))).toHaveLength(1);
    expect(await stateOf(lock)).toBe('free');
  });

  it('fails if the wait is over, and leaves the queue', async () => {
    const lock = randomUUID();
    await using _held = await locks.acquire(lock);
    const { ended } = start(lock, () => Promise.resolve('never'), { waitMs: 1_000 });
    const result = await ended;
    expect(result.getStatus()).toBe('FAILED');
    expect(result.getError()).toMatchObject({
      errorMessage: expect.stringContaining('was not granted within 1000 ms'),
    });
    expect(await waitersOf(lock)).toBe(0);
  });

  it('fails if its place in the queue is given up', async () => {
    const lock = randomUUID();
    await using _held = await locks.acquire(lock);
    const { ended, runner } = start(lock, () => Promise.resolve('never'));
    await untilWaiting(lock);
    const leaseId = runner.getOperation(`${lock}: lease`).getStepDetails()?.result as string;
    expect(await locks.release({ lock, leaseId })).toEqual({ released: true, reason: 'cancelled' });
    const result = await ended;
    expect(result.getStatus()).toBe('FAILED');
    expect(result.getError()).toMatchObject({ errorMessage: expect.stringContaining('was given up') });
  });

  it('releases if the work fails, and fails with its error', async () => {
    const lock = randomUUID();
    const fail = () => Promise.reject(new Error('card declined'));
    const { ended } = start(lock, (_, ctx) =>
      ctx.step('work', fail, { retryStrategy: () => ({ shouldRetry: false }) }),
    );
    const result = await ended;
    expect(result.getStatus()).toBe('FAILED');
    expect(result.getError()).toMatchObject({ errorMessage: expect.stringContaining('card declined') });
    expect(await stateOf(lock)).toBe('free');
  });

  it('fails if the lease ended before the work, since another holder may have run at the same time', async () => {
    const lock = randomUUID();
    const { ended } = start(lock, async ({ fence }, ctx) => {
      await ctx.step('work', () => locks.revoke(lock, { fence, reason: 'stuck' }));
      return 'done';
    });
    const result = await ended;
    expect(result.getStatus()).toBe('FAILED');
    expect(result.getError()).toMatchObject({ errorMessage: expect.stringContaining('had ended before the work') });
  });
});
