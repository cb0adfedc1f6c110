import { describe, expect, it } from 'vitest';
import { brokenInvariant } from '../../../src/lock/invariants.ts';
import type { Holder, LockState, Waiter } from '../../../src/lock/state.ts';
import { acquireOf } from '../../support/lock-worlds.ts';
import { alice, bob, carol, LockStory } from './story.ts';

const { state } = new LockStory().after(
  acquireOf(alice, { limit: 3, permits: 2 }),
  acquireOf(bob, { limit: 3 }),
  acquireOf(carol, { limit: 3, waitMs: 1_000 }),
);
const [first, second] = state.holders as [Holder, Holder];
const [waiter] = state.queue as [Waiter];

const broken: [string, LockState][] = [
  ['more permits are held than there are', { ...state, limit: 2 }],
  ['a claim is for nothing', { ...state, queue: [{ ...waiter, permits: 0 }] }],
  ['two holders have one fence', { ...state, holders: [first, { ...second, fence: first.fence }] }],
  ['a holder is above the highest fence', { ...state, fence: second.fence - 1 }],
  ['a lease holds and waits', { ...state, queue: [{ ...waiter, leaseId: alice }] }],
  ['it remembers too many endings', { ...state, ended: Array(9).fill({ leaseId: carol, how: 'released' as const }) }],
];

describe('an invariant of a lock', () => {
  it('holds for every state that the rules make', () => {
    expect(brokenInvariant(state)).toBeUndefined();
  });

  it.each(broken)('is broken if %s', (_what, damaged) => {
    const found = brokenInvariant(damaged);
    expect(found).toBeDefined();
    expect(found, 'it goes into logs').not.toContain(alice);
  });
});
