import { describe, expect, it } from 'vitest';
import { lockLimits } from '../../../src/lock/limits.ts';
import { acquireOf } from '../../support/lock-worlds.ts';
import { alice, bob, carol, dave, LockStory } from './story.ts';

const { graceMs, endedRemembered } = lockLimits;
const waiting = { waitMs: 60_000 };
const release = (leaseId: string) => ({ kind: 'release', leaseId }) as const;
const renew = (leaseId: string, leaseMs?: number) =>
  ({ kind: 'renew', leaseId, ...(leaseMs === undefined ? {} : { leaseMs }) }) as const;

describe('renew', () => {
  it('extends a live lease from now, under the same fence', () => {
    const lock = new LockStory().after(acquireOf(alice, { leaseMs: 10_000 }));
    const { fence } = lock.state;
    expect(lock.pass(9_999).tell(renew(alice))).toMatchObject({
      kind: 'granted',
      holder: { fence, leaseMs: 10_000, expiresAt: lock.now + 10_000 },
    });
    expect(lock.state.fence).toBe(fence);
  });

  it('may change the length of the lease, for later renewals too', () => {
    const lock = new LockStory().after(acquireOf(alice), renew(alice, 3_000)).pass(1_000);
    expect(lock.tell(renew(alice))).toMatchObject({ holder: { leaseMs: 3_000, expiresAt: lock.now + 3_000 } });
  });

  it('is refused from the instant of the end, even if nobody has taken the lock', () => {
    const lock = new LockStory().after(acquireOf(alice, { leaseMs: 10_000 })).pass(10_000);
    expect(lock.tell(renew(alice))).toEqual({ kind: 'lost', reason: 'expired' });
    expect(lock.unchanged).toBe(true);
  });

  it('never revives a lease that was released, revoked or taken over', () => {
    const lock = new LockStory().after(acquireOf(alice), release(alice));
    expect(lock.tell(renew(alice))).toEqual({ kind: 'lost', reason: 'released' });

    lock.after(acquireOf(bob));
    lock.after({ kind: 'revoke', fence: lock.state.fence, reason: 'stuck' });
    expect(lock.tell(renew(bob))).toEqual({ kind: 'lost', reason: 'revoked', revocation: { reason: 'stuck' } });

    lock.after(acquireOf(carol, { leaseMs: 1_000 })).pass(1_000 + graceMs);
    lock.after(acquireOf(dave));
    expect(lock.tell(renew(carol))).toEqual({ kind: 'lost', reason: 'expired' });
    expect(lock.holders).toEqual([dave]);
  });

  it('is refused to a waiter and to an unknown lease', () => {
    const lock = new LockStory().after(acquireOf(alice), acquireOf(bob, waiting));
    expect(lock.tell(renew(bob))).toEqual({ kind: 'lost', reason: 'not_owner' });
    expect(lock.tell(renew(carol))).toEqual({ kind: 'lost', reason: 'not_owner' });
  });
});

describe('release', () => {
  it('ends the lease and leaves the lock free if nobody waits', () => {
    const lock = new LockStory().after(acquireOf(alice));
    expect(lock.tell(release(alice))).toEqual({ kind: 'released', reason: 'ok' });
    expect(lock.state).toMatchObject({ holders: [], queue: [], ended: [{ leaseId: alice, how: 'released' }] });
  });

  it('hands the lock to the oldest waiter in the same step, with a full lease from now and the next fence', () => {
    const lock = new LockStory().after(
      acquireOf(alice),
      acquireOf(bob, { ...waiting, leaseMs: 7_000 }),
      acquireOf(carol, waiting),
    );
    const { fence, rev } = lock.state;
    lock.pass(4_000).after(release(alice));
    expect(lock.state).toMatchObject({
      rev: rev + 1,
      fence: fence + 1,
      holders: [{ leaseId: bob, fence: fence + 1, acquiredAt: lock.now, expiresAt: lock.now + 7_000 }],
      queue: [{ leaseId: carol }],
    });
  });

  it('drops absent waiters at the front of the queue without granting to them', () => {
    const dead = { ...waiting, attendMs: 1_000 };
    const lock = new LockStory().after(
      acquireOf(alice),
      acquireOf(bob, dead),
      acquireOf(carol, dead),
      acquireOf(dave, waiting),
    );
    const { fence } = lock.state;
    lock.pass(1_000).after(release(alice));
    expect(lock.state).toMatchObject({ fence: fence + 1, holders: [{ leaseId: dave }], queue: [] });
  });

  it('grants to readers together, up to the next writer in the queue', () => {
    const reader = { ...waiting, mode: 'shared' } as const;
    const lock = new LockStory().after(
      acquireOf(alice),
      acquireOf(bob, reader),
      acquireOf(carol, reader),
      acquireOf(dave, waiting),
      acquireOf('lease-of-erin-00000', reader),
    );
    lock.after(release(alice));
    expect(lock.holders).toEqual([bob, carol]);
    expect(lock.queue).toEqual([dave, 'lease-of-erin-00000']);
  });

  it('does not grant to a waiter further back if the first one does not fit yet', () => {
    const lock = new LockStory().after(
      acquireOf(alice, { limit: 3 }),
      acquireOf(bob, { limit: 3, permits: 2 }),
      acquireOf(carol, { limit: 3, permits: 3, ...waiting }),
      acquireOf(dave, { limit: 3, ...waiting }),
    );
    lock.after(release(alice));
    expect(lock.queue).toEqual([carol, dave]);
  });

  it('succeeds for an expired lease if nobody has taken the lock, and says that it was late', () => {
    const heldFor = (ms: number) => new LockStory().after(acquireOf(alice, { leaseMs: 1_000 })).pass(ms);
    expect(heldFor(999).tell(release(alice))).toEqual({ kind: 'released', reason: 'ok' });
    expect(heldFor(1_000).tell(release(alice))).toEqual({ kind: 'released', reason: 'ok', isExpired: true });
  });

  it('is refused for a lease that was taken over, and the new holder keeps the lock', () => {
    const lock = new LockStory().after(acquireOf(alice, { leaseMs: 1_000 })).pass(1_000 + graceMs);
    lock.after(acquireOf(bob));
    expect(lock.tell(release(alice))).toEqual({ kind: 'lost', reason: 'expired' });
    expect(lock.holders).toEqual([bob]);
  });

  it('gives up the place of a waiter', () => {
    const lock = new LockStory().after(acquireOf(alice), acquireOf(bob, waiting), acquireOf(carol, waiting));
    expect(lock.tell(release(bob))).toEqual({ kind: 'released', reason: 'cancelled' });
    expect(lock.queue).toEqual([carol]);
    expect(lock.tell(acquireOf(bob, waiting)), 'its late duplicate does not queue again').toEqual({
      kind: 'lost',
      reason: 'released',
    });
  });

  it('by the first waiter grants to the waiters behind it', () => {
    const lock = new LockStory().after(
      acquireOf(alice, { limit: 3 }),
      acquireOf(bob, { limit: 3, permits: 3, ...waiting }),
      acquireOf(carol, { limit: 3, ...waiting }),
    );
    lock.after(release(bob));
    expect(lock.holders).toEqual([alice, carol]);
  });

  it('answers already_released if it is repeated, and changes nothing', () => {
    const lock = new LockStory().after(acquireOf(alice), release(alice), acquireOf(bob));
    expect(lock.tell(release(alice))).toEqual({ kind: 'released', reason: 'already_released' });
    expect(lock.unchanged).toBe(true);
    expect(lock.holders).toEqual([bob]);
  });

  it('is refused to an unknown lease', () => {
    const lock = new LockStory().after(acquireOf(alice));
    expect(lock.tell(release(bob))).toEqual({ kind: 'lost', reason: 'not_owner' });
    expect(lock.unchanged).toBe(true);
  });

  it('is remembered until the lock has as many later endings as it keeps', () => {
    const lock = new LockStory().after(acquireOf(alice), release(alice));
    const others = Array.from({ length: endedRemembered }, (_, index) => `lease-of-other-${index}-00`);
    for (const other of others.slice(1)) lock.after(acquireOf(other), release(other));
    expect(lock.tell(release(alice))).toEqual({ kind: 'released', reason: 'already_released' });
    const last = others[0] as string;
    lock.after(acquireOf(last), release(last));
    expect(lock.tell(release(alice))).toEqual({ kind: 'lost', reason: 'not_owner' });
    expect(lock.state.ended).toHaveLength(endedRemembered);
  });
});

describe('revoke', () => {
  const revoke = (fence: number) => ({ kind: 'revoke', fence, reason: 'stuck', by: 'olga' }) as const;

  it('ends the lease of that fence, remembers the reason, and grants to the next waiter', () => {
    const lock = new LockStory().after(acquireOf(alice), acquireOf(bob, waiting));
    const { fence } = lock.state;
    expect(lock.tell(revoke(fence))).toEqual({ kind: 'revoked' });
    expect(lock.state.ended).toEqual([{ leaseId: alice, how: 'revoked', fence, reason: 'stuck', by: 'olga' }]);
    expect(lock.holders).toEqual([bob]);
  });

  it('tells the former holder who revoked and why, whichever way it asks', () => {
    const lock = new LockStory().after(acquireOf(alice));
    lock.after(revoke(lock.state.fence), { ...revoke(lock.state.fence), by: 'boris' });
    const lost = { kind: 'lost', reason: 'revoked', revocation: { by: 'olga', reason: 'stuck' } };
    for (const command of [renew(alice), release(alice), acquireOf(alice)]) expect(lock.tell(command)).toEqual(lost);
  });

  it('ends one holder of a semaphore and not the others', () => {
    const lock = new LockStory().after(acquireOf(alice, { limit: 3 }), acquireOf(bob, { limit: 3 }));
    lock.after(revoke(lock.state.fence));
    expect(lock.holders).toEqual([alice]);
  });

  it('may be repeated with one effect', () => {
    const lock = new LockStory().after(acquireOf(alice));
    const { fence } = lock.state;
    lock.after(revoke(fence), acquireOf(bob));
    expect(lock.tell(revoke(fence))).toEqual({ kind: 'revoked' });
    expect(lock.tell(revoke(fence - 1)), 'another fence was not revoked').toEqual({
      kind: 'lost',
      reason: 'not_owner',
    });
    expect(lock.unchanged).toBe(true);
    expect(lock.holders).toEqual([bob]);
  });

  it('is refused for another fence, and for one that was released', () => {
    const lock = new LockStory().after(acquireOf(alice));
    const { fence } = lock.state;
    expect(lock.tell(revoke(fence + 1))).toEqual({ kind: 'lost', reason: 'not_owner' });
    lock.after(release(alice));
    expect(lock.tell(revoke(fence))).toEqual({ kind: 'lost', reason: 'not_owner' });
  });

  it('frees the lock at once, even with a lock delay', () => {
    const lock = new LockStory().after(acquireOf(alice, { lockDelayMs: 60_000 }));
    lock.after(revoke(lock.state.fence));
    expect(lock.tell(acquireOf(bob)).kind).toBe('granted');
  });
});
