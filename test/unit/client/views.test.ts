import { describe, expect, it } from 'vitest';
import type { WatchEvent } from '../../../src/client/index.ts';
import { Twin } from '../../../src/testing/index.ts';

const world = () => {
  const twin = new Twin();
  return { twin, one: twin.client({ owner: 'one' }), other: twin.client({ owner: 'other' }) };
};

const collect = async <T>(items: AsyncIterable<T>): Promise<T[]> => {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
};

describe('list', () => {
  it('returns every lock over all pages', async () => {
    const { one } = world();
    for (let index = 0; index < 7; index++) await one.acquire(`job:${index}`);
    await one.acquire('other');
    const names = (await collect(one.list({ prefix: 'job:', pageSize: 3 }))).map(({ lock }) => lock);
    expect(names).toEqual(['job:0', 'job:1', 'job:2', 'job:3', 'job:4', 'job:5', 'job:6']);
  });
});

describe('history', () => {
  it('returns the events, newest first, over all pages', async () => {
    const { one } = world();
    for (let index = 0; index < 3; index++) await one.withLock('a', () => undefined);
    const types = (await collect(one.history('a', { pageSize: 2 }))).map(({ type }) => type);
    expect(types).toEqual(['released', 'granted', 'released', 'granted', 'released', 'granted']);
  });
});

describe('check and revoke', () => {
  it('says whether a fence holds, and ends it', async () => {
    const { one, other } = world();
    const lock = await one.acquire('a');
    expect(await other.check('a', lock.fence)).toMatchObject({ valid: true, state: 'held' });
    await other.revoke('a', { fence: lock.fence, reason: 'stuck' });
    expect(await other.check('a', lock.fence)).toMatchObject({ valid: false, state: 'free' });
    await expect(other.revoke('a', { fence: 1, reason: 'stuck' })).rejects.toMatchObject({ code: 'lease-lost' });
    expect(await lock.release()).toEqual({ released: false, reason: 'revoked' });
  });
});

describe('watch', () => {
  it('yields the events of the watched locks until its signal fires', async () => {
    const { twin, one, other } = world();
    const enough = new AbortController();
    const seen: WatchEvent[] = [];
    const watching = (async () => {
      for await (const event of other.watch({ prefix: 'wallet:', signal: enough.signal })) seen.push(event);
    })();
    await twin.settle();
    await one.withLock('wallet:42', () => undefined);
    await one.withLock('elsewhere', () => undefined);
    await twin.settle();
    enough.abort();
    await watching;
    expect(seen.map((event) => ('lock' in event ? `${event.lock} ${event.type}` : event.type))).toEqual([
      'connected',
      'wallet:42 granted',
      'wallet:42 released',
    ]);
  });

  it('ends with the client', async () => {
    const { twin, other } = world();
    const watching = collect(other.watch({ lock: 'a' }));
    await twin.settle();
    await twin.until(other.close());
    expect(await watching).toHaveLength(1);
  });
});

describe('expire', () => {
  it('grants to the next waiter as if the lease had expired', async () => {
    const { twin, one, other } = world();
    const lock = await one.acquire('a');
    const waiting = other.acquire('a', { waitMs: 10_000 });
    await twin.settle();
    await twin.expire('a');
    expect((await waiting).fence).toBeGreaterThan(lock.fence);
    await twin.advance(15_000);
    expect(lock.signal.reason).toMatchObject({ reason: 'expired' });
  });
});
