import { describe, expect, it } from 'vitest';
import { lockLimits } from '../../../src/lock/limits.ts';
import { depthOf } from '../../../src/lock/view.ts';
import { PolledWaits, paceMs } from '../../../src/service/polled-waits.ts';
import { epochMs } from '../../../src/time/clock.ts';
import { acquireOf } from '../../support/lock-worlds.ts';
import { alice, bob, carol } from '../lock/story.ts';
import { SeenLock, watched } from './world.ts';

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

function waitFor(
  lock: SeenLock,
  leaseId = bob,
  { withinMs = 20_000, gone }: { withinMs?: number; gone?: AbortSignal } = {},
) {
  const open = new PolledWaits({ timers: lock.time, random: noJitter }).begin(lock);
  return watched(open.wait({ leaseId, known: lock.state, until: lock.in(withinMs), gone }));
}

describe('paceMs', () => {
  const lock = heldLock();
  const facts = { now: lock.time.now(), graceMs };
  const first = { fence: lock.state.fence, at: facts.now };

  it('is short for the next waiter', () => {
    expect(paceMs(lock.state, 1, first, facts)).toBe(50);
  });

  it('is longer further back, up to two seconds', () => {
    expect(paceMs(lock.state, 5, first, facts)).toBe(200);
    expect(paceMs(lock.state, 500, first, facts)).toBe(2_000);
  });

  it('is slower still where thousands wait, so that all of them together do not overload the key', () => {
    const crowded = { ...lock.state, pages: { first: 1, last: 400 } };
    const waiters = depthOf(crowded, facts);
    expect(waiters).toBeGreaterThan(2_000);
    expect((waiters * 1_000) / paceMs(crowded, 2_000, first, facts)).toBeLessThanOrEqual(300);
  });

  it('follows the rate of grants: two looks for each waiter ahead', () => {
    const drained = { ...lock.state, fence: lock.state.fence + 10 };
    const later = { ...facts, now: epochMs(facts.now + 1_500) };
    expect(paceMs(drained, 3, first, later)).toBe(150);
  });

  it('has a limit for each waiter ahead, so a slow phase ends', () => {
    const drained = { ...lock.state, fence: lock.state.fence + 10 };
    const later = { ...facts, now: epochMs(facts.now + 60_000) };
    expect(paceMs(drained, 3, first, later)).toBe(200);
    expect(paceMs(drained, 10, first, later)).toBe(900);
  });

  it('is exact if the lease of the holder ends first, and only for the next waiter', () => {
    const end = lock.state.holders[0]?.expiresAt ?? 0;
    const near = { ...facts, now: epochMs(end + graceMs - 20) };
    expect(paceMs(lock.state, 1, first, near)).toBe(20);
    expect(paceMs(lock.state, 2, first, near)).toBeGreaterThanOrEqual(50);
  });

  it('is never zero, even if a takeover is long overdue', () => {
    const late = { ...facts, now: epochMs(facts.now + 86_400_000) };
    expect(paceMs(lock.state, 1, first, late)).toBe(1);
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

  it('looks at most twenty times a second as the first waiter', async () => {
    const lock = heldLock();
    waitFor(lock);
    await lock.time.advance(10_000);
    expect(lock.looks).toBeGreaterThanOrEqual(190);
    expect(lock.looks).toBeLessThanOrEqual(200);
  });

  it('fails if the store does, so the waiter can ask again', async () => {
    const lock = heldLock();
    const wait = waitFor(lock);
    lock.failure = new Error('out of reach');
    await lock.time.advance(60);
    await expect(wait.promise).rejects.toThrow('out of reach');
  });
});
