import { describe, expect, it } from 'vitest';
import type { Facts, LockCommand } from '../../../src/lock/commands.ts';
import { decide } from '../../../src/lock/decide.ts';
import { lockLimits } from '../../../src/lock/limits.ts';
import { type LockState, unusedLock } from '../../../src/lock/state.ts';
import { callsForTimer, lookAgainAt, lookDueAt } from '../../../src/notify/look-times.ts';
import { epochMs } from '../../../src/time/clock.ts';
import { acquireOf, startOfTime } from '../../support/lock-worlds.ts';

const [holder, first, second] = ['lease-a-0000000000', 'lease-b-0000000000', 'lease-c-0000000000'] as const;
const { graceMs } = lockLimits;
const at = (ms: number): Facts => ({ now: epochMs(startOfTime + ms), graceMs });

/** The states after each of these commands, each applied at its time. */
function states(...steps: readonly (readonly [ms: number, command: LockCommand])[]): LockState[] {
  const made: LockState[] = [unusedLock];
  for (const [ms, command] of steps) made.push(decide(made.at(-1) as LockState, command, at(ms)).next);
  return made;
}

/** For each step, whether the notifier would arm a timer. */
const calls = (all: LockState[], facts: Facts) =>
  all.slice(1).map((state, index) => callsForTimer(all[index] as LockState, state, facts));

const take = (leaseMs: number) => acquireOf(holder, { leaseMs });
const parked = (leaseId: string, more = {}) =>
  acquireOf(leaseId, { waitMs: 3_600_000, attendMs: null, notify: { type: 'event', ref: leaseId }, ...more });

describe('callsForTimer', () => {
  it('needs one with the first waiter, and none while nobody waits', () => {
    expect(calls(states([0, take(10_000)], [1, parked(first)]), at(1))).toEqual([false, true]);
  });

  it('needs none with further waiters or with renewals', () => {
    const all = states(
      [0, take(10_000)],
      [1, parked(first)],
      [2, parked(second)],
      [3, { kind: 'renew', leaseId: holder }],
      [4, { kind: 'renew', leaseId: holder }],
    );
    expect(calls(all, at(4))).toEqual([false, true, false, false, false]);
  });

  it('needs none at a hand-off to an equally long lease, and one if the next lease is shorter', () => {
    const handOver = (leaseMs: number) =>
      states(
        [0, take(10_000)],
        [1, parked(first, { leaseMs })],
        [2, parked(second)],
        [3, { kind: 'release', leaseId: holder }],
      );
    expect(calls(handOver(10_000), at(3)).at(-1)).toBe(false);
    expect(calls(handOver(1_000), at(3)).at(-1)).toBe(true);
  });

  it('needs one if the wait of a parked waiter ends before the lease', () => {
    const all = states([0, take(60_000)], [1, parked(first)], [2, parked(second, { waitMs: 5_000 })]);
    expect(calls(all, at(2))).toEqual([false, true, true]);
    expect(lookDueAt(all.at(-1) as LockState, at(2))).toBe(startOfTime + 5_002);
  });

  it('needs none for the deadline of a waiter that polls', () => {
    const all = states([0, take(60_000)], [1, acquireOf(first, { waitMs: 5_000 })]);
    expect(lookDueAt(all.at(-1) as LockState, at(1))).toBe(startOfTime + 60_000 + graceMs);
  });
});

describe('lookAgainAt', () => {
  it('does not look again and again at an expired holder whose permits do not suffice for the first waiter', () => {
    const reader = (leaseId: string, leaseMs: number) => acquireOf(leaseId, { leaseMs, mode: 'shared' });
    const all = states(
      [0, reader(holder, 1_000)],
      [0, reader('lease-d-0000000000', 50_000)],
      [1, parked(first, { mode: 'exclusive' })],
      [2_000, { kind: 'sweep' }],
    );
    expect(lookAgainAt(all.at(-1) as LockState, at(2_000))).toBe(startOfTime + 50_000 + graceMs);
  });

  it('asks for no look if nobody waits any more', () => {
    expect(lookAgainAt(states([0, take(10_000)]).at(-1) as LockState, at(0))).toBeNull();
  });

  it('waits a moment if something seems to be due still, so that the looks do not repeat without a pause', () => {
    const [state] = states([0, take(10_000)], [1, parked(first)]).slice(-1) as [LockState];
    expect(lookAgainAt({ ...state, holders: [] }, at(2))).toBe(startOfTime + 2 + 200);
  });

  it('looks at a lock whose waiters are all in pages', () => {
    const [, state] = states([0, take(10_000)]) as [LockState, LockState];
    const inPages = { ...state, behind: { first: 7, last: 7 } };
    expect(lookDueAt(inPages, at(1))).toBe(startOfTime + 10_000 + graceMs);
    expect(lookDueAt({ ...state, behind: { first: 8, last: 7 } }, at(1))).toBeNull();
  });
});

describe('lookDueAt', () => {
  const bound = { leaseMs: null, sessionId: 'unknown' };

  it('is the deadline of a parked waiter if nothing else is known to end', () => {
    const [state] = states([0, acquireOf(holder, bound)], [1, parked(first, { waitMs: 5_000 })]).slice(-1);
    expect(lookDueAt(state as LockState, at(1))).toBe(startOfTime + 5_001);
  });

  it('is never if nothing is known to end, or if nobody waits', () => {
    const polling = states([0, acquireOf(holder, bound)], [1, acquireOf(first, { waitMs: 5_000 })]);
    expect(lookDueAt(polling.at(-1) as LockState, at(1))).toBeNull();
    expect(lookDueAt(states([0, take(10_000)]).at(-1) as LockState, at(1))).toBeNull();
  });
});
