/** What a client asks the service for, besides taking locks, and how it ends. */
import { describe, expect, it, vi } from 'vitest';
import { ClosedError, Holdfast, type TransportOptions } from '../../../src/client/index.ts';
import type { Answer, Call } from '../../../src/client/transport.ts';
import { Twin } from '../../../src/testing/index.ts';
import { VirtualProcess, VirtualTime } from '../../../src/testing/virtual-time.ts';
import { callsOf, coreOf, timersOf } from './inside.ts';

/** A client of a service that answers as the test says. */
function world(answer: (call: Call) => Partial<Answer>, options: Partial<TransportOptions> = {}) {
  const time = new VirtualTime();
  const sent: Call[] = [];
  const request = async (call: Call): Promise<Answer> => {
    sent.push(call);
    return { status: 200, headers: {}, body: {}, ...answer(call) };
  };
  const close = vi.fn();
  const runtime = new VirtualProcess(time, 'client', 1);
  const locks = new Holdfast({ namespace: 'test', transport: { request, close }, runtime, ...options });
  return { time, sent, close, locks };
}

describe('a client', () => {
  it('has the patience that it was given, and else the deadline of its calls', () => {
    const patience = (options: object) => coreOf(world(() => ({}), options).locks).patience;
    expect(patience({})).toEqual({ requestMs: 10_000, retryMs: 5_000, tryMs: 1_000, releaseMs: 5_000 });
    expect(patience({ deadlineMs: 800 })).toMatchObject({ retryMs: 800, tryMs: 400, requestMs: 10_000 });
    expect(patience({ deadlineMs: 800, patience: { tryMs: 7 } })).toMatchObject({ retryMs: 800, tryMs: 7 });
  });

  it('shows the defaults of its calls', () => {
    const defaults = { owner: 'me', leaseMs: 9_000, waitMs: 4_000 };
    expect(world(() => ({}), defaults).locks.defaults).toMatchObject(defaults);
  });

  it('refuses to fail open without the tier that allows it, and a wrong namespace', () => {
    expect(() => world(() => ({}), { onUnavailable: 'fail-open' })).toThrow('efficiency');
    expect(() => world(() => ({}), { namespace: 'a/b' })).toThrow('namespace');
    expect(world(() => ({}), { onUnavailable: 'fail-open', tier: 'efficiency' }).locks.namespace).toBe('test');
  });

  it('reports the state of its breaker', async () => {
    const seen: unknown[] = [];
    const away = { status: 503, body: { code: 'unavailable' } };
    const options = { onEvent: (event: object) => void seen.push(event), breaker: { failuresMax: 1 }, deadlineMs: 1 };
    const { time, locks } = world(() => away, options);
    const asked = locks.health().catch(() => undefined);
    await time.advance(60_000);
    await asked;
    expect(seen).toContainEqual({ type: 'breaker', state: 'open' });
  });
});

describe('park', () => {
  const notify = { type: 'event', ref: 'r' } as const;

  it('sends what was asked for, with the defaults of the client and a new lease', async () => {
    const waiting = { status: 'waiting', lock: 'a', leaseId: 'l', position: 1 };
    const { sent, locks } = world(() => ({ status: 202, body: waiting }), { owner: 'me', leaseMs: 9_000 });
    expect(await locks.park('a', { notify, waitMs: 60_000, limit: 3, deadlineMs: 100 })).toEqual(waiting);
    expect(sent[0]?.parameters).toEqual({ ns: 'test', name: 'a' });
    expect(sent[0]?.body).toEqual({
      notify,
      waitMs: 60_000,
      limit: 3,
      owner: 'me',
      leaseMs: 9_000,
      leaseId: expect.stringMatching(/.{16}/),
    });
    await locks.park('a', { notify, waitMs: 60_000, leaseId: 'my-own-lease-0000', owner: 'they' });
    expect(sent[1]?.body).toMatchObject({ leaseId: 'my-own-lease-0000', owner: 'they' });
  });

  it('refuses a wrong name before it sends anything', async () => {
    const { sent, locks } = world(() => ({}));
    await expect(locks.park('../a', { notify, waitMs: 0 })).rejects.toMatchObject({ code: 'invalid-request' });
    expect(sent).toEqual([]);
  });
});

describe('a lease of another process', () => {
  const lease = { lock: 'a', leaseId: 'lease-of-another' };

  it('is adopted by a renewal, and then renewed for as long as the service said', async () => {
    const body = { lock: 'a', fence: 7, limit: 1, permits: 1, leaseMs: 9_000, remainingMs: 9_000, waitedMs: 0 };
    const { time, sent, locks } = world(() => ({ body }));
    const lock = await locks.adopt(lease, { leaseMs: 9_000 });
    expect(sent[0]).toMatchObject({ operation: 'renewLock', body: { leaseId: lease.leaseId, leaseMs: 9_000 } });
    expect([lock.name, lock.fence, lock.isHeld(), lock.waitedMs]).toEqual(['a', 7, true, 0]);
    await time.advance(30_000);
    expect(lock.isHeld()).toBe(true);
    expect(lock.detach()).toEqual({ ...lease, fence: 7 });
  });

  it('is held for the time that is left, or for none if the service does not say', async () => {
    const adopted = async (times: object) => {
      const body = { lock: 'a', fence: 7, limit: 1, permits: 1, waitedMs: 0, ...times };
      return (await world(() => ({ body })).locks.adopt(lease, { autoRenew: false })).remainingMs();
    };
    const left = [
      await adopted({ leaseMs: 9_000, remainingMs: 4_000 }),
      await adopted({ leaseMs: 9_000 }),
      await adopted({}),
    ];
    expect(left[0]).toBeLessThanOrEqual(4_000);
    expect(left[0]).toBeGreaterThan(3_000);
    expect(left[1]).toBeGreaterThan(8_000);
    expect(left[2]).toBe(0);
  });

  it('is not adopted if it is lost, and the tracer learns that', async () => {
    const failed = vi.fn();
    const wait = vi.fn(() => ({ granted: () => ({ run: <T>(work: () => T) => work(), end: () => {} }), failed }));
    const lost = { status: 409, body: { code: 'lease-lost', reason: 'expired' } };
    const { locks } = world(() => lost, { tracing: { wait } });
    await expect(locks.adopt(lease)).rejects.toMatchObject({ reason: 'expired' });
    expect(wait).toHaveBeenCalledWith({ namespace: 'test', locks: ['a'] });
    expect(failed).toHaveBeenCalledWith(expect.objectContaining({ reason: 'expired' }));
  });

  it('is released, or says why it was not', async () => {
    const released = { released: true, reason: 'ok' };
    const { sent, locks } = world(() => ({ body: released }));
    expect(await locks.release(lease)).toEqual(released);
    expect(sent[0]).toMatchObject({ operation: 'releaseLock', body: { leaseId: lease.leaseId } });
    const lost = { status: 409, body: { code: 'lease-lost', reason: 'revoked' } };
    expect(await world(() => lost).locks.release(lease)).toEqual({ released: false, reason: 'revoked' });
    const refused = { status: 403, body: { code: 'forbidden' } };
    await expect(world(() => refused).locks.release(lease)).rejects.toMatchObject({ code: 'forbidden' });
  });
});

describe('a look at the service', () => {
  it('goes on by the cursor until there is none', async () => {
    const pages = [{ locks: [{ lock: 'a' }], cursor: 'c1' }, { locks: [], cursor: 'c2' }, { locks: [{ lock: 'b' }] }];
    const { sent, locks } = world(() => ({ body: pages.shift() }));
    const found: string[] = [];
    for await (const { lock } of locks.list({ prefix: 'x', state: 'held', pageSize: 5 })) found.push(lock);
    expect(found).toEqual(['a', 'b']);
    const query = { prefix: 'x', state: 'held', limit: '5' };
    expect(sent.map((call) => call.query)).toEqual([query, { ...query, cursor: 'c1' }, { ...query, cursor: 'c2' }]);
  });

  it('asks for the history of one lock', async () => {
    const { sent, locks } = world(() => ({ body: { events: [{ type: 'granted' }] } }));
    const types: string[] = [];
    for await (const { type } of locks.history('a', { pageSize: 5 })) types.push(type);
    expect([types, sent[0]?.query, sent[0]?.parameters]).toEqual([
      ['granted'],
      { limit: '5' },
      { ns: 'test', name: 'a' },
    ]);
  });

  it('revokes with a reason and checks by the fence', async () => {
    const { sent, locks } = world(() => ({}));
    await locks.revoke('a', { fence: 7, reason: 'stuck' });
    await locks.check('a', 7);
    expect(sent.map(({ operation, body, query }) => [operation, body ?? query])).toEqual([
      ['revokeLock', { fence: 7, reason: 'stuck' }],
      ['checkFence', { fence: '7' }],
    ]);
  });
});

describe('the end of a client', () => {
  it('gives back what it holds, ends its waits, and closes its transport once', async () => {
    const twin = new Twin();
    const [locks, other] = [twin.client(), twin.client()];
    await locks.acquire('a');
    await other.acquire('b', { leaseMs: 600_000 });
    const waiting = locks.acquire('b', { waitMs: 60_000 }).catch((error: unknown) => error);
    await twin.settle();
    await twin.until(Promise.all([locks.close(), locks.close()]));
    expect(await waiting).toBeInstanceOf(ClosedError);
    expect(await waiting).toMatchObject({ message: expect.stringMatching(/client was closed/) });
    expect((await other.inspect('a')).holders).toEqual([]);
    const late = locks.inspect('a').catch((error: unknown) => error);
    expect(await twin.until(late)).toBeInstanceOf(ClosedError);
  });

  it('closes its transport, and does not wait for ever for a service that hangs', async () => {
    const body = { lock: 'a', fence: 7, limit: 1, permits: 1, leaseMs: 60_000, remainingMs: 60_000, waitedMs: 0 };
    const { time, close, locks } = world(() => ({}));
    coreOf(locks).transport.request = ({ operation }) =>
      operation === 'releaseLock'
        ? new Promise(() => {})
        : Promise.resolve({ status: 200, headers: {}, body: { status: 'granted', ...body } });
    await locks.acquire('a', { waitMs: 0 });
    let isClosed = false;
    void locks.close().then(() => {
      isClosed = true;
    });
    await time.advance(4_999);
    expect([isClosed, close.mock.calls.length]).toEqual([false, 0]);
    await time.advance(1);
    expect([isClosed, close.mock.calls.length]).toEqual([true, 1]);
  });

  it('comes at the end of its block, and leaves no timer behind', async () => {
    const twin = new Twin();
    const seen: { timers?: ReturnType<typeof timersOf> } = {};
    const block = async () => {
      await using locks = twin.client();
      seen.timers = timersOf(locks);
      await locks.acquire('a');
    };
    await twin.until(block());
    expect(seen.timers?.size).toBe(0);
    expect((await twin.client().inspect('a')).state).toBe('free');
  });

  it('gives each lock back with one request', async () => {
    const twin = new Twin();
    const locks = twin.client();
    for (const name of ['a', 'b']) await locks.acquire(name);
    twin.delay(locks, 1_000, { operation: 'release', lock: 'b' });
    const sent = callsOf(locks);
    await twin.until(locks.close());
    expect(sent.map(({ operation }) => operation)).toEqual(['releaseLock', 'releaseLock']);
  });
});
