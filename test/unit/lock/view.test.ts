import { describe, expect, it } from 'vitest';
import { lockLimits } from '../../../src/lock/limits.ts';
import { demandOf, everyPermit } from '../../../src/lock/state.ts';
import {
  detailHolders,
  endsAt,
  limitInForce,
  longestWaitMs,
  positionOf,
  presentWaiters,
  retryAfterMs,
  shownLimit,
  shownPermits,
  standingHolders,
  viewHolders,
  viewQueue,
} from '../../../src/lock/view.ts';
import { acquireOf } from '../../support/lock-worlds.ts';
import { alice, bob, carol, dave, LockStory } from './story.ts';

const { graceMs } = lockLimits;
const waiting = { waitMs: 60_000 };
const shortForm = (sessionId: string) => `short form of ${sessionId.length} characters`;

describe('a view of a lock', () => {
  it('shows no leaseId, no session id and no address of a delivery', () => {
    const secrets = {
      leaseMs: null,
      sessionId: 'session-secret-1',
      notify: { type: 'task-token', token: 'token-secret' },
      owner: 'somebody',
    } as const;
    const { state, facts } = new LockStory().after(
      acquireOf(alice, secrets),
      acquireOf(bob, { ...waiting, ...secrets }),
    );
    const shown = JSON.stringify([
      viewHolders(state, facts),
      detailHolders(state, facts, shortForm),
      viewQueue(state, facts, shortForm),
    ]);
    expect(shown).toContain('somebody');
    for (const secret of [alice, bob, 'session-secret', 'token-secret']) expect(shown).not.toContain(secret);
  });

  it('shows a holder with its owner, fence, permits, times and metadata', () => {
    const lock = new LockStory().after(acquireOf(alice, { owner: 'alice', metadata: { job: 'nightly' } })).pass(4_000);
    expect(detailHolders(lock.state, lock.facts, shortForm)).toEqual([
      {
        owner: 'alice',
        fence: lock.state.fence,
        permits: 1,
        acquiredAt: new Date(lock.now - 4_000).toISOString(),
        remainingMs: 6_000,
        metadata: { job: 'nightly' },
      },
    ]);
  });

  it('shows an expired holder with 0 ms remaining until it may be taken over', () => {
    const lock = new LockStory().after(acquireOf(alice, { leaseMs: 1_000 })).pass(1_000 + graceMs - 1);
    expect(viewHolders(lock.state, lock.facts)).toMatchObject([{ remainingMs: 0 }]);
    lock.pass(1);
    expect(standingHolders(lock.state, lock.facts)).toEqual([]);
  });

  it('shows the remaining time of the session for its locks, and null if it is not known', () => {
    const lock = new LockStory().openSession('session-1', 7_000);
    lock.after(acquireOf(alice, { leaseMs: null, sessionId: 'session-1' })).pass(1_000);
    expect(viewHolders(lock.state, lock.facts)).toMatchObject([{ remainingMs: 6_000 }]);
    lock.sessions.clear();
    expect(viewHolders(lock.state, lock.facts)).toMatchObject([{ remainingMs: null }]);
  });

  it('counts positions among present waiters', () => {
    const lock = new LockStory().after(
      acquireOf(alice),
      acquireOf(bob, { ...waiting, attendMs: 100 }),
      acquireOf(carol, { ...waiting, owner: 'carol' }),
    );
    expect(lock.queue).toHaveLength(2);
    lock.pass(200);
    expect(viewQueue(lock.state, lock.facts, shortForm)).toEqual([
      { owner: 'carol', position: 1, waitingMs: 200, permits: 1 },
    ]);
    expect(presentWaiters(lock.state, lock.facts)).toHaveLength(1);
  });

  it('shows the session of a waiter in a short form', () => {
    const lock = new LockStory().openSession('session-1', 60_000);
    lock.after(acquireOf(alice), acquireOf(bob, { ...waiting, leaseMs: null, sessionId: 'session-1' }));
    expect(viewQueue(lock.state, lock.facts, shortForm)).toMatchObject([{ sessionId: 'short form of 9 characters' }]);
  });

  it('shows the session of a holder in a short form, and no metadata if there is none', () => {
    const lock = new LockStory().openSession('session-1', 60_000);
    lock.after(acquireOf(alice, { leaseMs: null, sessionId: 'session-1' }));
    const [shown] = detailHolders(lock.state, lock.facts, shortForm);
    expect(shown).toMatchObject({ sessionId: 'short form of 9 characters' });
    expect(shown).not.toHaveProperty('metadata');
  });

  it('knows no end of a lease without an end of its own if nothing is known about sessions', () => {
    const { state, now } = new LockStory().after(acquireOf(alice, { leaseMs: null, sessionId: 'session-1' }));
    const [holder] = state.holders as [(typeof state.holders)[0]];
    expect(endsAt(holder, { now, graceMs })).toBeNull();
  });

  it('gives the position of a waiter in the front, and counts nobody who is absent', () => {
    const lock = new LockStory().after(
      acquireOf(alice),
      acquireOf(bob, waiting),
      acquireOf(carol, { ...waiting, attendMs: 100 }),
      acquireOf(dave, waiting),
    );
    const positions = () => [bob, carol, dave, alice].map((leaseId) => positionOf(lock.state, leaseId, lock.facts));
    expect(positions()).toEqual([1, 2, 3, undefined]);
    lock.pass(200);
    expect(positions()).toEqual([1, 2, 2, undefined]);
  });

  it('shows how long the first present waiter has waited', () => {
    const lock = new LockStory().after(acquireOf(alice));
    expect(longestWaitMs(lock.state, lock.facts)).toBe(0);
    lock.after(acquireOf(bob, { ...waiting, attendMs: 2_000 })).pass(1_000);
    lock.after(acquireOf(carol, waiting)).pass(500);
    expect(longestWaitMs(lock.state, lock.facts)).toBe(1_500);
    lock.pass(1_000);
    expect(longestWaitMs(lock.state, lock.facts)).toBe(1_500);
  });
});

describe('retryAfterMs', () => {
  const retryAfter = ({ state, facts }: LockStory) => retryAfterMs(state, facts);

  it('is the time of the takeover if that is near', () => {
    expect(retryAfter(new LockStory().after(acquireOf(alice, { leaseMs: 1_000 })))).toBe(1_000 + graceMs);
  });

  it('goes by the earliest of several takeovers', () => {
    const lock = new LockStory().after(
      acquireOf(alice, { limit: 2, leaseMs: 1_500 }),
      acquireOf(bob, { limit: 2, leaseMs: 1_000 }),
    );
    expect(retryAfter(lock)).toBe(1_000 + graceMs);
  });

  it('is at most two seconds, because a release may come at any time', () => {
    expect(retryAfter(new LockStory().after(acquireOf(alice, { leaseMs: 60_000 })))).toBe(2_000);
    expect(retryAfter(new LockStory().after(acquireOf(alice, { leaseMs: null, sessionId: 's' })))).toBe(2_000);
  });

  it('is never so short that retries load the lock', () => {
    const lock = new LockStory().after(acquireOf(alice, { leaseMs: 1_000 })).pass(1_000 + graceMs - 1);
    expect(retryAfter(lock)).toBe(50);
  });
});

describe('permits', () => {
  it('are all for a mutex and for a writer, and one for a reader', () => {
    expect(demandOf({})).toEqual({ limit: everyPermit, permits: everyPermit });
    expect(demandOf({ limit: 1, permits: 1 })).toEqual(demandOf({ mode: 'exclusive' }));
    expect(demandOf({ mode: 'shared' })).toEqual({ limit: everyPermit, permits: 1 });
  });

  it('are as many as asked for with a semaphore, and one by default', () => {
    expect(demandOf({ limit: 5 })).toEqual({ limit: 5, permits: 1 });
    expect(demandOf({ limit: 5, permits: 5 })).toEqual({ limit: 5, permits: 5 });
  });

  it('differ between the largest semaphore and a read-write lock', () => {
    expect(everyPermit).toBeGreaterThan(lockLimits.limitMax);
  });

  it('are shown in the way in which callers ask for them', () => {
    expect([shownPermits(everyPermit), shownPermits(3)]).toEqual([1, 3]);
    expect(shownLimit(5, [])).toBe(5);
    expect(shownLimit(everyPermit, [{ permits: everyPermit }])).toBe(1);
    expect(shownLimit(everyPermit, [{ permits: 1 }])).toBe(everyPermit);
  });

  it('show the limit of an unused lock as that of a mutex', () => {
    const lock = new LockStory().after(acquireOf(alice, { mode: 'shared', leaseMs: 1_000 }));
    expect(limitInForce(lock.state, lock.facts)).toBe(everyPermit);
    lock.pass(1_000 + graceMs);
    expect(limitInForce(lock.state, lock.facts)).toBe(1);
  });
});
