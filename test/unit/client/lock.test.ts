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

describe('release', () => {
  it('counts as a success if its earlier try released and the answer was lost', async () => {
    const { twin, one } = world();
    const lock = await one.acquire('wallet:42');
    twin.loseResponse(one, { operation: 'release' });
    expect(await twin.until(lock.release())).toEqual({ released: true, reason: 'ok' });
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

  it('lets readers share and keeps a writer out', async () => {
    const { one, other } = world();
    const reading = await one.readLock('catalogue').acquire();
    expect((await other.readLock('catalogue').tryAcquire()).ok).toBe(true);
    expect((await other.writeLock('catalogue').tryAcquire()).ok).toBe(false);
    expect(reading.mode).toBe('shared');
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

  it('takes limited time if the service cannot be reached', async () => {
    const { twin, one } = world();
    await one.acquire('a');
    twin.partition(one);
    const began = twin.now();
    await twin.until(one.close());
    expect(twin.now() - began).toBeLessThanOrEqual(5_000);
  });
});

describe('acquireAll', () => {
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
});
