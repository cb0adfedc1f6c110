import { describe, expect, it } from 'vitest';
import type { Facts, SessionFact } from '../../../src/lock/commands.ts';
import type { LockState } from '../../../src/lock/state.ts';
import { type CycleStep, cycleThrough, stuckSessions, youngest } from '../../../src/session/deadlock.ts';
import { acquireOf, startOfTime } from '../../support/lock-worlds.ts';
import { LockStory } from '../lock/story.ts';

/** An acquire under a session. Without a session it is a plain lease. It waits if the lock is held. */
const by = (session: string | undefined, more: Parameters<typeof acquireOf>[1] = {}) =>
  acquireOf(`lease-of-${session ?? 'nobody'}`, {
    owner: `owner ${session}`,
    waitMs: 60_000,
    attendMs: null,
    ...(session === undefined ? {} : { sessionId: session, leaseMs: null }),
    ...more,
  });
const lockOf = (...acquires: ReturnType<typeof by>[]): LockState => new LockStory().after(...acquires).state;
const facts = (ms = 0, sessions?: Map<string, SessionFact>): Facts => ({
  now: (startOfTime + ms) as typeof startOfTime,
  graceMs: 0,
  ...(sessions === undefined ? {} : { sessions }),
});
const stuckIn = (locks: Record<string, LockState>, at = facts()) =>
  [...stuckSessions(new Map(Object.entries(locks)), at)].sort();
const cycleOf = (session: string, locks: Record<string, LockState>, at = facts()) =>
  cycleThrough(session, new Map(Object.entries(locks)), at)?.map(
    ({ sessionId, waitsFor }: CycleStep) => `${sessionId} waits for ${waitsFor}`,
  );

/** Each of two sessions holds one lock and waits for the other's. */
const knot = (one = 'one', other = 'two') => ({
  a: lockOf(by(one), by(other)),
  b: lockOf(by(other), by(one)),
});

describe('stuckSessions', () => {
  it('finds two sessions that wait for each other', () => {
    expect(stuckIn(knot())).toEqual(['one', 'two']);
  });

  it('finds nobody who waits for a session that works, or for a plain lease, which ends by itself', () => {
    expect(stuckIn({ a: lockOf(by('one'), by('two')), b: lockOf(by('two'), by(undefined)) })).toEqual([]);
    expect(stuckIn({ a: lockOf(by(undefined), by('one')), b: lockOf(by('one'), by('two')) })).toEqual([]);
    const plain = by('one', { leaseMs: 30_000 });
    const { sessionId: _, ...bare } = plain;
    expect(stuckIn({ a: lockOf(bare, by('two')), b: lockOf(by('two'), by('one')) })).toEqual([]);
  });

  it('does not count a holder whose session has ended, nor a waiter whose session has', () => {
    const over = facts(0, new Map([['two', { alive: false, endedAt: startOfTime, how: 'ended' }]]));
    expect(stuckIn(knot(), over)).toEqual([]);
    const readers = { limit: 3 };
    const locks = {
      // Session three waits behind two, which is over, and would fit.
      a: lockOf(by('one', readers), by('two', { ...readers, permits: 3 }), by('three', readers)),
      b: lockOf(by('three'), by('one')),
    };
    expect(stuckIn(locks)).toEqual(['one', 'three', 'two']);
    expect(stuckIn(locks, over)).toEqual([]);
  });

  it('does not count the wait of a session for a lock that it holds itself: another worker of it goes on', () => {
    const again = { leaseId: 'second-lease-of-one' };
    expect(stuckIn({ a: lockOf(by('one'), by('one', again)) })).toEqual([]);
    const shared = { limit: 2 };
    const both = by('one', { ...again, ...shared, permits: 2 });
    expect(stuckIn({ a: lockOf(by('one', shared), by('two', shared), both) })).toEqual([]);
  });
});

describe('cycleThrough', () => {
  it('starts with the session that asks, and names what each one waits for', () => {
    expect(cycleOf('one', knot())).toEqual(['one waits for b', 'two waits for a']);
    expect(cycleOf('two', knot())).toEqual(['two waits for a', 'one waits for b']);
  });

  it('is undefined for a session that is not stuck, or waits for a cycle without being part of it', () => {
    const locks = { ...knot(), a: lockOf(by('one'), by('two'), by('three')), c: lockOf(by('three'), by('four')) };
    expect(stuckIn(locks)).toEqual(['four', 'one', 'three', 'two']);
    expect(cycleOf('three', locks)).toBeUndefined();
    expect(cycleOf('four', locks)).toBeUndefined();
    expect(cycleOf('five', locks)).toBeUndefined();
  });

  it('leaves out holders that can still move', () => {
    const shared = { limit: 2 };
    const locks = {
      // Session one waits for both permits. Two works, and three is stuck.
      a: lockOf(by('two', shared), by('three', shared), by('one', { ...shared, permits: 2 })),
      b: lockOf(by('one'), by('three')),
    };
    expect(cycleOf('one', locks)).toEqual(['one waits for a', 'three waits for b']);
  });

  it('leaves out waiters that can still move', () => {
    const shared = { limit: 2 };
    const locks = {
      a: lockOf(by('two', shared), by('three', shared), by('one', { ...shared, permits: 2 })),
      b: lockOf(by('one'), by('four')),
      // Session two waits too, and is granted when the plain lease ends.
      c: lockOf(by('one', shared), by(undefined, shared), by('two', shared)),
      d: lockOf(by('four'), by('three')),
    };
    expect(cycleOf('one', locks)).toEqual(['one waits for a', 'three waits for d', 'four waits for b']);
  });

  it('goes through a waiter that is ahead in the queue', () => {
    const locks = {
      a: lockOf(by('zero'), by('one'), by('two')),
      b: lockOf(by('two'), by('one', { leaseId: 'b-of-one' })),
      c: lockOf(by('one'), by('zero')),
    };
    expect(cycleOf('two', locks)).toEqual(['two waits for a', 'one waits for b']);
  });
});

describe('youngest', () => {
  const wait = (leaseId: string, queuedAt: number) => ({ leaseId, queuedAt, sessionId: '', owner: '', waitsFor: '' });

  it('is the wait that began last', () => {
    const cycle = [wait('b', 1), wait('a', 3), wait('c', 2)];
    expect(youngest(cycle).leaseId).toBe('a');
    expect(youngest(cycle.toReversed()).leaseId).toBe('a');
  });

  it('is the same for all processes if several began at the same time', () => {
    const cycle = [wait('a', 1), wait('c', 1), wait('b', 1)];
    expect(youngest(cycle).leaseId).toBe('c');
    expect(youngest(cycle.toReversed()).leaseId).toBe('c');
  });
});
