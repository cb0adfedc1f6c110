import { describe, expect, it } from 'vitest';
import type { Waiter } from '../../../src/lock/state.ts';
import { holdersWeight, weightOf } from '../../../src/lock/state.ts';
import { acquireOf, startOfTime } from '../../support/lock-worlds.ts';
import { alice, bob, LockStory } from './story.ts';

const waiterNamed = (owner: string): Waiter => ({
  leaseId: 'lease-a-0000000000',
  owner,
  permits: 1_024,
  leaseMs: 1_000,
  queuedAt: startOfTime,
  deadlineAt: startOfTime,
  presentUntil: startOfTime,
});

describe('the weight of a waiter', () => {
  it('counts bytes, as the table does, and not characters', () => {
    const ascii = weightOf(waiterNamed('x'.repeat(100)));
    expect(weightOf(waiterNamed('é'.repeat(100))) - ascii).toBe(100);
    expect(weightOf(waiterNamed('🔒'.repeat(50))) - ascii).toBe(100);
  });

  it('stays the same while the waiter waits', () => {
    const waiter = waiterNamed('x');
    expect(weightOf({ ...waiter, presentUntil: (waiter.presentUntil * 100) as typeof startOfTime })).toBe(
      weightOf(waiter),
    );
  });
});

describe('the weight of the holders', () => {
  it('counts the holders of parts, and not the holder of a whole lock, which always fits', () => {
    expect(holdersWeight(new LockStory().after(acquireOf(alice)).state)).toBe(0);
    const one = holdersWeight(new LockStory().after(acquireOf(alice, { limit: 2 })).state);
    const two = holdersWeight(
      new LockStory().after(acquireOf(alice, { limit: 2 }), acquireOf(bob, { limit: 2 })).state,
    );
    expect(one).toBeGreaterThan(2 * alice.length);
    expect(two).toBeGreaterThan(one + 2 * bob.length);
  });
});
