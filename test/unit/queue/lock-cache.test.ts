import { describe, expect, it } from 'vitest';
import { unusedLock } from '../../../src/lock/state.ts';
import { LockCache, newerOf } from '../../../src/queue/lock-cache.ts';
import { VirtualTime } from '../../../src/testing/virtual-time.ts';
import { key } from './long-queue.ts';

const state = (rev: number, fence = 0) => ({ ...unusedLock, rev, fence });

describe('what a process has seen of a lock', () => {
  it('is used for an hour at most: later, the lock and its pages may have been collected', async () => {
    const time = new VirtualTime();
    const cache = new LockCache(time);
    cache.learn(key, state(1));
    await time.advance(3_600_000);
    expect(cache.seen(key)?.state.rev).toBe(1);
    await time.advance(1);
    expect(cache.seen(key)).toBeUndefined();
  });

  it('is dropped when its item was deleted, and the next state counts whatever its revision is', () => {
    const cache = new LockCache(new VirtualTime());
    const revs: number[] = [];
    cache.onNewerState((_, { rev }) => revs.push(rev));
    cache.learn(key, state(5));
    cache.learn(key, unusedLock);
    expect(cache.seen(key)).toBeUndefined();
    cache.learn(key, state(1));
    expect(cache.seen(key)?.state.rev).toBe(1);
    expect(revs).toEqual([5, 1]);
  });

  it('is as old as the last time that the same state was seen', async () => {
    const time = new VirtualTime();
    const cache = new LockCache(time);
    cache.learn(key, state(1));
    await time.advance(10);
    cache.learn(key, state(1));
    expect(cache.seen(key)?.at).toBe(time.now());
  });

  it('tells whether a revision is newer, for a known lock only', () => {
    const cache = new LockCache(new VirtualTime());
    cache.learn(key, state(2));
    expect([1, 2, 3].map((rev) => cache.isNewer(key, rev))).toEqual([false, false, true]);
    expect(cache.isNewer({ ...key, name: 'other' }, 3)).toBe(false);
  });

  it('is not changed by a state that comes late, and nobody hears of that', () => {
    const cache = new LockCache(new VirtualTime());
    const revs: number[] = [];
    const stop = cache.onNewerState((_, { rev }) => revs.push(rev));
    // After an idle item was collected, revisions begin again and fences go on.
    for (const late of [state(3, 7), state(2, 7), state(3, 7), state(1, 8), state(4, 7)]) cache.learn(key, late);
    expect(revs).toEqual([3, 1]);
    expect(cache.seen(key)?.state).toMatchObject({ fence: 8, rev: 1 });
    stop();
    cache.learn(key, state(2, 8));
    expect(revs).toEqual([3, 1]);
  });
});

describe('newerOf', () => {
  it('is the known state only if it is newer', () => {
    const [older, newer] = [state(1, 7), state(2, 7)];
    expect([newerOf(older, newer), newerOf(newer, older), newerOf(older, undefined)]).toEqual([newer, newer, older]);
  });
});
