import { describe, expect, it } from 'vitest';
import type { LockCommand } from '../../../src/lock/commands.ts';
import { lockLimits } from '../../../src/lock/limits.ts';
import type { LockState } from '../../../src/lock/state.ts';
import { isAmongWaiters, predict } from '../../../src/service/predict.ts';
import { acquireOf, startOfTime } from '../../support/lock-worlds.ts';
import { alice, bob, carol, dave, LockStory } from '../lock/story.ts';

const waiting = { waitMs: 60_000 };
const facts = { now: startOfTime, graceMs: lockLimits.graceMs, frontLengthMax: 2 };
const part = { limit: 2, permits: 1 };

const after = (...commands: LockCommand[]): LockState => new LockStory().after(...commands).state;
const held = after(acquireOf(alice));
const awaited = after(acquireOf(alice), acquireOf(bob, waiting));
const full = after(acquireOf(alice), acquireOf(bob, waiting), acquireOf(carol, waiting));
const behind = { ...full, behind: { first: 7, last: 8 } };
const shared = after(acquireOf(alice, part), acquireOf(bob, part));
const sharedAwaited = after(acquireOf(alice, part), acquireOf(bob, part), acquireOf(carol, { ...part, ...waiting }));
const free = after(acquireOf(alice), { kind: 'release', leaseId: alice });
const underSession = after(acquireOf(alice, { leaseMs: null, sessionId: 'session' }));

const join = acquireOf(dave, waiting);
const parked = { ...waiting, attendMs: null, notify: { type: 'event', ref: 'somebody' } } as const;
const joinAsNew = { ...join, place: 'new' } as const;
const release = { kind: 'release', leaseId: alice } as const;

describe('a prediction', () => {
  it.each<[string, LockState, LockCommand, recent: string, old: string]>([
    ['a waiter that joins a lock without a queue', held, join, 'refused', 'read'],
    ['a waiter that joins a front', awaited, join, 'refused', 'refused'],
    [
      'a waiter that asks again later',
      awaited,
      acquireOf(bob, { waitMs: 1_000, attendMs: 30_000 }),
      'refused',
      'refused',
    ],
    ['a waiter that asks again and changes nothing', awaited, acquireOf(bob, waiting), 'read', 'read'],
    ['a waiter that asks again and waits in another way', awaited, acquireOf(bob, parked), 'refused', 'send'],
    ['a waiter that finds the front full', full, join, 'refused', 'refused'],
    ['a waiter behind the front', behind, join, 'read', 'read'],
    ['a new waiter behind the front', behind, joinAsNew, 'refused', 'read'],
    ['a caller that does not wait', held, acquireOf(dave), 'send', 'send'],
    ['a caller under a session', held, acquireOf(dave, { ...waiting, leaseMs: null, sessionId: 's' }), 'send', 'send'],
    ['a waiter for a session', underSession, join, 'send', 'send'],
    ['a waiter for a lock that was free', free, join, 'send', 'send'],
    ['a release of a whole lock', awaited, release, 'send', 'send'],
    ['a release of a whole lock if a page must move up', { ...behind, queue: [] }, release, 'refused', 'send'],
    ['a release of a part', shared, release, 'send', 'send'],
    ['a release of a part that others wait for', sharedAwaited, release, 'refused', 'send'],
    ['a release of a lease that is not known', sharedAwaited, { ...release, leaseId: dave }, 'send', 'send'],
    ['a refill', behind, { kind: 'refill' }, 'refused', 'send'],
    ['a renewal', held, { kind: 'renew', leaseId: alice }, 'send', 'send'],
    ['a sweep', held, { kind: 'sweep' }, 'send', 'send'],
  ])('for %s', (_, state, command, recent, old) => {
    const seen = { state, at: startOfTime };
    expect([predict(seen, command, facts, true), predict(seen, command, facts, false)]).toEqual([recent, old]);
  });

  it('is to send if nothing is known', () => {
    for (const command of [join, release, { kind: 'refill' } as const])
      expect(predict(undefined, command, facts, true)).toBe('send');
  });
});

describe('isAmongWaiters', () => {
  it('is true only for the release of a part that others wait for', () => {
    const all = [sharedAwaited, shared, awaited, { ...shared, behind: { first: 7, last: 7 } }, undefined];
    expect(all.map((state) => isAmongWaiters(state, release))).toEqual([true, false, false, true, false]);
    expect(isAmongWaiters(sharedAwaited, { kind: 'renew', leaseId: alice })).toBe(false);
    expect(isAmongWaiters(sharedAwaited, { ...release, leaseId: dave })).toBe(false);
  });
});
