import { describe, expect, it } from 'vitest';
import { lockLimits } from '../../../src/lock/limits.ts';
import type { LockState } from '../../../src/lock/state.ts';
import { LockCache } from '../../../src/queue/lock-cache.ts';
import { depthOf, queueSizes } from '../../../src/queue/pages.ts';
import { paceMs, polledWaits } from '../../../src/service/polled-waits.ts';
import { epochMs } from '../../../src/time/clock.ts';
import { acquireOf } from '../../support/lock-worlds.ts';
import { alice, bob, carol } from '../lock/story.ts';
import { key, SeenLock, watched } from './world.ts';

const { graceMs } = lockLimits;
const waiting = { waitMs: 60_000 };
/** In the middle, so that the jitter is zero. */
const noJitter = () => 0.5;

function heldLock(leaseMs = 30_000): SeenLock {
  const lock = new SeenLock();
  lock.write(acquireOf(alice, { leaseMs }));
  lock.write(acquireOf(bob, waiting));
  return lock;
}

/** A process that other processes don't tell of their writes. */
function processOn(lock: SeenLock) {
  const cache = new LockCache(lock.time);
  const waits = polledWaits({ clock: lock.time, timers: lock.time, cache, random: noJitter, sizes: queueSizes });
  const waitFor = (
    leaseId: string,
    { withinMs = 20_000, gone, page }: { withinMs?: number; gone?: AbortSignal; page?: number } = {},
  ) => {
    const open = waits.begin(lock);
    const wait = open.wait({ leaseId, known: lock.state, until: lock.in(withinMs), gone, page });
    return watched(wait.finally(() => open.end()));
  };
  return { cache, waits, waitFor };
}

const waitFor = (lock: SeenLock, leaseId = bob, more: { withinMs?: number; gone?: AbortSignal } = {}) =>
  processOn(lock).waitFor(leaseId, more);

describe('paceMs', () => {
  const lock = heldLock();
  const paceAfter = (heldMs: number, position: number, state: LockState = lock.state) =>
    paceMs(state, position, { now: epochMs(lock.time.now() + heldMs), graceMs }, queueSizes);

  it('is an eighth of the time since the last grant for the next waiter, within limits', () => {
    expect(paceAfter(0, 1)).toBe(15);
    expect(paceAfter(120, 1)).toBe(15);
    expect(paceAfter(240, 1)).toBe(30);
    expect(paceAfter(60_000, 1)).toBe(50);
  });

  it('is longer further back, in proportion to the position, up to two seconds', () => {
    expect(paceAfter(0, 4)).toBe(30);
    expect(paceAfter(800, 4)).toBe(200);
    expect(paceAfter(60_000, 4)).toBe(400);
    expect(paceAfter(60_000, 500)).toBe(2_000);
  });

  it('counts from the latest grant if there are several holders', () => {
    const [holder] = lock.state.holders;
    const readers = [holder, { ...holder, acquiredAt: lock.in(200) }] as LockState['holders'];
    expect(paceAfter(360, 1, { ...lock.state, holders: readers })).toBe(20);
  });

  it('does not fail if the clock of another process is ahead', () => {
    expect(paceAfter(-100, 1)).toBe(15);
  });

  it.each([2, 10, 50, 200, 1_000, 10_000])(
    'lets %i waiters in as many processes look at most 800 times a second',
    (length) => {
      const crowded = {
        ...lock.state,
        queue: [],
        behind: { first: 1, last: Math.ceil(length / queueSizes.page) },
      };
      expect(depthOf(crowded, { now: lock.time.now(), graceMs })).toBeGreaterThanOrEqual(length);
      for (const heldMs of [0, 100, 1_000, 60_000]) {
        let perSecond = 0;
        for (let position = 1; position <= length; position++)
          perSecond += 1_000 / paceAfter(heldMs, position, crowded);
        expect(perSecond).toBeLessThanOrEqual(800);
      }
    },
  );
});

describe('hand-offs between processes', () => {
  const leaseOf = (index: number) => `lease-${String(index).padStart(12, '0')}`;
  const holdMs = 20;

  it.each([2, 10, 40])('are noticed within 20 ms (median) after a quiet time, with %i waiting', async (count) => {
    const lock = new SeenLock();
    const { time } = lock;
    lock.write(acquireOf(alice, waiting));
    const lateMs: number[] = [];
    let releasedAt = 0;
    const join = (index: number) => {
      lock.write(acquireOf(leaseOf(index), waiting));
      const noticed = processOn(lock).waitFor(leaseOf(index), { withinMs: 60_000 }).promise;
      void noticed.then(() => {
        lateMs.push(time.now() - releasedAt);
        time.after(holdMs, () => {
          releasedAt = time.now();
          lock.write({ kind: 'release', leaseId: leaseOf(index) });
          join(index + count);
        });
      });
    };
    for (let index = 0; index < count; index++) join(index);
    // A rate of grants that counts this time makes holds seem long.
    await time.advance(10_000);
    lock.looks = 0;
    releasedAt = time.now();
    lock.write({ kind: 'release', leaseId: alice });
    await time.advance(5_000);
    lateMs.sort((one, other) => one - other);
    expect(lateMs.length).toBeGreaterThan(100);
    expect(lateMs[Math.floor(lateMs.length / 2)]).toBeLessThanOrEqual(20);
    expect(lock.looks / 5).toBeLessThanOrEqual(500);
  });
});

describe('waiters in one process', () => {
  it('share their looks', async () => {
    const lock = heldLock();
    lock.write(acquireOf(carol, waiting));
    const { waitFor: begin } = processOn(lock);
    const waits = [begin(bob), begin(carol)];
    await lock.time.advance(10_000);
    expect(waits.map(({ done }) => done)).toEqual([false, false]);
    expect(lock.looks).toBeLessThanOrEqual(230);
  });

  it('hear of a release in their process without a look', async () => {
    const lock = heldLock();
    const { waitFor: begin, cache } = processOn(lock);
    const wait = begin(bob);
    await lock.time.advance(1_000);
    const { looks } = lock;
    cache.learn(key, lock.write({ kind: 'release', leaseId: alice }));
    await lock.time.settle();
    expect((await wait.promise).holders).toMatchObject([{ leaseId: bob }]);
    expect(lock.looks).toBe(looks);
  });

  it('do not put off the look for the first of them when others join', async () => {
    const lock = heldLock();
    const { waitFor: begin } = processOn(lock);
    lock.state = { ...lock.state, behind: { first: 1, last: 20 } };
    begin(bob);
    for (let joined = 0; joined < 100; joined++) {
      begin(`lease-${joined}-000000000`, { page: 1 });
      await lock.time.advance(10);
    }
    expect(lock.looks).toBeGreaterThanOrEqual(20);
  });

  it('are looked for sooner when one further ahead joins, and still by one timer', async () => {
    const lock = heldLock();
    for (const leaseId of ['lease-dave-0000000', carol]) lock.write(acquireOf(leaseId, waiting));
    await lock.time.advance(10_000);
    const { waitFor: begin } = processOn(lock);
    begin(carol);
    await lock.time.advance(10);
    begin(bob);
    await lock.time.advance(50);
    expect(lock.looks, 'the pace of the first waiter is 50 ms').toBe(1);
    await lock.time.advance(950);
    expect(lock.looks).toBe(20);
  });

  it('are looked for less often when the first of them has left', async () => {
    const lock = heldLock();
    lock.write(acquireOf(carol, waiting));
    const { waitFor: begin } = processOn(lock);
    begin(bob, { withinMs: 2_000 });
    begin(carol);
    await lock.time.advance(2_100);
    lock.looks = 0;
    lock.peeks = 0;
    await lock.time.advance(1_000);
    expect(lock.looks).toBe(5);
    expect(lock.peeks).toBe(5);
  });

  it('do not all fail if a look fails', async () => {
    const lock = heldLock();
    lock.write(acquireOf(carol, waiting));
    const { waitFor: begin } = processOn(lock);
    const [first, second] = [begin(bob), begin(carol)];
    lock.failure = new Error('out of reach');
    await lock.time.advance(16);
    await expect(first?.promise).rejects.toThrow('out of reach');
    expect(second?.done).toBe(false);
    lock.failure = undefined;
    lock.write({ kind: 'release', leaseId: bob });
    lock.write({ kind: 'release', leaseId: alice });
    await lock.time.advance(50);
    expect((await second?.promise)?.holders).toMatchObject([{ leaseId: carol }]);
  });

  it('wake when the item of the lock was deleted', async () => {
    const lock = heldLock();
    const wait = waitFor(lock);
    lock.state = { ...lock.state, rev: 0, fence: 0, holders: [], queue: [] };
    await lock.time.advance(50);
    expect(wait.done).toBe(true);
  });
});

describe('a polled wait', () => {
  it('ends soon after the waiter was granted', async () => {
    const lock = heldLock();
    const wait = waitFor(lock);
    await lock.time.advance(500);
    expect(wait.done).toBe(false);
    lock.write({ kind: 'release', leaseId: alice });
    await lock.time.advance(50);
    expect((await wait.promise).holders).toMatchObject([{ leaseId: bob }]);
  });

  it('sweeps exactly when the lease of the holder may be taken over, and only once', async () => {
    const lock = heldLock(1_000);
    const wait = waitFor(lock);
    await lock.time.advance(1_000 + graceMs - 1);
    expect(lock.sweeps).toBe(0);
    await lock.time.advance(1);
    expect((await wait.promise).holders).toMatchObject([{ leaseId: bob }]);
    expect(lock.sweeps).toBe(1);
  });

  it('leaves the sweep to the first waiter', async () => {
    const lock = heldLock(1_000);
    lock.write(acquireOf(carol, waiting));
    const wait = waitFor(lock, carol);
    await lock.time.advance(3_000);
    expect(lock.sweeps).toBe(0);
    expect(wait.done).toBe(false);
  });

  it('sweeps itself if all waiters ahead are gone', async () => {
    const lock = heldLock(1_000);
    lock.write(acquireOf(carol, waiting));
    lock.write({ kind: 'step-away', leaseId: bob });
    const wait = waitFor(lock, carol);
    await lock.time.advance(lockLimits.waiterAbsenceMs + 500);
    expect((await wait.promise).holders).toMatchObject([{ leaseId: carol }]);
    expect(lock.sweeps).toBe(1);
  });

  it('looks for half of the price unless its waiter is the next', async () => {
    const lock = heldLock();
    lock.write(acquireOf(carol, waiting));
    waitFor(lock, bob);
    await lock.time.advance(1_000);
    expect(lock.looks).toBeGreaterThan(10);
    expect(lock.peeks).toBe(0);
    waitFor(lock, carol);
    lock.looks = 0;
    await lock.time.advance(1_000);
    expect(lock.peeks).toBeGreaterThan(2);
    expect(lock.looks).toBeGreaterThan(lock.peeks);
  });

  it('pays for no full look while nothing has changed for its waiter', async () => {
    const lock = heldLock();
    lock.write(acquireOf(carol, waiting));
    const wait = waitFor(lock, carol);
    lock.read = () => Promise.reject(new Error('too expensive'));
    await lock.time.advance(1_000);
    expect(lock.peeks).toBeGreaterThan(2);
    expect(wait.done).toBe(false);
  });

  it('does not end by a look for half of the price alone', async () => {
    const lock = heldLock();
    lock.write(acquireOf(carol, waiting));
    const wait = waitFor(lock, carol);
    lock.write({ kind: 'release', leaseId: alice });
    lock.write({ kind: 'release', leaseId: bob });
    lock.earlier = lock.state;
    lock.write({ kind: 'revoke', fence: lock.state.fence, reason: 'by hand' });
    await lock.time.advance(1_000);
    expect(await wait.promise).toEqual(lock.state);
  });

  it('ends at its time with the known state, and looks no more', async () => {
    const lock = heldLock();
    const wait = waitFor(lock, bob, { withinMs: 2_020 });
    await lock.time.advance(2_019);
    expect(wait.done).toBe(false);
    await lock.time.advance(1);
    expect((await wait.promise).queue).toMatchObject([{ leaseId: bob }]);
    const { looks } = lock;
    await lock.time.advance(5_000);
    expect(lock.looks).toBe(looks);
    expect(lock.time.nextAt).toBeUndefined();
  });

  it('ends if its caller is gone', async () => {
    const lock = heldLock();
    const gone = new AbortController();
    const wait = waitFor(lock, bob, { gone: gone.signal });
    await lock.time.advance(100);
    gone.abort();
    await lock.time.advance(50);
    expect(wait.done).toBe(true);
  });

  it('looks about twenty times a second as the first waiter of a long hold', async () => {
    const lock = heldLock();
    waitFor(lock);
    await lock.time.advance(10_000);
    // A few more in the first half second, when the lock was just granted.
    expect(lock.looks).toBeGreaterThanOrEqual(200);
    expect(lock.looks).toBeLessThanOrEqual(220);
  });

  it('fails if the store does, so the waiter can ask again', async () => {
    const lock = heldLock();
    const wait = waitFor(lock);
    lock.failure = new Error('out of reach');
    await lock.time.advance(60);
    await expect(wait.promise).rejects.toThrow('out of reach');
  });

  it('looks soon again if the sessions could not be read', async () => {
    const lock = heldLock();
    lock.facts = () => Promise.reject(new Error('out of reach'));
    waitFor(lock);
    await lock.time.advance(49);
    expect(lock.looks).toBe(0);
    await lock.time.advance(1);
    expect(lock.looks).toBe(1);
  });

  it('in a page looks at the pace of the first place of its page', async () => {
    const lock = heldLock();
    lock.state = { ...lock.state, behind: { first: 7, last: 8 } };
    const { waitFor: begin } = processOn(lock);
    begin(carol, { page: 8 });
    const facts = { now: lock.time.now(), graceMs };
    const position = lock.state.queue.length + queueSizes.page + 1;
    const afterMs = Math.ceil(paceMs(lock.state, position, facts, queueSizes));
    await lock.time.advance(afterMs - 1);
    expect(lock.looks).toBe(0);
    await lock.time.advance(1);
    expect(lock.looks).toBe(1);
  });

  it('in a page sweeps only if nobody is present in the front', async () => {
    const front = heldLock(1_000);
    front.state = { ...front.state, behind: { first: 7, last: 7 } };
    processOn(front).waitFor(carol, { page: 7 });
    await front.time.advance(2_000);
    expect(front.sweeps).toBe(0);

    const empty = new SeenLock();
    empty.write(acquireOf(alice, { leaseMs: 1_000 }));
    empty.state = { ...empty.state, behind: { first: 7, last: 7 } };
    processOn(empty).waitFor(carol, { page: 7 });
    await empty.time.advance(1_000 + graceMs);
    expect(empty.sweeps).toBe(1);
  });

  it.each([
    [0, 45],
    [0.75, 53],
  ])('looks earlier or later at random, by a tenth at most: %d', async (drawn, afterMs) => {
    const lock = heldLock();
    await lock.time.advance(400);
    const cache = new LockCache(lock.time);
    const waits = polledWaits({ clock: lock.time, timers: lock.time, cache, random: () => drawn, sizes: queueSizes });
    void waits.begin(lock).wait({ leaseId: bob, known: lock.state, until: lock.in(20_000) });
    await lock.time.advance(afterMs - 1);
    expect(lock.looks).toBe(0);
    await lock.time.advance(1);
    expect(lock.looks).toBe(1);
  });
});
