import { describe, expect, it } from 'vitest';
import { unusedLock } from '../../../src/lock/state.ts';
import { LockMemory } from '../../../src/service/lock-memory.ts';
import { VirtualTime } from '../../../src/testing/virtual-time.ts';
import { key, watched } from './world.ts';

describe('what a process remembers of a lock', () => {
  it('is used for an hour at most: later, the lock and its pages may have been collected', async () => {
    const time = new VirtualTime();
    const memory = new LockMemory(time);
    memory.learn(key, { ...unusedLock, rev: 1 });
    await time.advance(3_600_000);
    expect(memory.seen(key)?.state.rev).toBe(1);
    await time.advance(1);
    expect(memory.seen(key)).toBeUndefined();
  });
});

describe('what a process remembers of a lock and its waiters', () => {
  const other = { ...key, name: 'other' };
  const lease = 'lease-000000000000';
  const paged = (first: number, last: number, rev = 1) => ({ ...unusedLock, rev, pages: { first, last } });

  it('is dropped when its item was deleted, and the next state counts whatever its revision is', () => {
    const memory = new LockMemory(new VirtualTime());
    const revs: number[] = [];
    memory.onNewerState((_, { rev }) => revs.push(rev));
    memory.learn(key, { ...unusedLock, rev: 5 });
    memory.learn(key, unusedLock);
    expect(memory.seen(key)).toBeUndefined();
    memory.learn(key, { ...unusedLock, rev: 1 });
    expect(memory.seen(key)?.state.rev).toBe(1);
    expect(revs).toEqual([5, 1]);
  });

  it('is as old as the last time that the same state was seen', async () => {
    const time = new VirtualTime();
    const memory = new LockMemory(time);
    memory.learn(key, { ...unusedLock, rev: 1 });
    await time.advance(10);
    memory.learn(key, { ...unusedLock, rev: 1 });
    expect(memory.seen(key)?.at).toBe(time.now());
  });

  it('knows whether a revision is newer, for a known lock only', () => {
    const memory = new LockMemory(new VirtualTime());
    memory.learn(key, { ...unusedLock, rev: 2 });
    expect([1, 2, 3].map((rev) => memory.isNewer(key, rev))).toEqual([false, false, true]);
    expect(memory.isNewer(other, 3)).toBe(false);
  });

  it('tells the page of a waiter until the page has moved up or the waiter has left', () => {
    const memory = new LockMemory(new VirtualTime());
    memory.learnPlace(key, lease, 7);
    expect(memory.placeOf(key, lease), 'nothing is known of the lock').toBe(7);
    expect(memory.placeOf(other, lease)).toBeUndefined();
    memory.learn(key, paged(7, 8));
    expect(memory.placeOf(key, lease)).toBe(7);
    memory.learn(key, paged(8, 8, 2));
    expect(memory.placeOf(key, lease)).toBeUndefined();
    memory.learnPlace(key, lease, 8);
    memory.forgetPlace(key, lease);
    expect(memory.placeOf(key, lease)).toBeUndefined();
  });

  it('tells the highest page that was full, and all pages before it are full too', () => {
    const memory = new LockMemory(new VirtualTime());
    memory.learnFull(key, 7);
    memory.learnFull(key, 6);
    expect([6, 7, 8].map((page) => memory.isFull(key, page))).toEqual([true, true, false]);
    expect(memory.isFull(other, 7)).toBe(false);
  });

  it('counts losses in a row', () => {
    const memory = new LockMemory(new VirtualTime());
    expect([memory.noteLoss(key), memory.noteLoss(key), memory.noteLoss(other)]).toEqual([1, 2, 1]);
    memory.forgetLosses(key);
    expect(memory.noteLoss(key)).toBe(1);
  });
});

describe('those who listen', () => {
  it('hear of newer states until they stop, and of hand-offs only if this process made them', () => {
    const memory = new LockMemory(new VirtualTime());
    const heard: string[] = [];
    const stop = memory.onNewerState((_, { rev }) => heard.push(`state ${rev}`));
    memory.onHandOff((_, { rev }) => heard.push(`hand-off ${rev}`));
    memory.learn(key, { ...unusedLock, rev: 1 });
    memory.learn(key, { ...unusedLock, rev: 2 }, true);
    stop();
    memory.learn(key, { ...unusedLock, rev: 3 });
    expect(heard).toEqual(['state 1', 'state 2', 'hand-off 2']);
  });
});

describe('a state that comes late', () => {
  it('changes nothing: neither what is known, nor for those who listen', () => {
    const memory = new LockMemory(new VirtualTime());
    const revs: number[] = [];
    memory.onNewerState((_, { rev }) => revs.push(rev));
    const state = (fence: number, rev: number) => ({ ...unusedLock, fence, rev });
    // After an idle item was collected, revisions begin again and fences go on.
    for (const late of [state(7, 3), state(7, 2), state(7, 3), state(8, 1), state(7, 4)]) memory.learn(key, late);
    expect(revs).toEqual([3, 1]);
    expect(memory.seen(key)?.state).toMatchObject({ fence: 8, rev: 1 });
  });
});

describe('work in turn', () => {
  it('is done one after the other, and is told if it waited too long, also for work before the one before it', async () => {
    const time = new VirtualTime();
    const memory = new LockMemory(time);
    let end = () => {};
    const slow = memory.inTurn(key, 'join', time, () => new Promise<void>((resolve) => (end = resolve)));
    const isInTurn = async (inTurn: boolean) => inTurn;
    const second = watched(memory.inTurn(key, 'join', time, isInTurn));
    await time.advance(1_999);
    expect(second.done).toBe(false);
    await time.advance(1);
    expect(await second.promise).toBe(false);
    // The first one still works, so the next one is not in turn either.
    const third = watched(memory.inTurn(key, 'join', time, isInTurn));
    await time.advance(1_000);
    expect(third.done).toBe(false);
    end();
    await slow;
    await time.advance(0);
    expect(await third.promise).toBe(true);
  });
});

describe('a release', () => {
  it('does not wait for waiters that join, nor for releases of another lock', async () => {
    const time = new VirtualTime();
    const memory = new LockMemory(time);
    const never = () => new Promise<void>(() => {});
    void memory.inTurn(key, 'join', time, never);
    void memory.inTurn({ ...key, name: 'other' }, 'release', time, never);
    const released = watched(memory.inTurn(key, 'release', time, async () => 'released'));
    await time.settle();
    expect(released.done).toBe(true);
  });

  it('goes on after one before it that failed', async () => {
    const time = new VirtualTime();
    const memory = new LockMemory(time);
    const failed = memory.inTurn(key, 'release', time, () => Promise.reject(new Error('out of reach')));
    const next = memory.inTurn(key, 'release', time, async (isInTurn) => isInTurn);
    await expect(failed).rejects.toThrow('out of reach');
    expect(await next).toBe(true);
  });
});

describe('a sweep', () => {
  it('is shared by all who ask while it is under way, and each gets the newest state', async () => {
    const memory = new LockMemory(new VirtualTime());
    const [swept, written] = [
      { ...unusedLock, rev: 1 },
      { ...unusedLock, rev: 2 },
    ];
    let sweeps = 0;
    let end = () => {};
    const sweep = () => {
      sweeps += 1;
      return new Promise<typeof swept>((resolve) => {
        end = () => resolve(swept);
      });
    };
    const [first, second] = [memory.sweepOnce(key, sweep), memory.sweepOnce(key, sweep)];
    memory.learn(key, written);
    end();
    expect(await first).toBe(swept);
    expect(await second, 'its caller may have written after the sweep had read the lock').toBe(written);
    expect(sweeps).toBe(1);
    void memory.sweepOnce(key, sweep);
    expect(sweeps, 'the next one sweeps again').toBe(2);
  });

  it('that fails fails for all who wait for it, and the next one is tried', async () => {
    const memory = new LockMemory(new VirtualTime());
    const failing = () => Promise.reject(new Error('out of reach'));
    const both = [memory.sweepOnce(key, failing), memory.sweepOnce(key, failing)];
    await Promise.all(both.map((one) => expect(one).rejects.toThrow('out of reach')));
    expect(await memory.sweepOnce(key, async () => unusedLock)).toBe(unusedLock);
  });
});
