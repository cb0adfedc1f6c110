import { describe, expect, it } from 'vitest';
import { lockLimits } from '../../../src/lock/limits.ts';
import {
  type Claim,
  hasPlace,
  holdersWeight,
  holderWeight,
  queueWeight,
  type Waiter,
  weightOf,
} from '../../../src/lock/state.ts';
import { acquireOf, startOfTime } from '../../support/lock-worlds.ts';
import { alice, bob, carol, LockStory } from './story.ts';

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

describe('a front', () => {
  const { frontBytesMax } = lockLimits;

  it('takes waiters up to its limit in bytes', () => {
    const one = waiterNamed('x');
    const rest = frontBytesMax - queueWeight([one]) - weightOf(waiterNamed(''));
    expect(hasPlace([one], waiterNamed('x'.repeat(rest)), 10)).toBe(true);
    expect(hasPlace([one], waiterNamed('x'.repeat(rest + 1)), 10)).toBe(false);
  });

  it('takes any waiter while it is empty, so that nobody waits for ever', () => {
    expect(hasPlace([], waiterNamed('x'.repeat(frontBytesMax)), 10)).toBe(true);
  });
});

describe('the weight of a holder', () => {
  const claim: Claim = { leaseId: 'lease', owner: '', permits: 1, leaseMs: 1_000 };
  const weightWith = (more: Partial<Claim>) => holderWeight({ ...claim, ...more }) - holderWeight({ ...claim });

  it('counts each text in bytes, and the lease twice, because two attributes are named by it', () => {
    expect(weightWith({ leaseId: 'lease-and-more' })).toBe(2 * '-and-more'.length);
    expect(weightWith({ owner: 'é' })).toBe(2);
    expect(weightWith({ sessionId: 'session-1' })).toBe('session-1'.length);
    expect(weightWith({ metadata: { job: 'nightly' } })).toBe('{"job":"nightly"}'.length - '""'.length);
    const notify = { type: 'event', ref: 'ref' } as const;
    expect(weightWith({ notify })).toBe(JSON.stringify(notify).length - '""'.length);
  });

  it('without any text is that of its numbers and names', () => {
    expect(holderWeight(claim)).toBe(64 + 2 * claim.leaseId.length + 2 * '""'.length);
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

  it('may be as large as the limit in bytes, and a claim that does not fit waits for a release', () => {
    const { holdersBytesMax } = lockLimits;
    const large = (leaseId: string, bytes: number) => {
      const acquire = acquireOf(leaseId, { limit: 3, waitMs: 60_000, metadata: { note: '' } });
      return { ...acquire, metadata: { note: 'x'.repeat(bytes - holderWeight({ ...acquire })) } };
    };
    const half = new LockStory().after(large(alice, holdersBytesMax / 2));
    expect(new LockStory(half.state).tell(large(bob, holdersBytesMax / 2)).kind).toBe('granted');
    expect(half.tell(large(bob, holdersBytesMax / 2 + 1)).kind).toBe('waiting');
    half.after({ kind: 'release', leaseId: alice });
    expect(half.holders).toEqual([bob]);
  });

  it('does not matter for the first holder, which would wait for ever otherwise', () => {
    const note = 'x'.repeat(lockLimits.holdersBytesMax);
    expect(new LockStory().tell(acquireOf(carol, { limit: 3, metadata: { note } })).kind).toBe('granted');
  });
});
