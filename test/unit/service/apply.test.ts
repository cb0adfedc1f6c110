import { describe, expect, it } from 'vitest';
import { decide } from '../../../src/lock/decide.ts';
import type { LockState } from '../../../src/lock/state.ts';
import { apply } from '../../../src/service/apply.ts';
import type { LockContext } from '../../../src/service/context.ts';
import { LockMemory } from '../../../src/service/lock-memory.ts';
import type { LockStore, Written } from '../../../src/queue/lock-store.ts';
import { MemoryLockStore } from '../../../src/store/memory/lock-store.ts';
import { StoreError } from '../../../src/table/store-error.ts';
import { VirtualTime } from '../../../src/testing/virtual-time.ts';
import { acquireOf } from '../../support/lock-worlds.ts';
import { alice, bob } from '../lock/story.ts';
import { key } from './world.ts';

type Requests = Partial<Pick<LockStore, 'read' | 'attempt' | 'swap' | 'leave'>>;

/** A service on a store in memory. A test can change how some writes behave. */
function world(writes: (memory: MemoryLockStore) => Requests = () => ({}), seen?: LockState) {
  const time = new VirtualTime();
  const memory = new MemoryLockStore();
  const announced: LockState[] = [];
  const known = new LockMemory(time);
  if (seen !== undefined) known.learn(key, seen);
  known.onNewerState((_key, state) => announced.push(state));
  const store = new Proxy<LockStore>(memory, {
    get: (target, name) => {
      const method = writes(memory)[name as keyof Requests] ?? target[name as keyof LockStore];
      return typeof method === 'function' ? method.bind(target) : method;
    },
  });
  const context = {
    store,
    clock: time,
    timers: time,
    random: () => 0.5,
    graceMs: 250,
    memory: known,
    rememberedMs: 100,
    // Only the parts that `apply` uses: no command here belongs to a session.
  } as unknown as LockContext;
  return { time, memory, announced, context };
}

const release = { kind: 'release', leaseId: alice } as const;

describe('apply', () => {
  it('writes the state that decide makes, and announces it', async () => {
    const { context, memory, announced } = world();
    const { answer } = await apply(context, key, acquireOf(alice));
    expect(answer).toMatchObject({ kind: 'granted', holder: { leaseId: alice } });
    expect(announced).toEqual([await memory.read(key)]);
  });

  it('writes and announces nothing if nothing changes', async () => {
    const { context, memory, announced } = world();
    await apply(context, key, acquireOf(alice));
    const before = await memory.read(key);
    expect((await apply(context, key, acquireOf(bob))).answer).toEqual({ kind: 'held' });
    expect(await memory.read(key)).toBe(before);
    expect(announced).toHaveLength(1);
  });

  it('decides again on the newer state if a write is refused', async () => {
    let stolen = false;
    const { context } = world((memory) => ({
      swap: async (lock, next) => {
        if (stolen) return memory.swap(lock, next);
        stolen = true;
        const thief = { ...next, holders: next.holders.map((holder) => ({ ...holder, leaseId: bob })) };
        await memory.swap(lock, thief);
        return memory.swap(lock, next);
      },
    }));
    expect((await apply(context, key, acquireOf(alice))).answer).toEqual({ kind: 'held' });
  });

  it('only appends or attends a waiter, so many callers do not conflict over the revision', async () => {
    let swaps = 0;
    const { context } = world((memory) => ({
      swap: (lock, next) => {
        swaps += 1;
        return memory.swap(lock, next);
      },
    }));
    await apply(context, key, acquireOf(alice));
    expect(swaps).toBe(1);
    const waiting = acquireOf(bob, { waitMs: 60_000 });
    expect((await apply(context, key, waiting)).answer).toMatchObject({ kind: 'waiting', position: 1 });
    expect((await apply(context, key, waiting)).answer).toMatchObject({ kind: 'waiting', position: 1 });
    expect(swaps).toBe(1);
  });

  it('answers a release like its first try if the answer to that was lost', async () => {
    const { context } = world((memory) => ({
      attempt: async (lock): Promise<Written> => {
        const state = await memory.read(lock);
        return { applied: false, state, perhapsMine: true };
      },
    }));
    await apply(context, key, acquireOf(alice));
    await apply(context, key, release);
    expect((await apply(context, key, release)).answer).toEqual({ kind: 'released', reason: 'ok' });
  });

  it('answers a release like its first try also if the last write before a pause had the lost answer', async () => {
    let swaps = 0;
    const { context, time } = world((memory) => ({
      swap: async (lock, next): Promise<Written> => {
        swaps += 1;
        const isHeard = swaps === 1;
        // Of the tries of one round, only the last one is written, and its answer is lost.
        if (isHeard || swaps === 4) {
          const written = await memory.swap(lock, next);
          if (isHeard) return written;
          return { applied: false, state: { ...next, holders: [], ended: [] }, perhapsMine: true };
        }
        return { applied: false, state: await memory.read(lock), perhapsMine: false };
      },
    }));
    await apply(context, key, acquireOf(alice));
    const released = apply(context, key, release);
    await time.advance(1_000);
    expect((await released).answer).toEqual({ kind: 'released', reason: 'ok' });
  });

  it('answers a place that is given back like its first try if the answer to that was lost', async () => {
    const { context } = world((memory) => ({
      leave: async (...asked): Promise<Written> => {
        const { state } = await memory.leave(...asked);
        return { applied: false, state, perhapsMine: true };
      },
    }));
    await apply(context, key, acquireOf(alice));
    for (const leaseId of [bob, 'lease-carol-000000']) await apply(context, key, acquireOf(leaseId, { waitMs: 1_000 }));
    expect((await apply(context, key, { kind: 'release', leaseId: 'lease-carol-000000' })).answer).toEqual({
      kind: 'released',
      reason: 'cancelled',
    });
  });

  it('announces a hand-off for a release in one write, and for no other command', async () => {
    const { context } = world((memory) => ({
      attempt: async (lock, command, facts): Promise<Written> =>
        memory.swap(lock, decide(await memory.read(lock), command, facts).next),
    }));
    const handedOff: number[] = [];
    context.memory.onHandOff((_, { rev }) => handedOff.push(rev));
    await apply(context, key, acquireOf(alice));
    await apply(context, key, { kind: 'renew', leaseId: alice, leaseMs: 20_000 });
    expect(handedOff).toEqual([]);
    const { state } = await apply(context, key, release);
    expect(handedOff).toEqual([state.rev]);
  });

  it('announces a hand-off if a swap has granted, and for no other write', async () => {
    const { context } = world();
    const handedOff: string[] = [];
    context.memory.onHandOff((_, { holders }) => handedOff.push(...holders.map(({ leaseId }) => leaseId)));
    await apply(context, key, acquireOf(alice));
    await apply(context, key, { kind: 'renew', leaseId: alice, leaseMs: 20_000 });
    await apply(context, key, acquireOf(bob, { waitMs: 1_000 }));
    expect(handedOff).toEqual([alice]);
    await apply(context, key, release);
    expect(handedOff).toEqual([alice, bob]);
  });

  it('does not try a throttled release in another way', async () => {
    const { context, memory } = world(() => ({
      attempt: () => Promise.reject(new StoreError('throttled', 'The store asked for less traffic.')),
    }));
    await expect(apply(context, key, release)).rejects.toMatchObject({ code: 'throttled' });
    expect((await memory.read(key)).rev).toBe(0);
  });

  it('answers already_released if the request was sent once', async () => {
    const { context } = world();
    await apply(context, key, acquireOf(alice));
    await apply(context, key, release);
    expect((await apply(context, key, release)).answer).toEqual({ kind: 'released', reason: 'already_released' });
  });

  it('never answers a lost lease with success, even if the request was sent several times', async () => {
    const { context } = world((memory) => ({
      attempt: async (lock): Promise<Written> => ({
        applied: false,
        state: await memory.read(lock),
        perhapsMine: true,
      }),
    }));
    await apply(context, key, acquireOf(bob));
    expect((await apply(context, key, release)).answer).toEqual({ kind: 'lost', reason: 'not_owner' });
    expect((await apply(context, key, { kind: 'renew', leaseId: alice })).answer).toEqual({
      kind: 'lost',
      reason: 'not_owner',
    });
    expect((await apply(context, key, acquireOf(alice))).answer).toEqual({ kind: 'held' });
  });

  it('gives up after some tries if others keep writing, and does not answer that the lock is held', async () => {
    let swaps = 0;
    const { context, time } = world((memory) => ({
      swap: async (lock): Promise<Written> => {
        swaps += 1;
        return { applied: false, state: await memory.read(lock), perhapsMine: false };
      },
    }));
    const outcome = apply(context, key, acquireOf(alice)).catch((error: unknown) => error);
    await time.advance(10_000);
    expect(await outcome).toMatchObject({
      name: 'StoreError',
      code: 'conflict',
      message: 'Others kept writing to this lock for 30 tries.',
    });
    expect(swaps).toBe(30);
  });

  it('takes a lock that became free unnoticed, although it was known to be held a moment ago', async () => {
    const { context: elsewhere, memory } = world();
    await apply(elsewhere, key, acquireOf(alice));
    const held = await memory.read(key);
    const { context } = world(undefined, held);
    const { answer } = await apply(context, key, acquireOf(bob, { waitMs: 1_000 }));
    expect(answer).toMatchObject({ kind: 'granted' });
  });

  it('does not try to take a lock that was seen held: it joins at once, or reads first if that was a while ago', async () => {
    const sent: string[] = [];
    const { context, time } = world((memory) => ({
      read: (lock) => {
        sent.push('read');
        return memory.read(lock);
      },
      attempt: (lock) => {
        sent.push('attempt');
        return memory.attempt(lock);
      },
    }));
    await apply(context, key, acquireOf(alice));
    sent.length = 0;
    const waiting = await apply(context, key, acquireOf(bob, { waitMs: 1_000 }));
    expect(waiting.answer).toMatchObject({ kind: 'waiting', position: 1 });
    expect(sent).toEqual([]);

    await time.advance(100);
    await apply(context, key, acquireOf('lease-dave-0000000', { waitMs: 1_000 }));
    expect(sent, 'a tenth of a second is not long').toEqual([]);

    for (const leaseId of ['lease-dave-0000000', bob]) await apply(context, key, { kind: 'release', leaseId });
    sent.length = 0;
    await time.advance(101);
    await apply(context, key, acquireOf('lease-carol-000000', { waitMs: 1_000 }));
    expect(sent).toEqual(['read']);
  });

  it('tries to take a lock that was free when it was last seen', async () => {
    let reads = 0;
    const { context, time } = world((memory) => ({
      read: (lock) => {
        reads += 1;
        return memory.read(lock);
      },
    }));
    await apply(context, key, acquireOf(alice));
    await apply(context, key, { kind: 'release', leaseId: alice });
    await time.advance(101);
    expect((await apply(context, key, acquireOf(bob, { waitMs: 1_000 }))).answer).toMatchObject({ kind: 'granted' });
    expect(reads).toBe(0);
  });

  it('takes a lock that became free unnoticed, although others others were known to wait', async () => {
    const { context: elsewhere, memory } = world();
    await apply(elsewhere, key, acquireOf(alice));
    await apply(elsewhere, key, acquireOf(bob, { waitMs: 1_000 }));
    const crowded = await memory.read(key);
    const { context } = world(undefined, crowded);
    const { answer } = await apply(context, key, acquireOf('lease-carol-000000', { waitMs: 1_000 }));
    expect(answer).toMatchObject({ kind: 'granted' });
  });
});
