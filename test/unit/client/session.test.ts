import { describe, expect, it } from 'vitest';
import { SessionLostError } from '../../../src/client/index.ts';
import { Twin } from '../../../src/testing/index.ts';

const world = () => {
  const twin = new Twin();
  return { twin, one: twin.client({ owner: 'one' }), other: twin.client({ owner: 'other' }) };
};

describe('session', () => {
  it('keeps all its locks with one keepalive, and frees them when it ends', async () => {
    const { twin, one, other } = world();
    const session = await one.session({ ttlMs: 9_000 });
    const locks = await Promise.all(['a', 'b'].map((name) => session.acquire(name)));
    await twin.advance(60_000);
    expect(locks.map((lock) => lock.isHeld())).toEqual([true, true]);
    expect((await session.locks()).map(({ lock }) => lock).toSorted()).toEqual(['a', 'b']);
    expect(await session.end()).toEqual({ ended: true, released: 2 });
    expect((await other.inspect('a')).state).toBe('free');
    expect(locks.map((lock) => lock.isHeld())).toEqual([false, false]);
  });

  it('says that it ended it, although the first answer was lost and the repeat found it over', async () => {
    const { twin, one } = world();
    const session = await one.session();
    twin.loseResponse(one, { operation: 'endSession' });
    expect(await twin.until(session.end())).toMatchObject({ ended: true });
  });

  it('ends all its locks if it is lost, and fires the signal of each before another caller can be granted', async () => {
    const { twin, one, other } = world();
    const session = await one.session({ ttlMs: 9_000 });
    const lock = await session.acquire('a');
    const lostAt: number[] = [];
    lock.onLost(({ reason }) => {
      expect(reason).toBe('session_lost');
      lostAt.push(twin.now());
    });
    twin.partition(one);
    const grantedAt = other.acquire('a', { waitMs: 30_000 }).then(() => twin.now());
    await twin.advance(20_000);
    expect(session.signal.reason).toBeInstanceOf(SessionLostError);
    expect(lostAt[0]).toBeLessThan(await grantedAt);
  });

  it('is known to be lost at once in a process after a freeze', async () => {
    const { twin, one } = world();
    const session = await one.session({ ttlMs: 9_000 });
    const lock = await session.acquire('a');
    twin.freeze(one);
    await twin.advance(60_000);
    const thawed = twin.thaw(one);
    expect(lock.isHeld()).toBe(false);
    expect(lock.signal.aborted).toBe(true);
    await thawed;
  });

  it('releases one of its locks and lives on', async () => {
    const { one, other } = world();
    await using session = await one.session();
    const lock = await session.acquire('a');
    expect(await lock.release()).toEqual({ released: true, reason: 'ok' });
    expect((await other.tryAcquire('a')).ok).toBe(true);
    expect(session.isAlive()).toBe(true);
  });
});

describe('acquireAll', () => {
  it('takes all, each with its own fence, and releases all', async () => {
    const { twin, one, other } = world();
    const both = await one.acquireAll(['b', 'a'], { leaseMs: 9_000 });
    expect(both.names).toEqual(['b', 'a']);
    expect(both.fence('a')).toBeGreaterThan(0);
    await twin.advance(60_000);
    expect(both.isHeld()).toBe(true);
    expect(await both.release()).toEqual({ released: true, reason: 'ok' });
    expect((await other.tryAcquireAll(['a', 'b'])).ok).toBe(true);
  });

  it('takes none if one is held, and names that one', async () => {
    const { one, other } = world();
    await one.acquire('b');
    const tried = await other.tryAcquireAll(['a', 'b']);
    expect(tried).toMatchObject({ ok: false, blockedBy: ['b'] });
    expect((await one.inspect('a')).state).toBe('free');
  });

  it('waits until all can be granted', async () => {
    const { twin, one, other } = world();
    const held = await one.acquire('b');
    const waiting = other.acquireAll(['a', 'b'], { waitMs: 60_000 });
    await twin.advance(5_000);
    await held.release();
    const both = await twin.until(waiting);
    expect(both.isHeld()).toBe(true);
    expect(await other.withLocks(['c', 'd'], {}, ({ names }) => names)).toEqual(['c', 'd']);
    expect(await other.withLocks(['c', 'd'], ({ names }) => names)).toEqual(['c', 'd']);
  });
});
