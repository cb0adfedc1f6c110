import { describe, expect, it } from 'vitest';
import { DeadlockError } from '../../../src/client/index.ts';
import { Twin } from '../../../src/testing/index.ts';

describe('an option that does not exist', () => {
  const locks = new Twin().client();

  it.each([
    [{ leaseMS: 5_000 }, 'The option leaseMS is unknown: it is called leaseMs.'],
    [{ timeout: 5_000 }, /^The option timeout is not one of leaseMs, owner, .*onWaiting\.$/],
  ])('is refused, because plain JavaScript has no compiler: %j', async (options, message) => {
    await expect(locks.acquire('a', options as object)).rejects.toThrow(message);
    await expect(locks.withLock('a', options as object, () => 1)).rejects.toThrow(message);
    await expect(locks.acquireAll(['a'], options as object)).rejects.toThrow(message);
    expect((await locks.inspect('a')).fence).toBe(0);
  });
});

describe('withLock inside withLock', () => {
  const twin = new Twin();
  const locks = twin.client();

  it('of the same lock fails at once instead of waiting for itself', async () => {
    const before = twin.now();
    const nested = locks.withLock('a', async () => {
      await Promise.resolve();
      return locks.withLock('b', () => locks.withLock('a', () => 'never'));
    });
    await expect(nested).rejects.toThrow(/^This code runs inside withLock\('a'\) already/);
    await expect(nested).rejects.toBeInstanceOf(DeadlockError);
    expect(twin.now()).toBe(before);
    expect((await locks.inspect('a')).state).toBe('free');
  });

  it('is fine for another lock, for a semaphore, for readers, after a release, and in another namespace', async () => {
    expect(await locks.withLock('c', () => locks.withLock('d', () => 1))).toBe(1);
    const half = { limit: 2 };
    expect(await locks.withLock('s', half, () => locks.withLock('s', half, () => 2))).toBe(2);
    const reader = { mode: 'shared' } as const;
    expect(await locks.withLock('r', reader, () => locks.withLock('r', reader, () => 3))).toBe(3);
    const again = locks.withLock('e', async (lock) => {
      await lock.release();
      return locks.withLock('e', () => 4);
    });
    expect(await again).toBe(4);
    expect(await locks.withLock('f', () => twin.client({ namespace: 'other' }).withLock('f', () => 5))).toBe(5);
  });

  it('is no matter of two callers at the same time', async () => {
    const both = Promise.all([locks.withLock('g', () => 1), locks.withLock('g', () => 2)]);
    expect(await twin.until(both)).toEqual([1, 2]);
  });
});
