import { describe, expect, it } from 'vitest';
import { acquire } from '../../../src/service/acquire.ts';
import type { LockContext } from '../../../src/service/context.ts';
import { LockMemory } from '../../../src/service/lock-memory.ts';
import { MemoryLockStore } from '../../../src/store/memory/lock-store.ts';
import { StoreError } from '../../../src/table/store-error.ts';
import { VirtualTime } from '../../../src/testing/virtual-time.ts';
import { alice, bob } from '../lock/story.ts';
import { key } from './world.ts';

/** A lock whose key takes no more writes once `isFull` is set. It still answers reads. */
class BusyKey extends MemoryLockStore {
  isFull = false;

  override async attempt(...args: Parameters<MemoryLockStore['attempt']>) {
    this.#refuseIfFull();
    return super.attempt(...args);
  }

  override async swap(...args: Parameters<MemoryLockStore['swap']>) {
    this.#refuseIfFull();
    return super.swap(...args);
  }

  #refuseIfFull(): void {
    if (this.isFull) throw new StoreError('throttled', 'The store throttled the request.');
  }
}

async function heldBy(leaseId: string, leaseMs: number) {
  const time = new VirtualTime();
  const store = new BusyKey();
  // Only the parts that an acquire without a session uses.
  const parts = { store, clock: time, timers: time, random: () => 0.5, graceMs: 250, memory: new LockMemory(time) };
  const context = parts as unknown as LockContext;
  const ask = async (request: { leaseId: string }) =>
    (await acquire(context, key, { owner: 'test', leaseMs, waitMs: 0, ...request })).answer;
  await ask({ leaseId });
  store.isFull = true;
  return { ask, time };
}

const throttled = { code: 'throttled' };

describe('an acquire whose write is throttled', () => {
  it('is told by a read that the lock is held', async () => {
    const { ask } = await heldBy(alice, 30_000);
    expect(await ask({ leaseId: bob })).toEqual({ kind: 'held' });
  });

  it('is told by a read that it holds the lock already', async () => {
    const { ask } = await heldBy(alice, 30_000);
    expect(await ask({ leaseId: alice })).toMatchObject({ kind: 'granted' });
  });

  it('is never granted without a write', async () => {
    const { ask, time } = await heldBy(alice, 1_000);
    await time.advance(1_250);
    await expect(ask({ leaseId: bob })).rejects.toMatchObject(throttled);
  });
});
