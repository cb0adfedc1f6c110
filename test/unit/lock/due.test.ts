import { describe, expect, it } from 'vitest';
import { lockLimits } from '../../../src/lock/limits.ts';
import { isLive, nextDueAt } from '../../../src/lock/validity.ts';
import { acquireOf } from '../../support/lock-worlds.ts';
import { alice, bob, carol, dave, LockStory } from './story.ts';

const { graceMs } = lockLimits;
const waiting = { waitMs: 60_000 };
const bound = { leaseMs: null, sessionId: 'session-1' };
const semaphore = { limit: 3 };
const pages = { first: 7, last: 7 };
/** In how many milliseconds time alone changes something for the waiters. */
const dueIn = ({ state, facts, now }: LockStory) => {
  const at = nextDueAt(state, facts);
  return at === null ? null : at - now;
};
const withPages = (lock: LockStory) => new LockStory({ ...lock.state, behind: pages });

describe('nextDueAt', () => {
  it('is never if nobody waits', () => {
    expect(dueIn(new LockStory())).toBeNull();
    expect(dueIn(new LockStory().after(acquireOf(alice)))).toBeNull();
  });

  it('is when the first lease may be taken over', () => {
    const lock = new LockStory().after(
      acquireOf(alice, { ...semaphore, permits: 2, leaseMs: 5_000 }),
      acquireOf(bob, { ...semaphore, leaseMs: 2_000, lockDelayMs: 1_000 }),
      acquireOf(carol, { ...semaphore, ...waiting }),
    );
    expect(dueIn(lock)).toBe(2_000 + 1_000 + graceMs);
  });

  it('is now if nobody holds', () => {
    const lock = new LockStory().after(acquireOf(alice), acquireOf(bob, waiting));
    lock.state = { ...lock.state, holders: [] };
    expect(dueIn(lock)).toBe(0);
  });

  it('is when a session may be marked dead, if the lease ends with it', () => {
    const lock = new LockStory().openSession('session-1', 7_000);
    lock.after(acquireOf(alice, bound), acquireOf(bob, waiting));
    expect(dueIn(lock)).toBe(7_000 + graceMs);
  });

  it('is never if the lease ends with a session of which nothing is known', () => {
    const lock = new LockStory().after(acquireOf(alice, bound), acquireOf(bob, waiting));
    expect(dueIn(lock)).toBeNull();
    const { state, now } = lock;
    expect(nextDueAt(state, { now, graceMs })).toBeNull();
    expect(isLive(state.holders[0] as (typeof state.holders)[0], { now, graceMs })).toBe(true);
  });

  it('is when the session has ended, plus the lock delay if it expired', () => {
    const story = () => {
      const lock = new LockStory().openSession('session-1');
      return lock.after(acquireOf(alice, { ...bound, lockDelayMs: 3_000 }), acquireOf(bob, waiting));
    };
    expect(dueIn(story().endSession('session-1', 'ended'))).toBe(0);
    expect(dueIn(story().endSession('session-1', 'expired'))).toBe(3_000);
  });

  describe('if permits are free that the first waiter does not fit into', () => {
    const story = (behind: boolean) => {
      const lock = new LockStory().after(
        acquireOf(alice, { ...semaphore, leaseMs: 20_000 }),
        acquireOf(bob, { ...semaphore, permits: 3, ...waiting, attendMs: 4_000 }),
      );
      return behind ? lock.after(acquireOf(dave, { ...semaphore, ...waiting })) : lock;
    };

    it('is when that waiter leaves, if others wait behind it', () => {
      expect(dueIn(story(true))).toBe(4_000);
      expect(dueIn(withPages(story(false)))).toBe(4_000);
    });

    it('is the takeover if nobody waits behind it', () => {
      expect(dueIn(story(false))).toBe(20_000 + graceMs);
    });
  });

  it('does not count when a waiter leaves if no permit is free', () => {
    const lock = new LockStory().after(
      acquireOf(alice, { leaseMs: 20_000 }),
      acquireOf(bob, { ...waiting, attendMs: 4_000 }),
      acquireOf(carol, waiting),
    );
    expect(dueIn(lock)).toBe(20_000 + graceMs);
  });

  describe('if all waiters are in pages', () => {
    it('is now if permits are free', () => {
      expect(dueIn(withPages(new LockStory().after(acquireOf(alice, semaphore))))).toBe(0);
    });

    it('is the takeover if none is free', () => {
      expect(dueIn(withPages(new LockStory().after(acquireOf(alice, { leaseMs: 5_000 }))))).toBe(5_000 + graceMs);
    });
  });
});
