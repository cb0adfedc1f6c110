import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { everyPermit, type LockState, unusedLock } from '../../../src/lock/state.ts';
import type { Item } from '../../../src/store/dynamodb/attributes.ts';
import {
  awaitedPartitionOf,
  fromLockItem,
  layoutKnown,
  listingKeyOf,
  lockItemKey,
  lockKeyOf,
  shardOf,
  toLockItem,
  ttlOf,
} from '../../../src/store/dynamodb/lock-item.ts';
import { retentionMsDefault } from '../../../src/store/dynamodb/lock-store.ts';
import { sessionDigest } from '../../../src/store/dynamodb/session-item.ts';
import { epochMs } from '../../../src/time/clock.ts';
import { acquireOf, startOfTime, worlds } from '../../support/lock-worlds.ts';
import { alice, bob, carol, LockStory } from '../lock/story.ts';

const key = { namespace: 'shop', name: 'order:7' };
const waiting = { waitMs: 60_000 };
const day = 86_400_000;
const itemOf = (state: LockState): Item => toLockItem(key, state, retentionMsDefault);
const ttlAfter = (ms: number) => (startOfTime + ms) / 1_000;
const endIn = (ms: number) => epochMs(startOfTime + ms);
const keys = { pk: 'shop/lock/order:7', sk: 'lock', lp: 'shop/locks/0', ln: 'order:7' };

describe("a lock's item", () => {
  it('has these attributes for a whole lock with waiters, pages and endings', () => {
    const fence = startOfTime + 2;
    const lock = new LockStory().after(
      acquireOf(carol),
      { kind: 'revoke', fence: startOfTime + 1, reason: 'stuck', by: 'olga' },
      acquireOf(alice, { owner: 'alice' }),
      acquireOf(bob, { ...waiting, owner: 'bob' }),
    );
    expect(itemOf({ ...lock.state, pages: { first: 7, last: 8 } })).toEqual({
      ...keys,
      r: 4,
      fence,
      lim: everyPermit,
      lv: 2,
      u: everyPermit,
      hb: 0,
      at: startOfTime,
      'h#0': { i: alice, o: 'alice', p: everyPermit, l: 10_000 },
      'f#0': fence,
      'a#0': startOfTime,
      'x#0': startOfTime + 10_000,
      q: [
        {
          ...{ i: bob, o: 'bob', p: everyPermit, l: 10_000, t: startOfTime },
          ...{ u: startOfTime + 60_000, k: startOfTime + 25_000, b: 130, g: 1 },
        },
      ],
      qb: 130,
      w: new Set([bob]),
      pf: 7,
      pl: 8,
      e0: carol,
      ed: { [carol]: { w: 'revoked', f: startOfTime + 1, r: 'stuck', b: 'olga' } },
      ap: 'awaited/1',
      as: startOfTime,
      ttl: ttlAfter(retentionMsDefault),
    });
  });

  it('has these attributes for the parts of a semaphore', () => {
    const { state } = new LockStory().after(
      acquireOf(alice, { limit: 3, permits: 2, owner: 'alice', lockDelayMs: 5, metadata: { job: 'nightly' } }),
    );
    expect(itemOf(state)).toEqual({
      ...keys,
      r: 1,
      fence: startOfTime + 1,
      lim: 3,
      lv: 2,
      u: 2,
      hb: 126,
      at: startOfTime,
      [`h#${alice}`]: {
        ...{ o: 'alice', p: 2, l: 10_000, d: 5, m: { job: 'nightly' } },
        ...{ a: startOfTime, x: startOfTime + 10_000, b: 126 },
      },
      [`f#${alice}`]: startOfTime + 1,
      q: [],
      qb: 0,
      ttl: ttlAfter(retentionMsDefault),
    });
  });

  it('under a session is never collected, and the index finds a whole lock by the session', () => {
    const bySession = { leaseMs: null, sessionId: 'session-1' };
    const whole = itemOf(new LockStory().after(acquireOf(alice, bySession)).state);
    expect(whole).toMatchObject({ 'h#0': { s: 'session-1' }, sp: sessionDigest('session-1') });
    for (const absent of ['ttl', 'x#0', 'ap']) expect(whole).not.toHaveProperty(absent);
    expect(whole['h#0']).not.toHaveProperty('l');
    const part = itemOf(new LockStory().after(acquireOf(alice, { ...bySession, limit: 3 })).state);
    expect(part).not.toHaveProperty('sp');
    expect(part).not.toHaveProperty('ttl');
    expect(part[`h#${alice}`]).not.toHaveProperty('x');
  });

  it('is in the index of awaited locks if all waiters are in pages, or a grant must be delivered', () => {
    const held = new LockStory().after(acquireOf(alice)).pass(10).after({ kind: 'renew', leaseId: alice }).state;
    expect(itemOf(held)).not.toHaveProperty('ap');
    expect(itemOf({ ...held, pages: { first: 8, last: 7 } })).not.toHaveProperty('as');
    expect(itemOf({ ...held, pages: { first: 7, last: 7 } })).toMatchObject({ ap: 'awaited/1', as: startOfTime + 10 });
    const notify = { type: 'task-token', token: 'token', always: true } as const;
    const delivered = new LockStory().after(acquireOf(alice, { notify })).pass(10);
    expect(itemOf(delivered.after({ kind: 'renew', leaseId: alice }).state)).toMatchObject({
      ap: 'awaited/1',
      as: startOfTime,
    });
  });

  it('comes back as the state that was written', () => {
    fc.assert(
      fc.property(worlds, ({ state }) => {
        if (state.rev > 0) expect(fromLockItem(itemOf(state))).toStrictEqual(state);
      }),
      { numRuns: 200 },
    );
    const pages = { first: 7, last: 8 };
    const notify = { type: 'durable-callback', id: 'id', always: true } as const;
    const { state } = new LockStory().after(
      acquireOf(alice, { mode: 'shared', notify }),
      acquireOf(bob, { mode: 'shared', leaseMs: null, sessionId: 'session-1' }),
    );
    const paged = { ...state, pages, ended: [{ leaseId: carol, how: 'deadlock', reason: '[]' }] } as const;
    expect(fromLockItem(itemOf(paged))).toEqual(paged);
    expect(fromLockItem(undefined)).toBe(unusedLock);
  });

  it('under a session has no end, even if an earlier holder left one', () => {
    const bySession = { leaseMs: null, sessionId: 'session-1' };
    const { state: whole } = new LockStory().after(acquireOf(alice, bySession));
    expect(fromLockItem({ ...itemOf(whole), 'x#0': startOfTime })).toEqual(whole);
    const { state: part } = new LockStory().after(acquireOf(alice, { ...bySession, limit: 3 }));
    const item = itemOf(part);
    const held = { ...(item[`h#${alice}`] as Item), x: startOfTime };
    expect(fromLockItem({ ...item, [`h#${alice}`]: held })).toEqual(part);
  });

  it('has the holders of parts in the order of their fences', () => {
    const { state } = new LockStory().after(acquireOf('lease-z', { limit: 3 }), acquireOf('lease-a', { limit: 3 }));
    const reversed = Object.fromEntries(Object.entries(itemOf(state)).reverse());
    expect(fromLockItem(reversed).holders.map(({ leaseId }) => leaseId)).toEqual(['lease-z', 'lease-a']);
  });

  it('of a free lock has no holder, even if a release left a null', () => {
    const { state } = new LockStory().after(acquireOf(alice), { kind: 'release', leaseId: alice });
    expect(fromLockItem({ ...itemOf(state), 'h#0': null, 'f#0': 5, e1: null })).toEqual(state);
  });

  const item = () => itemOf(new LockStory().after(acquireOf(alice), acquireOf(bob, waiting)).state);
  const revoked = { e0: carol, ed: { [carol]: { w: 'revoked' } } };

  it.each<[string, Item, string]>([
    ['a newer layout', { lv: layoutKnown + 1 }, 'a newer release wrote it (layout 3), and this one knows layout 2'],
    ['a fence that is a text', { fence: 'seven' }, '"fence" should be a whole number and is a string'],
    ['a missing limit', { lim: undefined }, '"lim" should be a whole number and is missing'],
    ['a missing revision', { r: undefined }, '"r" should be a whole number and is missing'],
    ['a missing time', { at: undefined }, '"at" should be a whole number and is missing'],
    ['a holder that is a text', { 'h#0': 'alice' }, '"h#…" should be a map and is a string'],
    ['a holder that is a list', { 'h#0': [] }, '"h#…" should be a map and is a list'],
    ['a holder without a fence', { 'f#0': undefined }, '"f#…" should be a whole number and is missing'],
    ['a holder without its beginning', { 'a#0': undefined }, '"a#…" should be a whole number and is missing'],
    ['a queue that is no list', { q: 'nobody' }, '"q" should be a list and is a string'],
    ['a waiter that is no map', { q: [null] }, '"q" should be a map and is null'],
    ['an ending that is no text', { e0: 5 }, '"an ending" should be a text and is a number'],
    ['notes that are no map', { e0: carol, ed: [] }, '"ed" should be a map and is a list'],
    ['a note that is no map', { e0: carol, ed: { [carol]: 'revoked' } }, '"ed" should be a map and is a string'],
    [
      'an unknown ending',
      { e0: carol, ed: { [carol]: { w: 'lost' } } },
      '"w" is none of released, expired, revoked, session-lost, deadlock',
    ],
    [
      'a note with a wrong fence',
      { ...revoked, ed: { [carol]: { w: 'revoked', f: 'x' } } },
      '"f" should be a whole number',
    ],
    ['a note with a wrong reason', { ...revoked, ed: { [carol]: { w: 'revoked', r: 5 } } }, '"r" should be a text'],
    ['a last page without a first', { pl: 8 }, '"pf" should be a whole number and is missing'],
    ['more permits than there are', { lim: 3 }, "can't be used"],
  ])('with %s fails closed and says why', (_what, damage, why) => {
    const read = () => fromLockItem({ ...item(), ...damage });
    expect(read).toThrow(expect.objectContaining({ code: 'unreadable' }));
    expect(read).toThrow(why);
  });

  it('is not made of a state that no rule makes', () => {
    const { state } = new LockStory().after(acquireOf(alice));
    expect(() => itemOf({ ...state, limit: 3 })).toThrow(expect.objectContaining({ code: 'unreadable' }));
  });

  it('of layout 1 is read with its whole queue, without the places that are struck out', () => {
    const lock = new LockStory().after(acquireOf(alice), acquireOf(bob, waiting), acquireOf(carol, waiting));
    const { r, lv: _, q, ...rest } = itemOf(lock.state);
    const [first, second] = q as [Item, Item];
    const inText = ['lease-of-dave-00000', 'dave', 5, 1_000, startOfTime, 2_000, 1_500, { m: { job: 'x' } }];
    const bySession = ['lease-of-erin-00000', 'erin', 5, null, startOfTime, 2_000, 1_500];
    const older = {
      ...rest,
      rev: r,
      q: [first, { ...second, k: 0 }],
      t: ['-', JSON.stringify(inText), JSON.stringify(bySession)],
    };
    const late = { queuedAt: startOfTime, deadlineAt: startOfTime + 2_000, presentUntil: startOfTime + 1_500 };
    expect(fromLockItem(older)).toEqual({
      ...lock.state,
      queue: [
        lock.state.queue[0],
        { leaseId: inText[0], owner: 'dave', permits: 5, leaseMs: 1_000, metadata: { job: 'x' }, ...late },
        { leaseId: bySession[0], owner: 'erin', permits: 5, leaseMs: null, ...late },
      ],
    });
    expect(fromLockItem({ ...rest, rev: r, q }).queue).toHaveLength(2);
    const newer = { ...rest, r, lv: layoutKnown, q: [first, { ...second, k: 0 }] };
    expect(fromLockItem(newer).queue, 'in layout 2 no place is struck out').toHaveLength(2);
    expect(() => fromLockItem({ ...older, t: [5] })).toThrow('"t" should be a text and is a number');
    expect(() => fromLockItem({ ...older, t: 'x' })).toThrow('"t" should be a list and is a string');
    expect(() => fromLockItem({ ...older, t: ['no list'] })).toThrow('a waiter is no list');
    expect(() => fromLockItem({ ...older, t: ['{}'] })).toThrow('a waiter is no list');
  });

  it('of layout 1 has the times of a part beside its slot', () => {
    const part = {
      'h#lease-1': { i: 'lease-1', o: 'me', p: 1, l: 1_000 },
      'f#lease-1': 5,
      'a#lease-1': 1,
      'x#lease-1': 2,
    };
    const older = { rev: 3, fence: 5, lim: 3, q: [], at: 1, ...part };
    expect(fromLockItem(older).holders).toEqual([
      { leaseId: 'lease-1', owner: 'me', permits: 1, leaseMs: 1_000, fence: 5, acquiredAt: 1, expiresAt: 2 },
    ]);
  });
});

describe('the keys of a lock', () => {
  it('are read back from its item, and from no other', () => {
    expect(lockKeyOf(lockItemKey(key))).toEqual(key);
    expect(lockKeyOf({ pk: 'shop/lock/order:7', sk: 'part/x' })).toBeUndefined();
    expect(lockKeyOf({ pk: 'shop/record/order:7', sk: 'lock' })).toBeUndefined();
    expect(lockKeyOf({ pk: 'shop/lock', sk: 'lock' })).toBeUndefined();
  });

  it('stay in the shard where they were put', () => {
    expect(['', 'a', 'order:7', 'lock', 'é'].map((name) => shardOf(name, 1_000_000))).toEqual([
      136_261, 2_220, 569_760, 637_378, 687_940,
    ]);
    expect(shardOf('a', 16)).toBe(12);
    expect(listingKeyOf(key)).toEqual({ listingPartition: 'shop/locks/0', listingName: 'order:7' });
    expect(awaitedPartitionOf(key)).toBe('awaited/1');
  });
});

describe('the time of collection', () => {
  it('is the retention after the last write, and at least a day after the last lease or wait', () => {
    expect(ttlOf(startOfTime, 5 * day)).toBe(ttlAfter(5 * day));
    expect(ttlOf(startOfTime, 5 * day, [endIn(4 * day)])).toBe(ttlAfter(5 * day));
    expect(ttlOf(startOfTime, 5 * day, [epochMs(0), endIn(6 * day)])).toBe(ttlAfter(7 * day));
  });

  it('counts every lease and every wait of the lock', () => {
    const week = 7 * day;
    const lock = new LockStory().after(
      acquireOf(alice, { leaseMs: week, limit: 3 }),
      acquireOf(bob, { limit: 3, leaseMs: 1_000 }),
    );
    expect(toLockItem(key, lock.state, 2 * day).ttl).toBe(ttlAfter(week + day));
    const awaited = new LockStory().after(acquireOf(alice), acquireOf(bob, { waitMs: week, attendMs: null }));
    expect(toLockItem(key, awaited.state, 2 * day).ttl).toBe(ttlAfter(week + day));
  });
});
