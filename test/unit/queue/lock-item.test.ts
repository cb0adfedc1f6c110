import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { itemBytes } from '../../../src/engine/values.ts';
import { everyPermit, type LockState, unusedLock } from '../../../src/lock/state.ts';
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
} from '../../../src/queue/lock-item.ts';
import { retentionMsDefault } from '../../../src/queue/lock-store.ts';
import type { Item } from '../../../src/table/attributes.ts';
import { digestOf, leaseNameOf } from '../../../src/table/digest.ts';
import { toStored } from '../../../src/table/json.ts';
import { epochMs } from '../../../src/time/clock.ts';
import { defined } from '../../../src/tools/collections.ts';
import { acquireOf, startOfTime, worlds } from '../../support/lock-worlds.ts';
import { alice, bob, carol, LockStory } from '../lock/story.ts';

const key = { namespace: 'shop', name: 'order:7' };
const waiting = { waitMs: 60_000 };
const day = 86_400_000;
const itemOf = (state: LockState): Item => toLockItem(key, state, retentionMsDefault);
const ttlAfter = (ms: number) => (startOfTime + ms) / 1_000;
const endIn = (ms: number) => epochMs(startOfTime + ms);
const keys = { pk: 'shop/lock/order:7', sk: 'lock', lp: 'shop/locks/0' };

describe("a lock's item", () => {
  it('has these attributes for a whole lock with waiters, pages and endings', () => {
    const fence = startOfTime + 2;
    const lock = new LockStory().after(
      acquireOf(carol),
      { kind: 'revoke', fence: startOfTime + 1, reason: 'stuck', by: 'olga' },
      acquireOf(alice, { owner: 'alice' }),
      acquireOf(bob, { ...waiting, owner: 'bob' }),
    );
    expect(itemOf({ ...lock.state, behind: { first: 7, last: 8 } })).toEqual({
      ...keys,
      r: 4,
      f: fence,
      m: everyPermit,
      lv: 1,
      u: everyPermit,
      at: startOfTime,
      h0: [alice, 'alice', everyPermit, 10_000, null],
      a0: startOfTime,
      x0: startOfTime + 10_000,
      q: [[bob, 'bob', everyPermit, 10_000, null, startOfTime, 60_000, startOfTime + 25_000, 1]],
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
    const extras = { d: 5, m: { job: 'nightly' } };
    expect(itemOf(state)).toEqual({
      ...keys,
      r: 1,
      f: startOfTime + 1,
      m: 3,
      lv: 1,
      u: 2,
      hb: 17,
      at: startOfTime,
      us: ['alice', 2, 10_000],
      [`h-${alice}`]: [startOfTime, startOfTime + 10_000, null, 'alice', 2, 10_000, extras, 17],
      [`f-${alice}`]: startOfTime + 1,
      q: [],
      ttl: ttlAfter(retentionMsDefault),
    });
  });

  it('has what most holders of a part have in common once', () => {
    const mine = (leaseId: string, more: object = {}) => acquireOf(leaseId, { limit: 4, owner: 'me', ...more });
    const lock = new LockStory().after(mine(alice), mine(bob), mine(carol, { owner: 'another' }));
    const item = itemOf(lock.state);
    expect(item).toMatchObject({ us: ['me', 1, 10_000], u: 3 });
    const times = [startOfTime, startOfTime + 10_000];
    expect([alice, bob, carol].map((lease) => item[`h-${lease}`])).toEqual([
      times,
      times,
      [...times, null, 'another', 1, 10_000, null],
    ]);
    // It stays usual as long as somebody has it.
    const { usual } = fromLockItem(item);
    const later = lock.after({ kind: 'release', leaseId: alice });
    expect(itemOf({ ...later.state, ...defined({ usual }) }).us).toEqual(['me', 1, 10_000]);
    later.after({ kind: 'release', leaseId: bob });
    expect(itemOf({ ...later.state, ...defined({ usual }) }).us).toEqual(['another', 1, 10_000]);
  });

  /** As DynamoDB counts: the names and values of what the holder adds. */
  it('takes at most 60 bytes for a usual holder of a part, also if it waited', () => {
    const name = leaseNameOf('any');
    const bytesOf = (more: object) =>
      itemBytes(toStored({ [`h-${name}`]: [startOfTime + 1, startOfTime + 30_001, ...Object.values(more)] })) +
      itemBytes(toStored({ [`f-${name}`]: startOfTime + 123 }));
    expect(bytesOf({})).toBeLessThanOrEqual(60);
    expect(bytesOf({ waitedMs: 899_999 })).toBeLessThanOrEqual(60);
  });

  it('with ten waiters takes less than one write unit, if owners have up to 14 characters', () => {
    const owner = 'worker-17:2481';
    const lock = new LockStory();
    for (let index = 0; index < 9; index += 1) {
      const leaseId = leaseNameOf(`earlier-${index}`);
      lock.after(acquireOf(leaseId, { owner }), { kind: 'release', leaseId });
    }
    for (let index = 0; index <= 10; index += 1)
      lock.after(acquireOf(leaseNameOf(`lease-${index}`), { ...waiting, owner, leaseMs: 30_000 }));
    expect(lock.state.queue).toHaveLength(10);
    const item = { ...itemOf({ ...lock.state, behind: { first: startOfTime, last: startOfTime + 4 } }) };
    expect(itemBytes(toStored(item))).toBeLessThanOrEqual(1_024);
  });

  it('under a session is never collected, and the index finds a whole lock by the session', () => {
    const bySession = { leaseMs: null, sessionId: 'session-1' };
    const whole = itemOf(new LockStory().after(acquireOf(alice, bySession)).state);
    expect(whole).toMatchObject({ sp: digestOf('session-1') });
    expect(whole.h0).toEqual([alice, `owner of ${alice}`, everyPermit, null, { s: 'session-1' }]);
    for (const absent of ['ttl', 'x0', 'ap']) expect(whole).not.toHaveProperty(absent);
    const part = itemOf(new LockStory().after(acquireOf(alice, { ...bySession, limit: 3 })).state);
    expect(part).not.toHaveProperty('sp');
    expect(part).not.toHaveProperty('ttl');
    expect((part[`h-${alice}`] as unknown[])[1]).toBeNull();
  });

  it('is in the index of awaited locks if all waiters are in pages, or a grant must be delivered', () => {
    const held = new LockStory().after(acquireOf(alice)).pass(10).after({ kind: 'renew', leaseId: alice }).state;
    expect(itemOf(held)).not.toHaveProperty('ap');
    expect(itemOf({ ...held, behind: { first: 8, last: 7 } })).not.toHaveProperty('as');
    expect(itemOf({ ...held, behind: { first: 7, last: 7 } })).toMatchObject({ ap: 'awaited/1', as: startOfTime + 10 });
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
        if (state.rev === 0) return;
        const { usual: _, ...read } = fromLockItem(itemOf(state));
        expect(read).toStrictEqual(state);
      }),
      { numRuns: 200 },
    );
    const behind = { first: 7, last: 8 };
    const notify = { type: 'durable-callback', id: 'id', always: true } as const;
    const { state } = new LockStory().after(
      acquireOf(alice, { mode: 'shared', notify }),
      acquireOf(bob, { mode: 'shared', leaseMs: null, sessionId: 'session-1' }),
    );
    const paged = { ...state, behind, ended: [{ leaseId: carol, how: 'deadlock', reason: '[]' }] } as const;
    expect(fromLockItem(itemOf(paged))).toMatchObject(paged);
    expect(fromLockItem(undefined)).toBe(unusedLock);
  });

  it('under a session has no end, even if an earlier holder left one', () => {
    const bySession = { leaseMs: null, sessionId: 'session-1' };
    const { state: whole } = new LockStory().after(acquireOf(alice, bySession));
    expect(fromLockItem({ ...itemOf(whole), x0: startOfTime })).toEqual(whole);
  });

  it('has the holders of parts in the order of their fences', () => {
    const { state } = new LockStory().after(acquireOf('lease-z', { limit: 3 }), acquireOf('lease-a', { limit: 3 }));
    const reversed = Object.fromEntries(Object.entries(itemOf(state)).reverse());
    expect(fromLockItem(reversed).holders.map(({ leaseId }) => leaseId)).toEqual(['lease-z', 'lease-a']);
  });

  it('of a free lock has no holder, even if a release left a null', () => {
    const { state } = new LockStory().after(acquireOf(alice), { kind: 'release', leaseId: alice });
    expect(fromLockItem({ ...itemOf(state), h0: null, x0: 5, e1: null })).toEqual(state);
  });

  const item = () => itemOf(new LockStory().after(acquireOf(alice), acquireOf(bob, waiting)).state);
  const revoked = { e0: carol, ed: { [carol]: { w: 'revoked' } } };

  it.each<[string, Item, string]>([
    ['a newer layout', { lv: layoutKnown + 1 }, 'a newer release wrote it (layout 2), and this one knows layout 1'],
    ['a fence that is a string', { f: 'seven' }, '"f" should be a whole number and is a string'],
    ['a missing limit', { m: undefined }, '"m" should be a whole number and is missing'],
    ['a missing revision', { r: undefined }, '"r" should be a whole number and is missing'],
    ['a missing time', { at: undefined }, '"at" should be a whole number and is missing'],
    ['a holder that is a string', { h0: 'alice' }, '"h0" should be a list and is a string'],
    ['a holder without a lease', { h0: [] }, '"leaseId" should be a string and is missing'],
    ['a holder of a part without a fence', { 'h-x': [1, 2] }, 'a holder has no owner'],
    ['a holder without its beginning', { a0: undefined }, '"a0" should be a whole number and is missing'],
    ['a queue that is not a list', { q: 'nobody' }, '"q" should be a list and is a string'],
    ['a waiter that is not a list', { q: [null] }, '"q" should be a list and is null'],
    ['an ending that is not a string', { e0: 5 }, '"an ending" should be a string and is a number'],
    ['notes that are not a map', { e0: carol, ed: [] }, '"ed" should be a map and is a list'],
    ['a note that is not a map', { e0: carol, ed: { [carol]: 'revoked' } }, '"ed" should be a map and is a string'],
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
    ['a note with a wrong reason', { ...revoked, ed: { [carol]: { w: 'revoked', r: 5 } } }, '"r" should be a string'],
    ['a last page without a first', { pl: 8 }, '"pf" should be a whole number and is missing'],
    ['more permits than there are', { m: 3 }, "can't be used"],
  ])('with %s fails closed and says why', (_what, damage, why) => {
    const read = () => fromLockItem({ ...item(), ...damage });
    expect(read).toThrow(expect.objectContaining({ code: 'unreadable' }));
    expect(read).toThrow(why);
  });

  it('is not made of a state that no rule makes', () => {
    const { state } = new LockStory().after(acquireOf(alice));
    expect(() => itemOf({ ...state, limit: 3 })).toThrow(expect.objectContaining({ code: 'unreadable' }));
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
    expect(listingKeyOf(key)).toEqual({ listingPartition: 'shop/locks/0' });
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
