import { describe, expect, it } from 'vitest';
import { acquireOf } from '../../support/lock-worlds.ts';
import { alice, bob, carol, LockStory } from './story.ts';

const bound = { leaseMs: null, sessionId: 'session-1' };
const waiting = { waitMs: 60_000 };

describe('a lease under a session', () => {
  it('has no end of its own: it is valid as long as the session lives', () => {
    const lock = new LockStory().openSession('session-1').after(acquireOf(alice, bound)).pass(86_400_000);
    expect(lock.state.holders[0]?.expiresAt).toBeNull();
    expect(lock.tell(acquireOf(bob))).toEqual({ kind: 'held' });
  });

  it('is valid if nothing is known about the session', () => {
    const lock = new LockStory().after(acquireOf(alice, bound)).pass(86_400_000);
    expect(lock.tell(acquireOf(bob))).toEqual({ kind: 'held' });
  });

  it('is not granted if the session is over', () => {
    const lock = new LockStory().endSession('session-1', 'ended');
    expect(lock.tell(acquireOf(alice, bound))).toEqual({ kind: 'lost', reason: 'session_lost' });
    expect(lock.tell(acquireOf(alice, { ...bound, ...waiting }))).toEqual({ kind: 'lost', reason: 'session_lost' });
    expect(lock.holders).toEqual([]);
  });

  it('can be taken over at once when the session is over, and is remembered as lost with it', () => {
    const lock = new LockStory().openSession('session-1').after(acquireOf(alice, bound));
    lock.endSession('session-1', 'ended');
    expect(lock.tell(acquireOf(bob)).kind).toBe('granted');
    expect(lock.tell({ kind: 'renew', leaseId: alice })).toEqual({ kind: 'lost', reason: 'session_lost' });
    expect(lock.tell({ kind: 'release', leaseId: alice })).toEqual({ kind: 'lost', reason: 'session_lost' });
  });

  it('is over from the end of the session, even if nobody has taken the lock', () => {
    const lock = new LockStory().openSession('session-1').after(acquireOf(alice, bound));
    lock.endSession('session-1', 'ended');
    for (const kind of ['renew', 'release'] as const) {
      expect(lock.tell({ kind, leaseId: alice })).toEqual({ kind: 'lost', reason: 'session_lost' });
    }
    expect(lock.tell(acquireOf(alice, bound))).toEqual({ kind: 'lost', reason: 'session_lost' });
  });

  it('blocks others during its lock delay if the session expired, but not if it was ended', () => {
    const story = (how: 'ended' | 'expired') =>
      new LockStory()
        .openSession('session-1')
        .after(acquireOf(alice, { ...bound, lockDelayMs: 3_000 }))
        .endSession('session-1', how);
    expect(story('ended').tell(acquireOf(bob)).kind).toBe('granted');
    expect(story('expired').pass(2_999).tell(acquireOf(bob))).toEqual({ kind: 'held' });
    expect(story('expired').pass(3_000).tell(acquireOf(bob)).kind).toBe('granted');
  });

  it('is ended by a sweep when the session is over, and the next waiter is granted', () => {
    const lock = new LockStory().openSession('session-1').after(acquireOf(alice, bound), acquireOf(bob, waiting));
    lock.endSession('session-1', 'ended').after({ kind: 'sweep' });
    expect(lock.holders).toEqual([bob]);
    expect(lock.eventTypes).toEqual(['session-lost', 'granted']);
  });
});

describe('a waiter whose session is over', () => {
  it('is never granted', () => {
    const lock = new LockStory()
      .openSession('session-1')
      .after(acquireOf(alice), acquireOf(bob, { ...bound, ...waiting }));
    lock.endSession('session-1', 'expired').after({ kind: 'release', leaseId: alice });
    expect(lock.holders).toEqual([]);
    expect(lock.queue).toEqual([]);
  });

  it('does not block the waiters behind it', () => {
    const lock = new LockStory()
      .openSession('session-1')
      .after(acquireOf(alice), acquireOf(bob, { ...bound, ...waiting }), acquireOf(carol, waiting));
    lock.endSession('session-1', 'ended').after({ kind: 'release', leaseId: alice });
    expect(lock.holders).toEqual([carol]);
  });

  it('learns it when it asks again', () => {
    const lock = new LockStory()
      .openSession('session-1')
      .after(acquireOf(alice), acquireOf(bob, { ...bound, ...waiting }));
    lock.endSession('session-1', 'expired');
    expect(lock.tell(acquireOf(bob, { ...bound, ...waiting }))).toEqual({ kind: 'lost', reason: 'session_lost' });
  });
});
