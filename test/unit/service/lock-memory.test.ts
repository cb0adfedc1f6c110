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
    for (const one of both) await expect(one).rejects.toThrow('out of reach');
    expect(await memory.sweepOnce(key, async () => unusedLock)).toBe(unusedLock);
  });
});
