import { describe, expect, it } from 'vitest';
import { lockLimits } from '../../../src/lock/limits.ts';
import { type Claim, extrasWeight, holdersWeight } from '../../../src/lock/state.ts';
import { acquireOf } from '../../support/lock-worlds.ts';
import { alice, bob, carol, LockStory } from './story.ts';

describe('the weight of a holder', () => {
  const claim: Claim = { leaseId: 'lease', owner: 'owner', permits: 1, leaseMs: 1_000 };
  const weightWith = (more: Partial<Claim>) => extrasWeight({ ...claim, ...more });

  it('counts what few holders have, in bytes, as the table does', () => {
    expect(weightWith({})).toBe(0);
    expect(weightWith({ sessionId: 'session-1' })).toBe('"session-1"'.length);
    expect(weightWith({ metadata: { job: 'nightly' } })).toBe('{"job":"nightly"}'.length);
    expect(weightWith({ metadata: { job: 'é' } })).toBe('{"job":"é"}'.length + 1);
    const notify = { type: 'event', ref: 'ref' } as const;
    expect(weightWith({ notify })).toBe(JSON.stringify(notify).length);
  });
});

describe('the weight of the holders', () => {
  it('counts the holders of parts, and not the holder of a whole lock, which always fits', () => {
    expect(holdersWeight(new LockStory().after(acquireOf(alice)).state)).toBe(0);
    const metadata = { job: 'nightly' };
    const part = { limit: 2, metadata };
    expect(holdersWeight(new LockStory().after(acquireOf(alice, { metadata })).state)).toBe(0);
    const one = holdersWeight(new LockStory().after(acquireOf(alice, part)).state);
    expect(one).toBe(extrasWeight(acquireOf(alice, part)));
    expect(holdersWeight(new LockStory().after(acquireOf(alice, part), acquireOf(bob, part)).state)).toBe(2 * one);
  });

  it('may be as large as the limit in bytes, and a claim that does not fit waits for a release', () => {
    const { holdersBytesMax } = lockLimits;
    const large = (leaseId: string, bytes: number) => {
      const acquire = acquireOf(leaseId, { limit: 3, waitMs: 60_000, metadata: { note: '' } });
      return { ...acquire, metadata: { note: 'x'.repeat(bytes - extrasWeight(acquire)) } };
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
