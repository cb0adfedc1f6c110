import { describe, expect, it } from 'vitest';
import {
  type ClientEvent,
  LeaseLostError,
  LockHeldError,
  type Tried,
  UnavailableError,
  WaitTimeoutError,
} from '../../../src/client/index.ts';
import { Twin } from '../../../src/testing/index.ts';
import { callsOf, coreOf } from './inside.ts';

const world = () => {
  const twin = new Twin();
  const events: ClientEvent[] = [];
  return {
    twin,
    events,
    one: twin.client({ owner: 'one', onEvent: (event) => events.push(event) }),
    other: twin.client({ owner: 'other' }),
  };
};

const leaseIdsIn = (sent: ReturnType<typeof callsOf>) =>
  sent.map(({ body }) => (body as { readonly leaseId: string }).leaseId);

const holderOf = <H>(tried: Tried<H>) => (tried.ok ? undefined : tried.holders[0]?.owner);

describe('acquire', () => {
  it('gives a lock with a fence that rises', async () => {
    const { one } = world();
    const first = await one.acquire('wallet:42');
    expect(first.isHeld()).toBe(true);
    expect(await first.release()).toEqual({ released: true, reason: 'ok' });
    const second = await one.acquire('wallet:42');
    expect(second.fence).toBeGreaterThan(first.fence);
  });

  it('waits in the queue and is granted when the holder releases', async () => {
    const { twin, one, other } = world();
    const held = await one.acquire('wallet:42');
    const waiting = other.acquire('wallet:42', { waitMs: 60_000 });
    await twin.advance(45_000);
    await held.release();
    const lock = await waiting;
    expect(lock.waitedMs).toBe(45_000);
    expect(lock.isHeld()).toBe(true);
  });

  it('throws WaitTimeoutError when the wait is over, and leaves the queue', async () => {
    const { twin, one, other } = world();
    await one.acquire('wallet:42');
    const error = await twin.until(other.acquire('wallet:42', { waitMs: 42_000 })).catch((caught) => caught);
    expect(error).toBeInstanceOf(WaitTimeoutError);
    expect(error.waitedMs).toBe(42_000);
    expect((await one.inspect('wallet:42')).queueDepth).toBe(0);
  });

  it('throws LockHeldError with waitMs 0', async () => {
    const { one, other } = world();
    await one.acquire('wallet:42');
    await expect(other.acquire('wallet:42', { waitMs: 0 })).rejects.toThrow(LockHeldError);
  });

  it('finds its grant again after the response was lost', async () => {
    const { twin, one, other } = world();
    twin.loseResponse(one, { operation: 'acquire' });
    const lock = await twin.until(one.acquire('wallet:42'));
    const { holders } = await other.inspect('wallet:42');
    expect(holders.map(({ fence }) => fence)).toEqual([lock.fence]);
  });

  it('repeats a request that was lost or throttled, or that found the store unavailable', async () => {
    const { twin, one, events } = world();
    twin.loseRequest(one);
    twin.failUnavailable(one);
    twin.throttle(one);
    const lock = await twin.until(one.acquire('wallet:42', { waitMs: 0 }));
    expect(lock.isHeld()).toBe(true);
    expect(events.filter(({ type }) => type === 'retry')).toHaveLength(3);
  });

  it('waits as long as the service asks before it repeats a throttled request', async () => {
    const { twin, one } = world();
    const began = twin.now();
    // The twin asks for 100 ms each time. The client's own pause before its first repeat is shorter.
    twin.throttle(one);
    await twin.until(one.acquire('wallet:42', { waitMs: 0 }));
    expect(twin.now() - began).toBeGreaterThanOrEqual(100);
  });

  it('never reports an unavailable service as a held lock', async () => {
    const { twin, one } = world();
    twin.partition(one);
    await expect(twin.until(one.tryAcquire('wallet:42'))).rejects.toThrow(UnavailableError);
  });

  it('gives up its place when its signal fires while it waits', async () => {
    const { twin, one, other } = world();
    await one.acquire('wallet:42');
    const giveUp = new AbortController();
    const waiting = other.acquire('wallet:42', { waitMs: 60_000, signal: giveUp.signal }).catch((error) => error);
    await twin.advance(1_000);
    expect((await one.inspect('wallet:42')).queueDepth).toBe(1);
    giveUp.abort(new Error('changed my mind'));
    expect((await waiting).message).toBe('changed my mind');
    await twin.settle();
    expect((await one.inspect('wallet:42')).queueDepth).toBe(0);
  });

  it('releases what may have been granted if no answer comes', async () => {
    const { twin, one, other } = world();
    twin.loseResponse(one, { operation: 'acquire', times: 100 });
    await expect(twin.until(one.acquire('wallet:42', { waitMs: 0 }))).rejects.toThrow(UnavailableError);
    await twin.settle();
    expect((await other.inspect('wallet:42')).state).toBe('free');
  });

  it('renews a grant after a wait before it relies on it', async () => {
    const { twin, one, other } = world();
    const held = await one.acquire('wallet:42');
    const waiting = other.acquire('wallet:42', { waitMs: 60_000, leaseMs: 10_000 });
    await twin.advance(15_000);
    await held.release();
    const lock = await waiting;
    // A lease of 10 s would be over if it were counted from before the first request.
    expect(lock.isHeld()).toBe(true);
    expect(lock.remainingMs()).toBe(9_000);
  });

  it('rejects a name that would change the path', async () => {
    const { one } = world();
    await expect(one.acquire('../records/x')).rejects.toMatchObject({ code: 'invalid-request' });
    await expect(one.acquire('..')).rejects.toMatchObject({ code: 'invalid-request' });
  });
});

describe('tryAcquire', () => {
  it('returns the holders if somebody else holds the lock', async () => {
    const { one, other } = world();
    await one.acquire('wallet:42');
    const tried = await other.tryAcquire('wallet:42');
    expect(tried).toMatchObject({ ok: false, queueDepth: 0 });
    expect(holderOf(tried)).toBe('one');
  });
});

describe('withLock', () => {
  it('takes no lock if it is given no work', async () => {
    const { one, other } = world();
    await expect(one.withLock('a', {}, undefined as never)).rejects.toThrow(/the last argument of withLock;/);
    expect((await other.inspect('a')).state).toBe('free');
  });

  it('releases after the work and returns its result', async () => {
    const { one, other } = world();
    const fence = await one.withLock('wallet:42', { leaseMs: 30_000 }, (lock) => lock.fence);
    expect(fence).toBeGreaterThan(0);
    expect((await other.inspect('wallet:42')).state).toBe('free');
  });

  it('throws the error of the work, even if the release fails too', async () => {
    const { twin, one } = world();
    const working = one.withLock('wallet:42', () => {
      twin.partition(one);
      throw new Error('the work failed');
    });
    await expect(twin.until(working)).rejects.toThrow('the work failed');
  });

  it('returns the result of the work even if the release could not be sent', async () => {
    const { twin, one, events } = world();
    const working = one.withLock('wallet:42', () => {
      twin.partition(one);
      return 'done';
    });
    expect(await twin.until(working)).toBe('done');
    expect(events.map(({ type }) => type)).toContain('release-failed');
  });

  it('rejects with LeaseLostError when the work ended after its lease was lost', async () => {
    const { twin, one } = world();
    const working = one.withLock('wallet:42', { leaseMs: 10_000 }, async () => {
      twin.partition(one);
      await twin.advance(20_000);
      twin.heal(one);
      return 'done';
    });
    await expect(working).rejects.toMatchObject({ code: 'lease-lost', reason: 'unconfirmed' });
  });

  it('rejects with LeaseLostError when the lock was revoked meanwhile', async () => {
    const { one, other } = world();
    const working = one.withLock('wallet:42', async ({ fence }) => {
      await other.revoke('wallet:42', { fence, reason: 'for the test' });
    });
    await expect(working).rejects.toThrow(LeaseLostError);
  });
});

describe('onLost', () => {
  it('calls its listener once, also if the lease was lost before', async () => {
    const { twin, one, events } = world();
    const lock = await one.acquire('wallet:42', { leaseMs: 5_000 });
    const told: unknown[] = [];
    lock.onLost((error) => told.push(error));
    const stopListening = lock.onLost((error) => told.push(error));
    stopListening();
    twin.partition(one);
    await twin.advance(6_000);
    expect(told).toEqual([lock.signal.reason]);
    expect(events.filter(({ type }) => type === 'lost')).toEqual([
      { type: 'lost', name: 'wallet:42', error: lock.signal.reason },
    ]);
    lock.onLost((error) => told.push(error));
    await twin.settle();
    expect(told).toEqual([lock.signal.reason, lock.signal.reason]);
    expect(lock.signal.reason).toBeInstanceOf(LeaseLostError);
  });
});

describe('release', () => {
  it('says that somebody else released the lease, if it was sent only once', async () => {
    const { one, other } = world();
    const sent = callsOf(one);
    const single = await one.acquire('a');
    const several = await one.acquireAll(['b', 'c']);
    const [first = '', second = ''] = leaseIdsIn(sent);
    await other.release({ lock: 'a', leaseId: first });
    for (const lock of ['b', 'c']) await other.release({ lock, leaseId: second });
    expect(await single.release()).toEqual({ released: false, reason: 'already_released' });
    expect(await several.release()).toEqual({ released: false, reason: 'already_released' });
  });

  it('by somebody else does not make the work a failure', async () => {
    const { one, other } = world();
    const sent = callsOf(one);
    const work = async () => {
      const [leaseId = ''] = leaseIdsIn(sent);
      await other.release({ lock: 'a', leaseId });
      return 'done';
    };
    expect(await one.withLock('a', work)).toBe('done');
  });

  it('makes its client forget the lock, as detaching does', async () => {
    const { one } = world();
    const [a, b] = [await one.acquire('a'), await one.acquire('b')];
    expect(coreOf(one).open.size).toBe(2);
    await a.release();
    b.detach();
    expect(coreOf(one).open.size).toBe(0);
  });

  it('counts as a success if its earlier try released and the answer was lost', async () => {
    const { twin, one } = world();
    const lock = await one.acquire('wallet:42');
    twin.loseResponse(one, { operation: 'release' });
    expect(await twin.until(lock.release())).toEqual({ released: true, reason: 'ok' });
  });

  it('counts as a success for several locks too, if the answer of its earlier try was lost', async () => {
    const { twin, one } = world();
    const both = await one.acquireAll(['a', 'b']);
    twin.loseResponse(one, { operation: 'release' });
    expect(await twin.until(both.release())).toEqual({ released: true, reason: 'ok' });
  });

  it('is sent again if the first try gets no answer at all', async () => {
    const { twin, one, other } = world();
    const lock = await one.acquire('wallet:42');
    twin.hang(one, { operation: 'release' });
    const began = twin.now();
    expect(await twin.until(lock.release())).toEqual({ released: true, reason: 'ok' });
    expect(twin.now() - began).toBeLessThan(5_000);
    expect((await other.inspect('wallet:42')).state).toBe('free');
  });

  it('is the end of all renewals, even while it is sent', async () => {
    const { twin, one } = world();
    const lock = await one.acquire('wallet:42', { leaseMs: 3_000 });
    twin.loseRequest(one, { operation: 'release', times: 100 });
    const sent = callsOf(one);
    await expect(twin.until(lock.release())).rejects.toThrow(UnavailableError);
    await twin.advance(10_000);
    expect(sent.filter(({ operation }) => operation === 'renewLock')).toEqual([]);
  });

  it('is one request, even if it is called several times', async () => {
    const { one } = world();
    const lock = await one.acquire('wallet:42');
    expect(lock.release()).toBe(lock.release());
    await lock.release();
  });

  it('does not throw from await using', async () => {
    const { twin, one } = world();
    const scope = async () => {
      await using lock = await one.acquire('wallet:42');
      twin.partition(one);
      return lock.fence;
    };
    expect(await twin.until(scope())).toBeGreaterThan(0);
  });

  it('is sent at the end of the block', async () => {
    const { one, other } = world();
    {
      await using _ = await one.acquire('wallet:42');
    }
    expect((await other.inspect('wallet:42')).state).toBe('free');
  });
});

describe('semaphore, readLock and writeLock', () => {
  it('holds no more permits than the limit', async () => {
    const { one, other } = world();
    const gpus = one.semaphore('gpu', 3);
    await gpus.acquire({ permits: 2 });
    expect((await other.semaphore('gpu', 3).tryAcquire({ permits: 2 })).ok).toBe(false);
    expect((await other.semaphore('gpu', 3).tryAcquire()).ok).toBe(true);
    await expect(other.semaphore('gpu', 4).tryAcquire()).rejects.toMatchObject({ code: 'limit-mismatch', limit: 3 });
  });

  it('runs work while permits are held, with options or without', async () => {
    const { one, other } = world();
    const gpus = one.semaphore('gpu', 3);
    const tried = () => other.semaphore('gpu', 3).tryAcquire({ permits: 2 });
    expect(await gpus.withLock({ permits: 2 }, async ({ permits }) => [permits, (await tried()).ok])).toEqual([
      2,
      false,
    ]);
    expect(await gpus.withLock(({ permits, limit }) => [permits, limit])).toEqual([1, 3]);
    expect((await tried()).ok).toBe(true);
    await expect(gpus.withLock({}, undefined as never)).rejects.toThrow('withLock');
  });

  it('lets readers share and keeps a writer out', async () => {
    const { one, other } = world();
    const reading = await one.readLock('catalogue').acquire();
    expect((await other.readLock('catalogue').tryAcquire()).ok).toBe(true);
    expect((await other.writeLock('catalogue').tryAcquire()).ok).toBe(false);
    expect(reading.mode).toBe('shared');
    expect((await one.writeLock('prices').acquire()).mode).toBe('exclusive');
  });
});

describe('detach and adopt', () => {
  it('carries a lease from one client to another', async () => {
    const { twin, one, other } = world();
    const lock = await one.acquire('wallet:42', { leaseMs: 10_000 });
    const lease = lock.detach();
    await twin.advance(5_000);
    const adopted = await other.adopt(lease);
    expect(adopted.fence).toBe(lock.fence);
    await twin.advance(60_000);
    expect(adopted.isHeld()).toBe(true);
    expect(lock.isHeld()).toBe(false);
  });
});

describe('a detached lease', () => {
  it('stays with its new owner, whatever the old client does', async () => {
    const { twin, one, other } = world();
    const lock = await one.acquire('wallet:42', { leaseMs: 60_000 });
    const lease = lock.detach();
    expect(await lock.release()).toEqual({ released: false, reason: 'already_released' });
    await twin.until(one.close());
    expect(await other.inspect('wallet:42')).toMatchObject({ state: 'held', fence: lease.fence });
  });

  it('is not given out after it was lost', async () => {
    const { twin, one } = world();
    const lock = await one.acquire('wallet:42', { leaseMs: 3_000 });
    twin.partition(one);
    await twin.advance(3_000);
    expect(() => lock.detach()).toThrow(LeaseLostError);
  });

  it('is adopted for as long as asked, and released from elsewhere without an error if it is over', async () => {
    const { twin, one, other } = world();
    const lease = (await one.acquire('wallet:42', { leaseMs: 10_000 })).detach();
    const adopted = await other.adopt(lease, { leaseMs: 60_000, autoRenew: false });
    expect(adopted.remainingMs()).toBe(59_000);
    await twin.advance(70_000);
    await one.acquire('wallet:42');
    expect(await other.release(lease)).toEqual({ released: false, reason: 'expired' });
  });
});

describe('park', () => {
  it("uses the client's defaults", async () => {
    const { twin } = world();
    const client = twin.client({ owner: 'night shift', leaseMs: 7_000 });
    const sent = callsOf(client);
    await client.park('a', { waitMs: 1_000, notify: { type: 'event', ref: 'r' } });
    expect(sent[0]?.body).toMatchObject({ owner: 'night shift', leaseMs: 7_000 });
  });
});

describe('close', () => {
  it('releases what is held and ends waits', async () => {
    const { twin, one, other } = world();
    await one.acquire('a');
    await other.acquire('b');
    const waiting = one.acquire('b', { waitMs: 60_000 }).catch((error) => error);
    await twin.settle();
    await twin.until(one.close());
    expect((await waiting).code).toBe('closed');
    expect((await other.inspect('a')).state).toBe('free');
    expect((await other.inspect('b')).queueDepth).toBe(0);
    await expect(one.inspect('a')).rejects.toMatchObject({ code: 'closed' });
  });

  it('waits until a wait that was given up has left its queue', async () => {
    const { twin, one, other } = world();
    await other.acquire('b');
    const giveUp = new AbortController();
    const waiting = one.acquire('b', { waitMs: 60_000, signal: giveUp.signal }).catch(() => undefined);
    await twin.settle();
    twin.loseRequest(one, { operation: 'release' });
    giveUp.abort();
    await waiting;
    await twin.until(one.close());
    expect((await other.inspect('b')).queueDepth).toBe(0);
  });

  it('lets nothing more be written', async () => {
    const { twin, one, other } = world();
    await twin.until(one.close());
    await expect(one.record('late').put(1, 'absent')).rejects.toMatchObject({ code: 'closed' });
    await expect(one.acquire('late')).rejects.toMatchObject({ code: 'closed' });
    expect([await other.record('late').get(), (await other.inspect('late')).fence]).toEqual([undefined, 0]);
  });

  it('gives back the place of a client that only waits, so that the next waiter is served at once', async () => {
    const { twin, one, other } = world();
    const held = await other.acquire('b');
    const waiting = one.acquire('b', { waitMs: 60_000 }).catch((error) => error);
    await twin.settle();
    const behind = other.acquire('b', { waitMs: 60_000 });
    await twin.settle();
    await twin.until(one.close());
    expect((await waiting).code).toBe('closed');
    expect((await other.inspect('b')).queueDepth).toBe(1);
    await held.release();
    await twin.settle();
    expect((await behind).isHeld()).toBe(true);
  });

  it('releases a lock that is granted while the client closes', async () => {
    const { twin, one, other } = world();
    const held = await other.acquire('b', { leaseMs: 3_000 });
    // Its grant needs a renewal before it can be used, and the client is closed in that time.
    const waiting = one.acquire('b', { waitMs: 60_000, leaseMs: 3_000 }).catch((error) => error);
    await twin.advance(2_000);
    twin.delay(one, 500, { operation: 'renew' });
    await held.release();
    await twin.advance(100);
    const closing = one.close();
    await twin.until(closing);
    await waiting;
    expect((await other.inspect('b')).state).toBe('free');
  });

  it('takes limited time if the service cannot be reached', async () => {
    const { twin, one } = world();
    await one.acquire('a');
    twin.partition(one);
    const began = twin.now();
    await twin.until(one.close());
    expect(twin.now() - began).toBeLessThanOrEqual(5_000);
  });
});

describe('several locks', () => {
  it('have their names in the order of the call, and each its own fence', async () => {
    const { one, other } = world();
    await (await one.acquire('a')).release();
    const both = await one.acquireAll(['b', 'a']);
    const fenceOf = async (name: string) => (await other.inspect(name)).fence;
    expect(both.names).toEqual(['b', 'a']);
    expect([...both.fences]).toEqual([
      ['b', await fenceOf('b')],
      ['a', await fenceOf('a')],
    ]);
    expect(both.fence('a')).toBe(await fenceOf('a'));
    expect(both.fence('a')).not.toBe(both.fence('b'));
  });

  it('have no fence for a lock that is not one of them', async () => {
    const { one } = world();
    const both = await one.acquireAll(['a', 'b']);
    expect(() => both.fence('c')).toThrow(RangeError);
    expect(() => both.fence('c')).toThrow('c is not one of the locks');
  });

  it('are known as lost after a freeze, as soon as their fences are read', async () => {
    const { twin, one } = world();
    const both = await one.acquireAll(['a', 'b'], { leaseMs: 10_000 });
    const { signal } = both;
    twin.freeze(one);
    await twin.advance(60_000);
    const thawed = twin.thaw(one);
    expect(signal.aborted).toBe(false);
    expect(both.fences.size).toBe(2);
    expect(signal.aborted).toBe(true);
    await thawed;
  });
});

describe('acquireAll', () => {
  it('tries once with waitMs 0, whatever the default is', async () => {
    const { twin, one } = world();
    await one.acquire('a', { leaseMs: 60_000 });
    const client = twin.client({ waitMs: 20_000 });
    const began = twin.now();
    expect(await twin.until(client.tryAcquireAll(['a', 'b']))).toMatchObject({ ok: false, blockedBy: ['a'] });
    expect(twin.now()).toBe(began);
  });

  it('waits as long as it was asked to, although one of the locks is granted early', async () => {
    const { twin, one, other } = world();
    const [a, b] = [await one.acquire('a', { leaseMs: 120_000 }), await one.acquire('b', { leaseMs: 120_000 })];
    const waiting = other.acquireAll(['a', 'b'], { waitMs: 60_000 });
    await twin.advance(25_000);
    await a.release();
    await twin.advance(30_000);
    await b.release();
    const both = await twin.until(waiting);
    expect(both.waitedMs).toBe(55_000);
  });

  it('ends its wait when the time is over, counted from the first request', async () => {
    const { twin, one, other } = world();
    const a = await one.acquire('a', { leaseMs: 120_000 });
    await one.acquire('b', { leaseMs: 120_000 });
    const began = twin.now();
    const waiting = other.acquireAll(['a', 'b'], { waitMs: 60_000 }).catch((caught) => caught);
    await twin.advance(25_000);
    await a.release();
    expect(await twin.until(waiting)).toBeInstanceOf(WaitTimeoutError);
    expect(twin.now() - began).toBe(60_000);
  });

  it('says that a lease was lost, although its release was sent twice and the other locks were released', async () => {
    const { twin, one, other } = world();
    const both = await one.acquireAll(['a', 'b'], { leaseMs: 5_000 });
    const { fence } = (await other.inspect('b')).holders[0] as { fence: number };
    await other.revoke('b', { fence, reason: 'test' });
    twin.loseResponse(one, { operation: 'release' });
    expect(await twin.until(both.release())).toEqual({ released: false, reason: 'revoked' });
  });

  it('says that all are released if only the answer of the first release was lost', async () => {
    const { twin, one } = world();
    const both = await one.acquireAll(['a', 'b']);
    twin.loseResponse(one, { operation: 'release' });
    expect(await twin.until(both.release())).toEqual({ released: true, reason: 'ok' });
  });
});
