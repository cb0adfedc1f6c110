import type { Context } from 'aws-lambda';
import { describe, expect, it } from 'vitest';
import { Holdfast, InvalidRequestError, UnavailableError } from '../../../src/client/index.ts';
import { withLockHandler, withRecordLocks } from '../../../src/middleware/index.ts';
import { Twin } from '../../../src/testing/index.ts';

type Client = ReturnType<Twin['client']>;

/** How long a call takes until it fails as unavailable, in the twin's time. */
async function failsAfterMs(twin: Twin, call: () => Promise<unknown>): Promise<number> {
  const beganAt = twin.now();
  await expect(twin.until(call())).rejects.toThrow(UnavailableError);
  return twin.now() - beganAt;
}

function world(away: 'cut off' | 'silent', options: Parameters<Twin['client']>[0] = {}) {
  const twin = new Twin();
  const locks = twin.client(options);
  if (away === 'cut off') twin.partition(locks);
  else twin.hang(locks, { times: 1_000 });
  return { twin, locks };
}

describe.each(['cut off', 'silent'] as const)('a service that is %s', (away) => {
  const calls: [string, (locks: Client) => Promise<unknown>, number][] = [
    ['tryAcquire', (locks) => locks.tryAcquire('a'), 2_000],
    ['tryAcquireAll', (locks) => locks.tryAcquireAll(['a', 'b']), 2_000],
    ['acquire with waitMs 500', (locks) => locks.acquire('a', { waitMs: 500 }), 2_500],
    ['acquireAll with waitMs 500', (locks) => locks.acquireAll(['a', 'b'], { waitMs: 500 }), 2_500],
    ['withLock with waitMs 500', (locks) => locks.withLock('a', { waitMs: 500 }, () => 1), 2_500],
    ['health', (locks) => locks.health(), 5_000],
    ['inspect', (locks) => locks.inspect('a'), 5_000],
    ['revoke', (locks) => locks.revoke('a', { fence: 1, reason: 'test' }), 5_000],
    ['session', (locks) => locks.session(), 5_000],
    ['record get', (locks) => locks.record('a').get(), 5_000],
    ['record update', (locks) => locks.record('a').update(() => 1), 5_000],
    ['tryAcquire with deadlineMs', (locks) => locks.tryAcquire('a', { deadlineMs: 300 }), 300],
    ['acquire with a wait beyond its deadlineMs', (l) => l.acquire('a', { waitMs: 60_000, deadlineMs: 700 }), 700],
    ['health with deadlineMs', (locks) => locks.health({ deadlineMs: 300 }), 300],
    [
      'park with deadlineMs',
      (l) => l.park('a', { waitMs: 1, notify: { type: 'event', ref: 'r' }, deadlineMs: 300 }),
      300,
    ],
    ['record update with deadlineMs', (locks) => locks.record('a').update(() => 1, { deadlineMs: 300 }), 300],
  ];

  it.each(calls)('does not delay %s longer than its deadline', async (_, call, withinMs) => {
    const { twin, locks } = world(away);
    expect(await failsAfterMs(twin, () => call(locks))).toBeLessThanOrEqual(withinMs);
  });

  it('does not delay any call longer than the deadline of the client', async () => {
    const { twin, locks } = world(away, { deadlineMs: 400 });
    expect(await failsAfterMs(twin, () => locks.health())).toBeLessThanOrEqual(400);
    expect(await failsAfterMs(twin, () => locks.tryAcquire('a'))).toBeLessThanOrEqual(400);
    expect(await failsAfterMs(twin, () => locks.acquire('a', { waitMs: 1_000 }))).toBeLessThanOrEqual(1_400);
  });
});

describe('a service that comes back', () => {
  it('is reached within the deadline', async () => {
    const { twin, locks } = world('cut off');
    const tried = locks.tryAcquire('a');
    await twin.advance(300);
    twin.heal(locks);
    expect(await twin.until(tried)).toMatchObject({ ok: true });
  });
});

describe('a deadline within a wait', () => {
  it('ends the wait in time, with the answer of the service', async () => {
    const twin = new Twin();
    await twin.client().acquire('a', { leaseMs: 60_000 });
    const beganAt = twin.now();
    const waiting = twin.client().acquire('a', { waitMs: 60_000, deadlineMs: 3_000 });
    await expect(twin.until(waiting)).rejects.toMatchObject({ code: 'wait-timeout' });
    expect(twin.now() - beganAt).toBeLessThanOrEqual(3_000);
  });
});

describe('an invocation', () => {
  /** A context that uses the twin's time. */
  const contextOf = (twin: Twin, leftMs: number): Context => {
    const endsAt = twin.now() + leftMs;
    return { getRemainingTimeInMillis: () => endsAt - twin.now() } as Context;
  };

  it('with 3 s left answers 503 in time if the service is unavailable', async () => {
    const { twin, locks } = world('silent');
    const event = { requestContext: { http: {} }, rawPath: '/' };
    const context = contextOf(twin, 3_000);
    const handler = withLockHandler({ locks, name: 'a', waitMs: 10_000 }, () => 'never');
    await twin.until(handler(event, context).catch((error: unknown) => error));
    expect(context.getRemainingTimeInMillis()).toBeGreaterThanOrEqual(400);
  });

  it('reports a batch as failed in time if the service is unavailable', async () => {
    const { twin, locks } = world('silent');
    const context = contextOf(twin, 3_000);
    const handler = withRecordLocks({ locks, name: () => 'a' }, () => 'never');
    const event = { Records: [{ messageId: '1', body: '' }] } as never;
    const answer = await twin.until(handler(event, context));
    expect(answer).toEqual({ batchItemFailures: [{ itemIdentifier: '1' }] });
    expect(context.getRemainingTimeInMillis()).toBeGreaterThanOrEqual(400);
  });

  it('leaves time for its answer if the release gets no answer', async () => {
    const twin = new Twin();
    const locks = twin.client();
    const context = contextOf(twin, 3_000);
    const handler = withLockHandler({ locks, name: 'a' }, async () => {
      twin.hang(locks, { operation: 'release', times: 100 });
      await new Promise<void>((resolve) => void twin.advance(2_000).then(resolve));
      return 'done';
    });
    expect(await twin.until(handler({}, context))).toBe('done');
    expect(context.getRemainingTimeInMillis()).toBeGreaterThan(0);
  });

  it('holds the lock no longer than it lasts, even if the lease was renewed', async () => {
    const twin = new Twin();
    const locks = twin.client();
    const context = contextOf(twin, 6_000);
    const endsAt = twin.now() + 6_000;
    const handler = withLockHandler({ locks, name: 'a' }, () => new Promise(() => {}));
    void handler({}, context);
    await twin.advance(5_900);
    const [holder] = (await twin.client().inspect('a')).holders;
    expect(twin.now() + (holder?.remainingMs ?? 0)).toBeLessThanOrEqual(endsAt + 1_000);
    await twin.advance(1_400);
    expect(await twin.client().tryAcquire('a')).toMatchObject({ ok: true });
  });

  it("uses the client's defaults for lease and wait", async () => {
    const twin = new Twin();
    const locks = twin.client({ leaseMs: 2_000, waitMs: 4_000 });
    const held = await twin.client().acquire('a', { leaseMs: 60_000 });
    const context = contextOf(twin, 60_000);
    let leaseMs = 0;
    const handler = withLockHandler({ locks, name: 'a' }, (_event, { lock }) => {
      leaseMs = lock.remainingMs();
    });
    const running = handler({}, context);
    await twin.advance(3_000);
    await held.release();
    await twin.until(running);
    expect(leaseMs).toBeGreaterThan(1_000);
    expect(leaseMs).toBeLessThanOrEqual(2_000);
  });
});

describe('an unavailable service', () => {
  it('is reported with its URL and the cause', async () => {
    await using locks = new Holdfast({ url: 'http://127.0.0.1:9/prod', namespace: 'test', deadlineMs: 3_000 });
    const error = await locks.health().catch((caught: unknown) => caught as Error & { cause?: unknown });
    expect(error).toBeInstanceOf(UnavailableError);
    expect((error as Error).message).toContain('http://127.0.0.1:9/prod');
    expect((error as Error).cause).toBeInstanceOf(Error);
  });

  it('is not reported for a missing or wrong URL', () => {
    const of = (url: unknown) => () => new Holdfast({ url: url as string, namespace: 'test' });
    expect(of(undefined)).toThrow(InvalidRequestError);
    expect(of(undefined)).toThrow(/url is missing/);
    expect(of('localhost')).toThrow(/url must be/);
  });
});
