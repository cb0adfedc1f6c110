import middy from '@middy/core';
import type { SQSEvent, SQSRecord } from 'aws-lambda';
import { describe, expect, it } from 'vitest';
import {
  DeadlockError,
  type HeldLock,
  InvalidRequestError,
  LockHeldError,
  PayloadMismatchError,
  QueueFullError,
  ThrottledError,
  UnavailableError,
  WaitTimeoutError,
} from '../../../src/client/index.ts';
import {
  holdfastLock,
  holdfastOnce,
  type LockedContext,
  withLockHandler,
  withOnceHandler,
  withRecordLocks,
} from '../../../src/middleware/index.ts';
import { releaseWithin, withinInvocation } from '../../../src/middleware/invocation.ts';
import { keyFrom } from '../../../src/middleware/key.ts';
import { answerRefusal } from '../../../src/middleware/refusal.ts';
import { Twin } from '../../../src/testing/index.ts';
import { callsOf } from '../client/inside.ts';

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

describe('the options of an invocation', () => {
  it.each([
    ['by default, tries once', 60_500, {}, { leaseMs: 30_000, waitMs: 0, holdMsMax: 60_000, deadlineMs: 2_000 }],
    ['wait at most half of it', 10_500, { waitMs: 60_000 }, { leaseMs: 10_000, waitMs: 5_000, deadlineMs: 10_000 }],
    ['lease no longer than it lasts', 4_500, { leaseMs: 60_000 }, { leaseMs: 4_000, holdMsMax: 4_000 }],
    ['never ask for a lease that is too short', 600, {}, { leaseMs: 1_000, holdMsMax: 100, deadlineMs: 100 }],
    ['keep a shorter deadline', 60_500, { waitMs: 9_000, deadlineMs: 700 }, { waitMs: 9_000, deadlineMs: 700 }],
  ])('%s', (_, remainingMs, options, expected) => {
    const { locks } = world();
    expect(withinInvocation({ locks, ...options }, contextWith(remainingMs))).toMatchObject(expected);
  });

  it.each([
    [60_000, 5_000],
    [2_100, 2_000],
    [50, 100],
  ])('with %i ms left, give the release %i ms', (remainingMs, deadlineMs) => {
    expect(releaseWithin(contextWith(remainingMs))).toEqual({ deadlineMs });
  });
});

describe('a refusal', () => {
  const held = (retryAfterMs: number) => new LockHeldError('held', { retryAfterMs });
  const restEvent = { httpMethod: 'POST', requestContext: {} };
  const sns = { Records: [{ messageId: '1', eventSource: 'aws:sqs' }, { eventSource: 'aws:sns' }] };

  it.each([
    ['an HTTP API', httpEvent, held(1_001), { statusCode: 409, headers: { 'retry-after': '2' } }],
    ['a REST API', restEvent, held(0), { statusCode: 409, headers: { 'retry-after': '1' } }],
    ['a service that is away', httpEvent, new UnavailableError('away'), { statusCode: 503 }],
    ['a wait that was over', httpEvent, new WaitTimeoutError('late'), { statusCode: 409 }],
    ['records that are not all from SQS', sns, held(0), undefined],
    ['no records', { Records: [] }, held(0), undefined],
    ['an error that is none', httpEvent, new Error('bug'), undefined],
    ['an error that a retry would not mend', httpEvent, new InvalidRequestError('wrong', []), undefined],
  ])('is answered by its event, or fails it: %s', (_, event, error, expected) => {
    if (expected === undefined) expect(() => answerRefusal(event, error, {})).toThrow(error);
    else expect(answerRefusal(event, error, {})).toMatchObject(expected);
  });

  it('tells an HTTP caller what is the matter, and never who holds the lock', () => {
    const error = new LockHeldError('held', { retryAfterMs: 1_500, holders: [{ owner: 'they', fence: 7 } as never] });
    const answer = answerRefusal(httpEvent, error, { refusedStatus: 423 }, 'wallet:42') as {
      headers: object;
      body: string;
    };
    expect(answer).toMatchObject({
      statusCode: 423,
      headers: { 'content-type': 'application/problem+json', 'cache-control': 'no-store', 'retry-after': '2' },
    });
    expect(JSON.parse(answer.body)).toEqual({
      type: 'urn:holdfast:problem:lock-held',
      title: 'The lock is held',
      detail: 'The lock wallet:42 could not be taken for this request.',
      lock: 'wallet:42',
      status: 423,
      code: 'lock-held',
      retryAfterMs: 1_500,
    });
  });

  it('asks for the same time in the header and in the body, and never for none', () => {
    const { headers, body } = answerRefusal(httpEvent, new WaitTimeoutError('late'), {}, 'a') as {
      headers: Record<string, string>;
      body: string;
    };
    expect([headers['retry-after'], JSON.parse(body).retryAfterMs]).toEqual(['1', 1_000]);
  });

  it('does not speak of a lock if the same request is already being worked on', () => {
    const { body } = answerRefusal(httpEvent, new LockHeldError('held'), {}) as { body: string };
    expect(JSON.parse(body)).toMatchObject({ title: 'This request is already being worked on' });
    expect(JSON.parse(body)).not.toHaveProperty('lock');
  });

  it('tells an HTTP caller that the service is away, with its own status', () => {
    const { statusCode, body } = answerRefusal(httpEvent, new UnavailableError('away'), { refusedStatus: 423 }) as {
      statusCode: number;
      body: string;
    };
    expect([statusCode, JSON.parse(body)]).toMatchObject([
      503,
      { title: 'The lock service cannot be reached', status: 503, code: 'unavailable', retryAfterMs: 1_000 },
    ]);
  });

  it.each([
    ['queue-full', new QueueFullError('full', 100)],
    ['throttled', new ThrottledError('busy', 100)],
    ['deadlock', new DeadlockError('circle', [])],
    ['wait-timeout', new WaitTimeoutError('late')],
    ['unavailable', new UnavailableError('away')],
  ])('lets SQS deliver the whole batch again: %s', (_, error) => {
    expect(answerRefusal(batch(message('1', 'a'), message('2', 'b')), error, {})).toEqual({
      batchItemFailures: [{ itemIdentifier: '1' }, { itemIdentifier: '2' }],
    });
  });

  it.each([undefined, null, 'text', { Records: 'none' }, { requestContext: {} }, { httpMethod: 7 }])(
    'fails the invocation for an event of another source: %j',
    (event) => {
      expect(() => answerRefusal(event, held(0), {})).toThrow(LockHeldError);
    },
  );
});

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

  it("throws the handler's own error even if the release fails too", async () => {
    const { twin, locks } = world();
    const handler = middy()
      .use(holdfastLock({ locks, name: 'wallet:42' }))
      .handler(() => {
        twin.partition(locks);
        throw new Error('the work failed');
      });
    await expect(twin.until(handler({}, contextWith(30_000)))).rejects.toThrow('the work failed');
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

  it('succeeds if somebody else released the lock on purpose', async () => {
    const { locks, other } = world();
    const sent = callsOf(locks);
    const handler = middy<object, unknown, Error, LockedContext>()
      .use(holdfastLock({ locks, name: 'a' }))
      .handler(async () => {
        const [acquire] = sent.map(({ body }) => body as { readonly leaseId: string });
        await other.release({ lock: 'a', leaseId: acquire?.leaseId ?? '' });
        return 'done';
      });
    expect(await handler({}, contextWith(30_000))).toBe('done');
  });

  it('fails if the lease was revoked meanwhile, although the handler succeeded', async () => {
    const { locks, other } = world();
    const handler = middy<object, unknown, Error, LockedContext>()
      .use(holdfastLock({ locks, name: 'a' }))
      .handler(async (_, { lock }) => {
        await other.revoke('a', { fence: lock.fence, reason: 'test' });
        return 'done';
      });
    const lost = { code: 'lease-lost', reason: 'revoked', message: 'The lease ended before the work did.' };
    await expect(handler({}, contextWith(30_000))).rejects.toMatchObject(lost);
  });

  it('succeeds if only the release could not be sent', async () => {
    const { twin, locks } = world();
    const handler = middy<object, unknown, Error, LockedContext>()
      .use(holdfastLock({ locks, name: 'a' }))
      .handler(async () => {
        twin.partition(locks);
        return 'done';
      });
    expect(await twin.until(handler({}, contextWith(3_000)))).toBe('done');
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

  it('handles no later message of a FIFO group after one whose work failed, under the same lock too', async () => {
    const { locks } = world();
    const done: string[] = [];
    const handler = withRecordLocks({ locks, name: () => 'a' }, ({ messageId }) => {
      done.push(messageId);
      if (messageId === '1') throw new Error('bad message');
    });
    const { batchItemFailures } = await handler(
      batch(message('1', '', 'g'), message('2', '', 'g')),
      contextWith(30_000),
    );
    expect([batchItemFailures.length, done]).toEqual([2, ['1']]);
  });

  it('begins no message after the lock was lost, and reports those before it too', async () => {
    const { twin, locks } = world();
    const done: string[] = [];
    const handler = withRecordLocks({ locks, name: () => 'a' }, async ({ messageId }) => {
      done.push(messageId);
      twin.partition(locks);
      await twin.advance(40_000);
      twin.heal(locks);
    });
    const event = batch(message('1', ''), message('2', ''));
    const { batchItemFailures } = await handler(event, contextWith(30_000));
    expect([batchItemFailures.length, done]).toEqual([2, ['1']]);
  });

  it('keeps the order of a FIFO group, whatever locks its messages need', async () => {
    const { twin, locks } = world();
    const work = Promise.withResolvers<void>();
    const begun: string[] = [];
    const handler = withRecordLocks({ locks, name: ({ body }) => body }, ({ messageId }) => {
      begun.push(messageId);
      return messageId === '1' ? work.promise : undefined;
    });
    const handling = handler(batch(message('1', 'a', 'g'), message('2', 'b', 'g')), contextWith(30_000));
    await twin.settle();
    expect(begun).toEqual(['1']);
    work.resolve();
    expect(await handling).toEqual({ batchItemFailures: [] });
    expect(begun).toEqual(['1', '2']);
  });

  it('tells once why each message failed: for its own error, or for the lock that was lost', async () => {
    const { twin, locks } = world();
    const told: [string, unknown][] = [];
    const onFailure = ({ messageId }: SQSRecord, { message: why }: Error) => told.push([messageId, why]);
    const handler = withRecordLocks(
      { locks, name: () => 'a', onFailure: onFailure as never },
      async ({ messageId }) => {
        if (messageId === '1') throw new Error('bad message');
        twin.partition(locks);
        await twin.advance(40_000);
        twin.heal(locks);
      },
    );
    const { batchItemFailures } = await handler(batch(message('1', ''), message('2', '')), contextWith(30_000));
    expect(batchItemFailures).toHaveLength(2);
    expect(told).toEqual([
      ['1', 'bad message'],
      ['2', expect.stringContaining('lease')],
    ]);
  });

  it('works on ten names at the same time, each with its own lock in its context', async () => {
    const { locks } = world();
    const all = Promise.withResolvers<void>();
    const seen: string[] = [];
    const names = Array.from({ length: 10 }, (_, index) => `name-${index}`);
    const handler = withRecordLocks({ locks, name: ({ body }) => body }, async ({ body }, context) => {
      if (seen.push(body) === names.length) all.resolve();
      await all.promise;
      expect(context.lock.name).toBe(body);
    });
    const event = batch(...names.map((name) => message(name, name)));
    expect(await handler(event, contextWith(30_000))).toEqual({ batchItemFailures: [] });
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
    const failed = () => ({ statusCode: 500 });
    const answers = [() => Promise.reject(new Error('away')), failed, () => ({ statusCode: 200 })];
    const handler = handle(locks, async () => answers.shift()?.());
    await expect(handler(webhook('a'), contextWith(30_000))).rejects.toThrow('away');
    expect(await handler(webhook('a'), contextWith(30_000))).toEqual({ statusCode: 500 });
    expect(await handler(webhook('a'), contextWith(30_000))).toEqual({ statusCode: 200 });
    expect(await handler(webhook('a'), contextWith(30_000))).toEqual({ statusCode: 200 });
    expect(answers).toEqual([]);
  });

  it('gives the first caller the same answer as its repeats: one that has been JSON', async () => {
    const { locks } = world();
    const handler = handle(locks, async () => ({ statusCode: 200, body: new Date(0) }));
    const first = await handler(webhook('a'), contextWith(30_000));
    expect(first).toEqual({ statusCode: 200, body: '1970-01-01T00:00:00.000Z' });
    expect(await handler(webhook('a'), contextWith(30_000))).toEqual(first);
  });

  it('has given the lock back when the error of the handler arrives', async () => {
    const { twin, locks, other } = world();
    const handler = handle(locks, () => Promise.reject(new Error('away')));
    twin.loseRequest(locks, { operation: 'release' });
    await expect(twin.until(handler(webhook('a'), contextWith(30_000)))).rejects.toThrow('away');
    expect((await other.inspect('once:webhook:a')).state).toBe('free');
  });

  it('never hides a refusal that the handler itself met behind an answer', async () => {
    const { locks } = world();
    const handler = handle(locks, () => Promise.reject(new LockHeldError('held elsewhere')));
    await expect(handler(webhook('a'), contextWith(30_000))).rejects.toThrow('held elsewhere');
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

  it('answers 503 and does not run if the service is away', async () => {
    const { twin, locks } = world();
    twin.partition(locks);
    let runs = 0;
    const handler = handle(locks, async () => ++runs);
    expect(await twin.until(handler(webhook('a'), contextWith(30_000)))).toMatchObject({ statusCode: 503 });
    expect(runs).toBe(0);
  });

  it('fails if its answer cannot be kept: a repeat could not get the same one', async () => {
    const { locks } = world();
    const handler = handle(locks, async () => ({ statusCode: 200, body: 'x'.repeat(300_000) }));
    await expect(handler(webhook('a'), contextWith(30_000))).rejects.toMatchObject({ code: 'too-large' });
  });

  it('takes any characters in a key, and tells keys apart', async () => {
    const { locks, twin } = world();
    let runs = 0;
    const handler = handle(locks, async () => ++runs);
    const ids = ['a b', 'a/b', 'a=20b', 'ä', '…', 'x'.repeat(1_000), `${'x'.repeat(1_000)}y`];
    for (const [index, id] of ids.entries()) {
      for (let time = 0; time < 2; time++) expect(await handler(webhook(id), contextWith(30_000))).toBe(index + 1);
    }
    const names: string[] = [];
    for await (const { lock } of twin.client().list()) names.push(lock);
    expect(names.filter((name) => name.startsWith('once:sha256:'))).toHaveLength(6);
    // A key that looks like a digest is not the key with that digest.
    expect(keyFrom(keyFrom('a b'))).not.toBe(keyFrom('a b'));
  });

  it('answers 400 if a part of the key is missing, and does not run', async () => {
    const { locks } = world();
    const handler = handle(locks, async () => 'never');
    for (const id of [undefined, 'null', '[object Object]'] as (string | undefined)[]) {
      const { statusCode, body } = (await handler(webhook(id), contextWith(30_000))) as {
        statusCode: number;
        body: string;
      };
      expect([statusCode, JSON.parse(body).code]).toEqual([400, 'invalid-request']);
    }
    const { requestContext: _, ...other } = webhook();
    await expect(handler(other as Webhook, contextWith(30_000))).rejects.toThrow(InvalidRequestError);
  });

  it('answers 422 to another request with the same key, and the kept answer to the same one', async () => {
    const { locks } = world();
    let runs = 0;
    const handler = handle(locks, async () => ({ statusCode: 200, body: String(++runs) }));
    const event = (body: string) => ({ ...webhook('a'), rawPath: '/pay', body });
    expect(await handler(event('5'), contextWith(30_000))).toEqual({ statusCode: 200, body: '1' });
    expect(await handler(event('5'), contextWith(30_000))).toEqual({ statusCode: 200, body: '1' });
    const others = [event('6'), { ...event('5'), rawPath: '/refund' }, { ...event('5'), rawQueryString: 'x=1' }];
    for (const other of others) {
      const refused = (await handler(other, contextWith(30_000))) as { statusCode: number; body: string };
      expect(refused.statusCode).toBe(422);
      expect(JSON.parse(refused.body)).toEqual({
        type: 'urn:holdfast:problem:payload-mismatch',
        title: 'The key was used before, for another request',
        status: 422,
        code: 'payload-mismatch',
      });
    }
    expect(runs).toBe(1);
  });

  it('handles a batch again if it reported a part of it as failed', async () => {
    const { locks } = world();
    const answers = [{ batchItemFailures: [{ itemIdentifier: 'm1' }] }, { batchItemFailures: [] }];
    let runs = 0;
    const handler = handle(locks, async () => answers[runs++]);
    const delivered = { ...batch(message('m1', '{}')), id: 'batch' } as unknown as Webhook;
    expect(await handler(delivered, contextWith(30_000))).toEqual(answers[0]);
    expect(await handler(delivered, contextWith(30_000))).toEqual(answers[1]);
    expect(await handler(delivered, contextWith(30_000))).toEqual(answers[1]);
    expect(runs).toBe(2);
  });

  it.each([{ statusCode: 499 }, { statusCode: '500' }, 'text', null])('keeps the answer %j', async (answer) => {
    const { locks } = world();
    let runs = 0;
    const handler = handle(locks, async () => {
      runs += 1;
      return answer;
    });
    for (let time = 0; time < 2; time++) expect(await handler(webhook('a'), contextWith(30_000))).toEqual(answer);
    expect(runs).toBe(1);
  });
});

describe('the payload of an event', () => {
  it.each([
    ['is compared if the options say what it is', (event: { amount: number }) => event.amount, PayloadMismatchError],
    ['is not compared if the options say so', false as const, undefined],
    ['is not compared for events that are not HTTP requests', undefined, undefined],
  ])('%s', async (_, payload, error) => {
    const { locks } = world();
    const handler = withOnceHandler({ locks, key: 'job', payload }, async (event: { amount: number }) => event.amount);
    await handler({ amount: 1 }, contextWith(30_000));
    const again = handler({ amount: 2 }, contextWith(30_000));
    if (error === undefined) expect(await again).toBe(1);
    else await expect(again).rejects.toThrow(error);
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

  it('does not give the answer of an event to the next one with the same context', async () => {
    const { locks } = world();
    const handler = middy<Webhook, unknown, Error, LockedContext>()
      .use(holdfastOnce<Webhook>({ locks, key: ({ id }) => id }))
      .handler(async ({ id }) => `answer to ${id}`);
    const context = contextWith(30_000);
    expect(await handler(webhook('a') as never, context)).toBe('answer to a');
    expect(await handler(webhook() as never, context)).toBe('answer to undefined');
  });

  it('keeps the answer for as long as asked', async () => {
    const { twin, locks } = world();
    let runs = 0;
    const handler = withOnceHandler({ locks, key: 'short', keepMs: 60_000 }, async () => ++runs);
    const answers: unknown[] = [];
    for (const ms of [0, 50_000, 11_000]) {
      await twin.advance(ms);
      answers.push(await handler({}, contextWith(30_000)));
    }
    expect(answers).toEqual([1, 1, 2]);
  });

  it('is not handled again after a failure if asked to, and is held under the given owner', async () => {
    const { locks, other } = world();
    const owners: unknown[] = [];
    const job = { locks, key: 'charge', onFailure: 'close' as const, owner: 'night shift' };
    const handler = withOnceHandler(job, async () => {
      owners.push((await other.inspect('once:charge')).holders[0]?.owner);
      throw new Error('card declined');
    });
    await expect(handler({}, contextWith(30_000))).rejects.toThrow('card declined');
    await expect(handler({}, contextWith(30_000))).rejects.toMatchObject({ code: 'once-failed' });
    expect(owners).toEqual(['night shift']);
  });

  it('counts windows from their offset', async () => {
    const { twin, locks } = world();
    let runs = 0;
    const job = { locks, key: 'nightly', everyMs: 3_600_000, offsetMs: 1_800_000 };
    const handler = withOnceHandler(job, async () => ++runs);
    const answers: unknown[] = [];
    // The twin begins at midnight, so the first window ends half an hour later.
    for (let time = 0; time < 3; time++) {
      answers.push(await handler({}, contextWith(30_000)));
      await twin.advance(1_200_000);
    }
    expect(answers).toEqual([1, 1, 2]);
  });

  it('throws if the source of the event repeats failed events', async () => {
    const { twin, locks, other } = world();
    void locks.once('nightly', () => new Promise(() => {}));
    await twin.settle();
    const handler = withOnceHandler({ locks: other, key: 'nightly' }, async () => 'done');
    await expect(twin.until(handler({}, contextWith(30_000)))).rejects.toThrow(LockHeldError);
  });
});
