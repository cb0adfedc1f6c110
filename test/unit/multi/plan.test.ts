import { describe, expect, it } from 'vitest';
import type { Acquire, Facts, Renew } from '../../../src/lock/commands.ts';
import { decide } from '../../../src/lock/decide.ts';
import { lockLimits } from '../../../src/lock/limits.ts';
import { type LockState, unusedLock } from '../../../src/lock/state.ts';
import { canonicalOrder, planAll, waitOf } from '../../../src/multi/plan.ts';
import { epochMs } from '../../../src/time/clock.ts';
import { acquireOf, startOfTime } from '../../support/lock-worlds.ts';

const facts = { now: startOfTime, graceMs: lockLimits.graceMs };
const mine = acquireOf('lease-mine-0000000');
const held = decide(unusedLock, mine, facts).next;
const part = (name: string, state = unusedLock) => ({ name, state, command: mine });

describe('planAll', () => {
  it('writes every lock that it grants', () => {
    expect(planAll([part('a'), part('b')], facts)).toMatchObject({
      kind: 'granted',
      swaps: [
        { name: 'a', next: held },
        { name: 'b', next: held },
      ],
    });
  });

  it('also writes locks that are already held, so the step fails if one was lost in between', () => {
    const plan = planAll([part('a', held), part('b')], facts);
    expect(plan).toMatchObject({ kind: 'granted', swaps: [{ name: 'a', next: { rev: held.rev + 1 } }, { name: 'b' }] });
    const [kept] = plan.kind === 'granted' ? plan.swaps : [];
    expect(kept?.next).toEqual({ ...held, rev: held.rev + 1, changedAt: startOfTime });
  });

  it('writes nothing if all are already held', () => {
    const plan = planAll([part('a', held), part('b', held)], facts);
    expect(plan).toEqual({ kind: 'granted', swaps: [], holders: [held.holders[0], held.holders[0]] });
  });

  it('writes nothing if one is refused, and names it', () => {
    const theirs = decide(unusedLock, acquireOf('lease-theirs-00000'), facts).next;
    const plan = planAll([part('a'), part('b', theirs)], facts);
    expect(plan).toEqual({
      kind: 'refused',
      refusals: [{ name: 'b', answer: expect.objectContaining({ kind: 'held' }), state: theirs }],
    });
    expect(plan).not.toHaveProperty('swaps');
  });
});

describe('a renewal among several', () => {
  const renew = { kind: 'renew' as const, leaseId: mine.leaseId };
  const later = { ...facts, now: epochMs(startOfTime + 1_000) };
  const swapOf = (state: LockState, command: Acquire | Renew = renew, at: Facts = later) => {
    const plan = planAll(
      [
        { name: 'a', state, command },
        { name: 'b', state: unusedLock, command: mine },
      ],
      at,
    );
    return plan.kind === 'granted' ? plan.swaps[0] : undefined;
  };

  it('is written as one, of the whole lock and of a part', () => {
    const reader = decide(unusedLock, acquireOf(mine.leaseId, { mode: 'shared' }), facts).next;
    for (const state of [held, reader]) expect(swapOf(state)?.renewal).toEqual({ command: renew });
  });

  it('replaces the whole state if a faster clock wrote it', () => {
    expect(swapOf(held, renew, { ...facts, now: epochMs(startOfTime - 1) })).toMatchObject({ name: 'a' });
    expect(swapOf(held, renew, { ...facts, now: epochMs(startOfTime - 1) })).not.toHaveProperty('renewal');
    expect(swapOf({ ...held, changedAt: later.now })?.renewal).toBeDefined();
  });

  it('replaces the whole state if a lease of the lock ends with a session', () => {
    const bound = acquireOf('lease-theirs-00000', { mode: 'shared', leaseMs: null, sessionId: 'session-1' });
    const own = acquireOf(mine.leaseId, { mode: 'shared' });
    const shared = decide(decide(unusedLock, bound, facts).next, own, facts).next;
    expect(shared.holders).toHaveLength(2);
    expect(swapOf(shared)).toMatchObject({ name: 'a' });
    expect(swapOf(shared)).not.toHaveProperty('renewal');
  });

  it('only checks a lease that has no end of its own', () => {
    const bound = decide(unusedLock, { ...mine, leaseMs: null, sessionId: 'session-1' }, facts).next;
    expect(swapOf(bound)).toEqual({ name: 'a', next: { ...bound, rev: bound.rev + 1, changedAt: later.now } });
  });

  it('is told from an acquire', () => {
    expect(swapOf(held, mine)).not.toHaveProperty('renewal');
    expect(planAll([part('a')], facts)).not.toHaveProperty('swaps.0.renewal');
  });
});

describe('canonicalOrder', () => {
  it('sorts by name and leaves the input unchanged', () => {
    const asked = ['b', 'a', 'c', 'ab', 'B'].map((name) => ({ name }));
    expect(canonicalOrder(asked).map(({ name }) => name)).toEqual(['B', 'a', 'ab', 'b', 'c']);
    expect(asked[0]?.name).toBe('b');
  });
});

describe('waitOf', () => {
  const later = { ...facts, now: epochMs(startOfTime + 1_000) };
  const theirs = decide(unusedLock, acquireOf('lease-theirs-00000'), facts).next;
  const queuedBehind = (state: LockState, waitMs: number, at = later) => decide(state, { ...mine, waitMs }, at).next;

  it('is unknown if the lease neither holds nor waits', () => {
    expect(waitOf([unusedLock, theirs], mine.leaseId)).toBeUndefined();
  });

  it('began when the lease first asked, and ends with its place in a queue', () => {
    const waiting = queuedBehind(theirs, 5_000);
    expect(waitOf([held, waiting], mine.leaseId)).toEqual({ since: startOfTime, deadlineAt: startOfTime + 6_000 });
    expect(waitOf([waiting, theirs], mine.leaseId)?.since).toBe(startOfTime + 1_000);
    const longer = queuedBehind(theirs, 9_000);
    expect(waitOf([longer, waiting], mine.leaseId)?.deadlineAt).toBe(startOfTime + 6_000);
  });

  it('leaves out the waits of others in the same queue', () => {
    const other = decide(theirs, acquireOf('lease-other-000000', { waitMs: 2_000 }), facts).next;
    const waiting = queuedBehind(other, 5_000);
    expect(waitOf([waiting], mine.leaseId)).toEqual({ since: startOfTime + 1_000, deadlineAt: startOfTime + 6_000 });
    expect(waitOf([other], mine.leaseId)).toBeUndefined();
  });

  it('counts a holder from when it queued, and has no end if the lease is in no queue', () => {
    const waiting = queuedBehind(theirs, 60_000);
    const release = { kind: 'release' as const, leaseId: 'lease-theirs-00000' };
    const granted = decide(waiting, release, { ...facts, now: epochMs(startOfTime + 3_000) }).next;
    expect(waitOf([granted], mine.leaseId)).toEqual({ since: startOfTime + 1_000, deadlineAt: null });
  });
});
