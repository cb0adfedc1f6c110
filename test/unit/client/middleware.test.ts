import middy from '@middy/core';
import type { SQSEvent, SQSRecord } from 'aws-lambda';
import { describe, expect, it } from 'vitest';
import { type HeldLock, LockHeldError } from '../../../src/client/index.ts';
import {
  holdfastLock,
  holdfastOnce,
  type LockedContext,
  withLockHandler,
  withOnceHandler,
  withRecordLocks,
} from '../../../src/middleware/index.ts';
import { Twin } from '../../../src/testing/index.ts';

/** A context as Lambda gives it. middy's types also require the fields that its middlewares add. */
const contextWith = (remainingMs: number): LockedContext =>
  ({ awsRequestId: 'request', getRemainingTimeInMillis: () => remainingMs }) as LockedContext;

const httpEvent = { requestContext: { http: { method: 'POST' } } };

const message = (messageId: string, body: string, group?: string): SQSRecord =>
  ({
    messageId,
    body,
    eventSource: 'aws:sqs',
    attributes: group === undefined ? {} : { MessageGroupId: group },
  }) as unknown as SQSRecord;

const batch = (...Records: SQSRecord[]): SQSEvent => ({ Records });

const world = () => {
  const twin = new Twin();
  return { twin, locks: twin.client({ owner: 'function' }), other: twin.client({ owner: 'other' }) };
};

describe('holdfastLock', () => {
  it('runs the handler under the lock and releases it', async () => {
    const { locks, other } = world();
    const handler = middy()
      .use(holdfastLock({ locks, name: 'wallet:42' }))
      .handler(async (_event, context: LockedContext) => ({
        fence: context.lock.fence,
        state: (await other.inspect('wallet:42')).state,
      }));
    const result = (await handler({}, contextWith(30_000))) as { fence: number; state: string };
    expect(result.state).toBe('held');
    expect(result.fence).toBeGreaterThan(0);
    expect((await other.inspect('wallet:42')).state).toBe('free');
  });

  it("throws the handler's own error and releases", async () => {
    const { locks, other } = world();
    const handler = middy()
      .use(holdfastLock({ locks, name: 'wallet:42' }))
      .handler(() => Promise.reject(new Error('the work failed')));
    await expect(handler({}, contextWith(30_000))).rejects.toThrow('the work failed');
    expect((await other.inspect('wallet:42')).state).toBe('free');
  });

  it('never leases for longer than the invocation may last', async () => {
    const { twin, locks, other } = world();
    let left: HeldLock | undefined;
    const handler = middy()
      .use(holdfastLock({ locks, name: 'wallet:42', leaseMs: 60_000 }))
      .handler(async (_event, context: LockedContext) => {
        left = context.lock;
        expect((await other.inspect('wallet:42')).holders[0]?.remainingMs).toBe(5_500);
        // No lease is renewed beyond the invocation, so a handler that never returns does not hold the lock without
        // end.
        await twin.advance(12_000);
      });
    await expect(handler({}, contextWith(6_000))).rejects.toMatchObject({ code: 'lease-lost' });
    expect(left?.isHeld()).toBe(false);
  });

  it('answers HTTP with 409 and the time for a retry', async () => {
    const { locks, other } = world();
    await other.acquire('wallet:42');
    const handler = middy()
      .use(holdfastLock({ locks, name: 'wallet:42' }))
      .handler(() => 'never');
    const answer = (await handler(httpEvent, contextWith(30_000))) as {
      statusCode: number;
      headers: object;
      body: string;
    };
    expect(answer).toMatchObject({ statusCode: 409, headers: { 'retry-after': '2' } });
    expect(JSON.parse(answer.body)).toMatchObject({ code: 'lock-held', status: 409 });
    expect(answer.body).not.toContain('other');
  });

  it('fails the whole batch cleanly for SQS', async () => {
    const { locks, other } = world();
    await other.acquire('wallet:42');
    const handler = middy<SQSEvent>()
      .use(holdfastLock<SQSEvent>({ locks, name: 'wallet:42' }))
      .handler(() => undefined);
    expect(await handler(batch(message('1', ''), message('2', '')), contextWith(30_000))).toEqual({
      batchItemFailures: [{ itemIdentifier: '1' }, { itemIdentifier: '2' }],
    });
  });

  it('throws the refusal for other sources, which repeat failed events', async () => {
    const { locks, other } = world();
    await other.acquire('wallet:42');
    const handler = middy()
      .use(holdfastLock({ locks, name: 'wallet:42' }))
      .handler(() => 'never');
    await expect(handler({ detail: {} }, contextWith(30_000))).rejects.toMatchObject({ code: 'lock-held' });
  });

  it('takes no lock if the event names none', async () => {
    const { locks } = world();
    const handler = middy()
      .use(holdfastLock({ locks, name: () => undefined }))
      .handler(async (_event, context: LockedContext) => context.lock ?? 'unlocked');
    expect(await handler({}, contextWith(30_000))).toBe('unlocked');
  });
});

describe('withLockHandler', () => {
  it('runs a plain handler under the lock', async () => {
    const { locks, other } = world();
    const handler = withLockHandler(
      { locks, name: ({ id }: { id: string }) => `wallet:${id}` },
      (_event, { lock }) => lock.name,
    );
    expect(await handler({ id: '42' }, contextWith(30_000))).toBe('wallet:42');
    expect((await other.inspect('wallet:42')).state).toBe('free');
  });

  it('answers a refusal, but never hides an error of the handler behind one', async () => {
    const { locks, other } = world();
    await other.acquire('taken');
    const refused = withLockHandler({ locks, name: 'taken', refusedStatus: 423 }, () => 'never');
    expect(await refused(httpEvent, contextWith(30_000))).toMatchObject({ statusCode: 423 });
    const failing = withLockHandler({ locks, name: 'free' }, () => locks.acquire('taken', { waitMs: 0 }));
    await expect(failing(httpEvent, contextWith(30_000))).rejects.toMatchObject({ code: 'lock-held' });
  });
});

describe('withRecordLocks', () => {
  it('reports only the messages whose lock was refused or whose work failed', async () => {
    const { locks, other } = world();
    await other.acquire('taken');
    const done: string[] = [];
    const handler = withRecordLocks({ locks, name: ({ body }) => body }, ({ messageId, body }, { lock }) => {
      expect(lock.name).toBe(body);
      if (messageId === '3') throw new Error('bad message');
      done.push(messageId);
    });
    const event = batch(
      message('1', 'a'),
      message('2', 'taken'),
      message('3', 'a'),
      message('4', 'a'),
      message('5', 'b'),
    );
    expect(await handler(event, contextWith(30_000))).toEqual({
      batchItemFailures: [{ itemIdentifier: '2' }, { itemIdentifier: '3' }],
    });
    expect(done.toSorted()).toEqual(['1', '4', '5']);
  });

  it('handles no message of a FIFO group after one that failed', async () => {
    const { locks, other } = world();
    await other.acquire('taken');
    const done: string[] = [];
    const handler = withRecordLocks({ locks, name: ({ body }) => body }, ({ messageId }) => done.push(messageId));
    const event = batch(
      message('1', 'a', 'g'),
      message('2', 'taken', 'g'),
      message('3', 'a', 'g'),
      message('4', 'b', 'h'),
    );
    const { batchItemFailures } = await handler(event, contextWith(30_000));
    expect(batchItemFailures.map(({ itemIdentifier }) => itemIdentifier)).toEqual(['2', '3']);
    expect(done.toSorted()).toEqual(['1', '4']);
  });

  it('fails a message without a name, and not the batch', async () => {
    const { locks } = world();
    const handler = withRecordLocks({ locks, name: ({ body }) => JSON.parse(body).name }, () => undefined);
    expect(await handler(batch(message('1', 'not json'), message('2', '{"name":"a"}')), contextWith(30_000))).toEqual({
      batchItemFailures: [{ itemIdentifier: '1' }],
    });
  });
});

interface Webhook {
  readonly id?: string;
  readonly requestContext: { readonly http: { readonly method: string } };
}

const webhook = (id?: string): Webhook => ({ ...httpEvent, ...(id === undefined ? {} : { id }) });

type Answering = (event: Webhook, context: LockedContext) => Promise<unknown>;

describe.each([
  {
    by: 'withOnceHandler',
    handle: (locks: ReturnType<Twin['client']>, answer: Answering) =>
      withOnceHandler({ locks, key: (event: Webhook) => `webhook:${event.id}` }, answer),
  },
  {
    by: 'holdfastOnce',
    handle: (locks: ReturnType<Twin['client']>, answer: Answering) =>
      middy<Webhook, unknown, Error, LockedContext>()
        .use(holdfastOnce<Webhook>({ locks, key: (event) => `webhook:${event.id}` }))
        .handler(answer) as unknown as (event: Webhook, context: LockedContext) => Promise<unknown>,
  },
])('once by $by', ({ handle }) => {
  it('answers each event once, and its repeats with the same answer', async () => {
    const { locks, other } = world();
    let runs = 0;
    const answer: Answering = async (_, { lock }) => ({ statusCode: 200, body: `${++runs} ${lock.isHeld()}` });
    expect(await handle(locks, answer)(webhook('a'), contextWith(30_000))).toEqual({ statusCode: 200, body: '1 true' });
    expect(await handle(other, answer)(webhook('a'), contextWith(30_000))).toEqual({ statusCode: 200, body: '1 true' });
    expect(await handle(other, answer)(webhook('b'), contextWith(30_000))).toEqual({ statusCode: 200, body: '2 true' });
    expect((await other.inspect('once:webhook:a')).state).toBe('free');
  });

  it('handles an event again if the handler threw or answered that it failed', async () => {
    const { locks } = world();
    const answers = [() => Promise.reject(new Error('away')), () => ({ statusCode: 503 }), () => ({ statusCode: 200 })];
    const handler = handle(locks, async () => answers.shift()?.());
    await expect(handler(webhook('a'), contextWith(30_000))).rejects.toThrow('away');
    expect(await handler(webhook('a'), contextWith(30_000))).toEqual({ statusCode: 503 });
    expect(await handler(webhook('a'), contextWith(30_000))).toEqual({ statusCode: 200 });
    expect(await handler(webhook('a'), contextWith(30_000))).toEqual({ statusCode: 200 });
    expect(answers).toEqual([]);
  });

  it('answers 409 to a repeat that comes while the first one is being handled', async () => {
    const { twin, locks, other } = world();
    let end = (_: unknown) => {};
    const first = handle(locks, () => new Promise((resolve) => (end = resolve)))(webhook('a'), contextWith(30_000));
    await twin.settle();
    const repeat = handle(other, async () => ({ statusCode: 200 }));
    expect(await twin.until(repeat(webhook('a'), contextWith(30_000)))).toMatchObject({ statusCode: 409 });
    end({ statusCode: 201 });
    expect(await twin.until(first)).toEqual({ statusCode: 201 });
    expect(await twin.until(repeat(webhook('a'), contextWith(30_000)))).toEqual({ statusCode: 201 });
  });
});

describe('holdfastOnce', () => {
  it('runs the handler each time for an event without a key, and keeps an empty answer', async () => {
    const { locks } = world();
    let runs = 0;
    const handler = middy<Webhook, unknown, Error, LockedContext>()
      .use(holdfastOnce<Webhook>({ locks, key: ({ id }) => id }))
      .handler(async () => {
        runs += 1;
      });
    for (const id of [undefined, undefined, 'a', 'a']) await handler(webhook(id) as never, contextWith(30_000));
    expect(runs).toBe(3);
  });

  it('throws if the source of the event repeats failed events', async () => {
    const { twin, locks, other } = world();
    void locks.once('nightly', () => new Promise(() => {}));
    await twin.settle();
    const handler = withOnceHandler({ locks: other, key: 'nightly' }, async () => 'done');
    await expect(twin.until(handler({}, contextWith(30_000)))).rejects.toThrow(LockHeldError);
  });
});
