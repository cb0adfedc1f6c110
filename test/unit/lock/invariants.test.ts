import { describe, expect, it } from 'vitest';
import { brokenInvariant } from '../../../src/lock/invariants.ts';
import { type Holder, type LockState, unusedLock, type Waiter } from '../../../src/lock/state.ts';
import { acquireOf } from '../../support/lock-worlds.ts';
import { alice, bob, carol, LockStory } from './story.ts';

const { state } = new LockStory().after(
  acquireOf(alice, { limit: 3, permits: 2 }),
  acquireOf(bob, { limit: 3 }),
  acquireOf(carol, { limit: 3, waitMs: 1_000 }),
);
const [first, second] = state.holders as [Holder, Holder];
const [waiter] = state.queue as [Waiter];

const endings = (count: number) => Array(count).fill({ leaseId: carol, how: 'released' as const });

const broken: [string, string, LockState][] = [
  ['more permits are held than there are', '3 permits are held of 2', { ...state, limit: 2 }],
  ['a claim is for nothing', 'less than one permit', { ...state, queue: [{ ...waiter, permits: 0 }] }],
  ['a holder has nothing', 'less than one permit', { ...state, holders: [{ ...first, permits: 0 }] }],
  ['two holders have one fence', 'do not ascend', { ...state, holders: [first, { ...second, fence: first.fence }] }],
  ['fences fall', 'do not ascend', { ...state, holders: [second, first] }],
  ['a fence is zero', 'do not ascend', { ...state, holders: [{ ...first, fence: 0 }] }],
  ['a holder is above the highest fence', 'above the highest granted', { ...state, fence: second.fence - 1 }],
  ['a lease holds and waits', 'in two places', { ...state, queue: [{ ...waiter, leaseId: alice }] }],
  ['a lease waits twice', 'in two places', { ...state, queue: [waiter, waiter] }],
  ['its queue ends before it begins', 'ends before it begins', { ...state, behind: { first: 9, last: 7 } }],
  ['it remembers too many endings', 'remembers 9 endings', { ...state, ended: endings(9) }],
];

const sound: [string, LockState][] = [
  ['nothing', unusedLock],
  ['holders and a waiter', state],
  ['every permit held', { ...state, limit: 3 }],
  ['no page left', { ...state, behind: { first: 8, last: 7 } }],
  ['one page', { ...state, behind: { first: 7, last: 7 } }],
  ['as many endings as it may remember', { ...state, ended: endings(8) }],
];

describe('an invariant of a lock', () => {
  it.each(sound)('holds for a lock with %s', (_what, sound) => {
    expect(brokenInvariant(sound)).toBeUndefined();
  });

  it.each(broken)('is broken if %s', (_what, text, damaged) => {
    const found = brokenInvariant(damaged);
    expect(found).toContain(text);
    expect(found, 'it goes into logs').not.toContain(alice);
  });
});
