/** Each direct write, compared with `decide` on a lock that a test has made step by step. */
import { describe, expect, it } from 'vitest';
import type { Acquire, LockCommand, Release, Renew } from '../../../src/lock/commands.ts';
import { lockLimits } from '../../../src/lock/limits.ts';
import { extrasWeight, type LockState, type Waiter } from '../../../src/lock/state.ts';
import { fromLockItem, layoutKnown, lockItemKey, toLockItem } from '../../../src/queue/lock-item.ts';
import { retentionMsDefault } from '../../../src/queue/lock-store.ts';
import {
  appendWaiter,
  attendPlace,
  grantIfFree,
  leavePlace,
  moveUpPages,
  openPage,
  releaseAndHandOff,
  releasePart,
  renewAllIfLive,
  renewPartIfLive,
} from '../../../src/queue/lock-writes.ts';
import { queueSizes } from '../../../src/queue/pages.ts';
import type { Update } from '../../../src/table/attributes.ts';
import { epochMs } from '../../../src/time/clock.ts';
import { ItemInMemory } from '../../support/item-in-memory.ts';
import { expectSameItem } from '../../support/lock-items.ts';
import { acquireOf } from '../../support/lock-worlds.ts';
import { alice, bob, carol, dave, LockStory } from '../lock/story.ts';

const key = { namespace: 'test', name: 'lock' };
const waiting = { waitMs: 60_000 };
const three = { limit: 3 };
const all = { limit: 3, permits: 3 };
const bySession = { leaseMs: null, sessionId: 'session-1' };
const behind = { first: 7, last: 8 };
const release = (leaseId: string): Release => ({ kind: 'release', leaseId });
const renew = (leaseId: string, leaseMs?: number): Renew => ({
  kind: 'renew',
  leaseId,
  ...(leaseMs === undefined ? {} : { leaseMs }),
});
/** Another story that begins with the state of this one. */
const withState = (lock: LockStory, more: Partial<LockState> = {}): LockStory => {
  const changed = new LockStory({ ...lock.state, ...more });
  changed.now = lock.now;
  return changed;
};

/** The item of the lock as it is now. */
function itemOf({ state }: LockStory, more: object = {}): ItemInMemory {
  const item = state.rev === 0 ? undefined : { ...toLockItem(key, state, retentionMsDefault), ...more };
  return new ItemInMemory(lockItemKey(key), item);
}

/** The update is applied, and leaves the state. Only a write that a holder makes sets the time of collection. */
function expectWritten(item: ItemInMemory, update: Update, next: LockState, keptFrom?: LockState): void {
  expect(item.apply(update)).toBe(true);
  const { usual: _, ...ruled } = fromLockItem(item.item);
  expect(ruled).toEqual(next);
  expectSameItem(item.item ?? {}, key, next, keptFrom);
}

function expectRefused(lock: LockStory, update: Update, more: object = {}): void {
  const item = itemOf(lock, more);
  const before = item.item;
  expect(item.apply(update)).toBe(false);
  expect(item.item).toEqual(before);
}

const factsOf = (lock: LockStory) => ({ now: lock.now, graceMs: lockLimits.graceMs });

describe('grantIfFree', () => {
  const grant = (lock: LockStory, command: Acquire) =>
    grantIfFree(key, command, factsOf(lock), { retentionMs: retentionMsDefault });
  const always = { notify: { type: 'task-token', token: 'token', always: true } } as const;
  const heavy = (leaseId: string, bytes: number) => {
    const command = acquireOf(leaseId, { ...three, metadata: { note: '' } });
    return { ...command, metadata: { note: 'x'.repeat(bytes - extrasWeight(command)) } };
  };

  it.each<[string, LockStory, Acquire]>([
    ['an unused lock', new LockStory(), acquireOf(alice)],
    ['an unused lock with all that can be asked for', new LockStory(), acquireOf(alice, { lockDelayMs: 5, ...always })],
    ['an unused lock under a session', new LockStory(), acquireOf(alice, bySession)],
    ['a part of an unused lock', new LockStory(), acquireOf(alice, three)],
    ['a part of an unused lock under a session', new LockStory(), acquireOf(alice, { ...three, ...bySession })],
    ['a lock that was released', new LockStory().after(acquireOf(bob), release(bob)), acquireOf(alice)],
    ['a lock that was a session’s', new LockStory().after(acquireOf(bob, bySession), release(bob)), acquireOf(alice)],
    ['a lock for a session', new LockStory().after(acquireOf(bob), release(bob)), acquireOf(alice, bySession)],
    ['a lock with another limit', new LockStory().after(acquireOf(bob), release(bob)), acquireOf(alice, three)],
    ['a free permit', new LockStory().after(acquireOf(bob, three)), acquireOf(alice, { ...three, permits: 2 })],
    [
      'a permit for a session',
      new LockStory().after(acquireOf(bob, three)),
      acquireOf(alice, { ...three, ...bySession }),
    ],
    [
      'a permit beside a session, for the same one',
      new LockStory().after(acquireOf(bob, { ...three, ...bySession })),
      acquireOf(alice, { ...three, ...bySession }),
    ],
    [
      'a lock whose pages have all moved up',
      withState(new LockStory().after(acquireOf(bob), release(bob)), { behind: { first: 8, last: 7 } }),
      acquireOf(alice),
    ],
    [
      'a permit if the holders just fit into the item',
      new LockStory().after(heavy(bob, lockLimits.holdersBytesMax / 2)),
      heavy(alice, lockLimits.holdersBytesMax / 2),
    ],
  ])('grants %s', (_what, given, command) => {
    const lock = withState(given);
    const item = itemOf(lock);
    const update = grant(lock.pass(10), command);
    lock.after(command);
    expect(lock.last?.answer.kind).toBe('granted');
    expectWritten(item, update, lock.state);
  });

  it.each<[string, LockStory, Acquire, object?]>([
    ['a lock that is held', new LockStory().after(acquireOf(bob)), acquireOf(alice)],
    ['a lock whose lease has expired', new LockStory().after(acquireOf(bob)).pass(60_000), acquireOf(alice)],
    ['the whole of a lock that is held in part', new LockStory().after(acquireOf(bob, three)), acquireOf(alice, all)],
    [
      'more permits than are free',
      new LockStory().after(acquireOf(bob, { ...three, permits: 2 })),
      acquireOf(alice, { ...three, permits: 2 }),
    ],
    ['a permit of another limit', new LockStory().after(acquireOf(bob, three)), acquireOf(alice, { limit: 4 })],
    [
      'a plain part beside a session',
      new LockStory().after(acquireOf(bob, { ...three, ...bySession })),
      acquireOf(alice, three),
    ],
    [
      'a permit that others wait for',
      new LockStory().after(acquireOf(bob, three), acquireOf(carol, { ...all, ...waiting })),
      acquireOf(alice, three),
    ],
    [
      'a permit that others wait for in pages',
      withState(new LockStory().after(acquireOf(bob, three)), { behind }),
      acquireOf(alice, three),
    ],
    ['a part that the lease has', new LockStory().after(acquireOf(alice, three)), acquireOf(alice, three)],
    ['a lease that was released', new LockStory().after(acquireOf(alice), release(alice)), acquireOf(alice)],
    [
      'a lease that was released before others',
      new LockStory().after(acquireOf(alice), release(alice), acquireOf(bob), release(bob)),
      acquireOf(alice),
    ],
    [
      'a lease of whose ending there is only a note',
      new LockStory().after(acquireOf(bob), release(bob)),
      acquireOf(alice),
      { ed: { [alice]: { w: 'revoked' } } },
    ],
    [
      'a permit if the holders would not fit into the item',
      new LockStory().after(heavy(bob, lockLimits.holdersBytesMax / 2)),
      heavy(alice, lockLimits.holdersBytesMax / 2 + 1),
    ],
    [
      'a lock of another layout',
      new LockStory().after(acquireOf(bob), release(bob)),
      acquireOf(alice),
      { lv: layoutKnown + 1 },
    ],
  ])('refuses %s', (_what, lock, command, more) => {
    expectRefused(lock, grant(lock, command), more);
  });
});

describe('grantIfFree under a session', () => {
  it('removes the end that an earlier holder left', () => {
    const lock = new LockStory().after(acquireOf(bob), release(bob));
    const item = itemOf(lock, { h0: null, a0: lock.now, x0: lock.now });
    const command = acquireOf(alice, bySession);
    expect(item.apply(grantIfFree(key, command, factsOf(lock), { retentionMs: retentionMsDefault }))).toBe(true);
    expect(item.item).not.toHaveProperty('x0');
  });
});

describe('the time of collection', () => {
  const hourMs = 3_600_000;

  it('is after the end of the lease that is granted or renewed, for any retention', () => {
    const grant = acquireOf(alice, { leaseMs: 86_400_000 });
    const lock = new LockStory();
    const item = itemOf(lock);
    item.apply(grantIfFree(key, grant, factsOf(lock), { retentionMs: hourMs }));
    expect(item.item?.ttl).toBe(toLockItem(key, lock.after(grant).state, hourMs).ttl);
    const longer = renew(alice, 2 * 86_400_000);
    item.apply(renewAllIfLive(longer, factsOf(lock), hourMs));
    expect(item.item?.ttl).toBe(toLockItem(key, lock.after(longer).state, hourMs).ttl);
  });
});

describe('a renewal', () => {
  const ofWhole = (lock: LockStory, command: Renew) => renewAllIfLive(command, factsOf(lock), retentionMsDefault);
  const ofPart = (lock: LockStory, command: Renew, isSame = false) =>
    renewPartIfLive(command, factsOf(lock), { retentionMs: retentionMsDefault, isSame });
  const whole = () => new LockStory().after(acquireOf(alice));
  /** The first of two holders has what is usual, and the second a length of its own. */
  const part = () => new LockStory().after(acquireOf(bob, three), acquireOf(alice, { ...three, leaseMs: 20_000 }));

  it.each([
    ['a lease', whole(), ofWhole, alice, undefined],
    ['a lease for longer', whole(), ofWhole, alice, 86_400_000],
    ['a part', part(), ofPart, alice, undefined],
    ['a part for longer', part(), ofPart, alice, 86_400_000],
    ['a usual part', part(), ofPart, bob, undefined],
  ])('extends %s', (_what, given, renewal, leaseId, leaseMs) => {
    const lock = withState(given);
    const item = itemOf(lock);
    const update = renewal(lock.pass(9_999), renew(leaseId, leaseMs));
    expectWritten(item, update, lock.after(renew(leaseId, leaseMs)).state);
  });

  it('extends a usual part by the length that it was seen with, and is refused another length', () => {
    const lock = part();
    const item = itemOf(lock);
    expect(item.apply(ofPart(lock.pass(1), renew(bob, 5_000)))).toBe(false);
    expectWritten(item, ofPart(lock, renew(bob, 10_000), true), lock.after(renew(bob, 10_000)).state);
  });

  it.each<[string, LockStory, string, typeof ofWhole, object?]>([
    ['another lease', whole(), bob, ofWhole],
    ['a part that is not held', part(), carol, ofPart],
    ['a lease at its end', whole().pass(10_000), alice, ofWhole],
    ['a part at its end', part().pass(20_000), alice, ofPart],
    ['a lease that was written later', whole().pass(-1), alice, ofWhole],
    ['a part that was written later', part().pass(-1), alice, ofPart],
    ['a part beside a session', part().after(acquireOf(carol, { ...three, ...bySession })), alice, ofPart],
    ['a lease in another layout', whole(), alice, ofWhole, { lv: layoutKnown + 1 }],
    ['a part in another layout', part(), alice, ofPart, { lv: layoutKnown + 1 }],
  ])('refuses %s', (_what, lock, leaseId, renewal, more) => {
    expectRefused(lock, renewal(lock, renew(leaseId)), more);
  });
});

describe('a usual holder of a part', () => {
  const usual = { owner: 'me', permits: 1, leaseMs: 10_000 };
  const mine = (leaseId: string, more: object = {}) => acquireOf(leaseId, { ...three, owner: 'me', ...more });
  const grant = (lock: LockStory, command: Acquire, known = usual) =>
    grantIfFree(key, command, factsOf(lock), { retentionMs: retentionMsDefault, usual: known });

  it('is written without what is usual, and means the same', () => {
    const lock = new LockStory().after(mine(bob));
    const item = itemOf(lock);
    expectWritten(item, grant(lock, mine(alice)), lock.after(mine(alice)).state);
    expect(item.item?.[`h-${alice}`]).toEqual([lock.now, lock.now + 10_000]);
  });

  it('is refused if something else is usual by now', () => {
    expectRefused(new LockStory().after(mine(bob, { owner: 'other' })), grant(new LockStory(), mine(alice)));
  });

  it.each([{ owner: 'other' }, { permits: 2 }, { leaseMs: 5_000 }, { metadata: { job: 'nightly' } }])(
    'has everything if it differs: %j',
    (more) => {
      const lock = new LockStory().after(mine(bob));
      const item = itemOf(lock);
      expectWritten(item, grant(lock, mine(alice, more)), lock.after(mine(alice, more)).state);
    },
  );
});

describe('releaseAndHandOff', () => {
  const handOff = (lock: LockStory, leaseId = alice) =>
    releaseAndHandOff(release(leaseId), factsOf(lock), retentionMsDefault);
  const held = (...more: Acquire[]) => new LockStory().after(acquireOf(alice), ...more);

  it.each([
    ['frees a lock that nobody waits for', held()],
    ['frees the lock of a session', new LockStory().after(acquireOf(alice, bySession))],
    ['frees a lock whose pages have all moved up', withState(held(), { behind: { first: 8, last: 7 } })],
    [
      'remembers a few endings',
      new LockStory().after(acquireOf(bob), release(bob), acquireOf(dave), release(dave), acquireOf(alice)),
    ],
    ['grants to the first waiter', held(acquireOf(bob, waiting), acquireOf(carol, waiting))],
    ['grants to the first waiter before the pages', withState(held(acquireOf(bob, waiting)), { behind })],
  ])('%s', (_what, given) => {
    const lock = withState(given);
    const item = itemOf(lock);
    const update = handOff(lock.pass(10));
    expectWritten(item, update, lock.after(release(alice)).state);
    expect(item.item).not.toHaveProperty('sp');
  });

  it.each<[string, LockStory, string?, object?]>([
    ['another lease', held(), bob],
    ['an expired lease, which must learn that it was late', held().pass(60_000)],
    ['if the first waiter is absent', held(acquireOf(bob, { ...waiting, attendMs: 100 })).pass(100)],
    [
      'if the first waiter wants a part',
      new LockStory().after(acquireOf(alice, all), acquireOf(bob, { ...three, ...waiting })),
    ],
    ['if the first waiter has a session', held(acquireOf(bob, { ...waiting, ...bySession }))],
    ['if all waiters are in pages', withState(held(), { behind })],
    ['in another layout', held(), alice, { lv: layoutKnown + 1 }],
  ])('is refused for %s', (_what, lock, leaseId, more) => {
    expectRefused(lock, handOff(lock, leaseId), more);
  });
});

describe('releasePart', () => {
  const releasing = (lock: LockStory, leaseId = alice) =>
    releasePart(release(leaseId), factsOf(lock), retentionMsDefault);
  const parts = () =>
    new LockStory().after(acquireOf(bob, three), acquireOf(alice, { ...three, owner: 'a longer name' }));

  it('frees its permits and its bytes, and remembers the ending', () => {
    const lock = parts();
    const item = itemOf(lock);
    const update = releasing(lock.pass(10));
    expectWritten(item, update, lock.after(release(alice)).state);
  });

  it.each<[string, LockStory, string?, object?]>([
    ['a lease without a part', parts(), carol],
    ['an expired part, whose holder must learn that it was late', parts().pass(60_000)],
    ['a lock that others wait for', parts().after(acquireOf(carol, { ...all, ...waiting }))],
    ['a lock that others wait for in pages', withState(parts(), { behind })],
    ['a lock of which a session holds a part', parts().after(acquireOf(carol, { ...three, ...bySession }))],
    ['a lock of another layout', parts(), alice, { lv: layoutKnown + 1 }],
  ])('refuses %s', (_what, lock, leaseId, more) => {
    expectRefused(lock, releasing(lock, leaseId), more);
  });
});

const held = (...more: Acquire[]) => new LockStory().after(acquireOf(alice), ...more);
const asWaiter = (leaseId: string, more: Partial<Waiter> = {}): Waiter => ({
  ...(held(acquireOf(dave, waiting)).state.queue[0] as Waiter),
  leaseId,
  ...more,
});

describe('appendWaiter', () => {
  const arrival = (waiter: Waiter, limit: number = waiter.permits) => ({
    waiter,
    limit,
    frontLengthMax: queueSizes.front,
  });

  it.each([
    ['a lock that is held', held()],
    ['a lock that others wait for', held(acquireOf(bob, waiting))],
    ['a lock whose pages have all moved up', withState(held(), { behind: { first: 8, last: 7 } })],
    ['a lock that has become free with a queue', withState(held(acquireOf(bob, waiting)), { holders: [] })],
  ])('queues for %s', (_what, lock) => {
    const before = lock.state;
    const item = itemOf(lock);
    const waiter = { ...asWaiter(dave), metadata: { job: 'nightly' }, queuedAt: lock.now };
    const next = { ...before, rev: before.rev + 1, changedAt: lock.now, queue: [...before.queue, waiter] };
    expectWritten(item, appendWaiter(key, arrival(waiter)), next, before);
    expect(item.apply(appendWaiter(key, arrival(waiter))), 'the same waiter again').toBe(false);
  });

  const semaphore = (...more: Acquire[]) => new LockStory().after(acquireOf(alice, three), ...more);
  const partWaiter = (leaseId: string, permits: number) => arrival(asWaiter(leaseId, { permits }), three.limit);

  it('queues for more permits than are free, and is refused if they fit', () => {
    expect(itemOf(semaphore()).apply(appendWaiter(key, partWaiter(dave, 3)))).toBe(true);
    expectRefused(semaphore(), appendWaiter(key, partWaiter(dave, 2)));
  });

  it.each<[string, LockStory, ReturnType<typeof arrival>, object?]>([
    ['an unused lock', new LockStory(), arrival(asWaiter(dave))],
    ['another limit', held(), arrival(asWaiter(dave), 3)],
    ['the holder of the whole lock', held(), arrival(asWaiter(alice))],
    ['the holder of a part', semaphore(), partWaiter(alice, 3)],
    ['a lease that was released', held(acquireOf(bob, waiting)).after(release(bob)), arrival(asWaiter(bob))],
    [
      'a lease of whose ending there is only a note',
      held(),
      arrival(asWaiter(bob)),
      { ed: { [bob]: { w: 'revoked' } } },
    ],
    ['a lock with pages', withState(held(), { behind }), arrival(asWaiter(dave))],
    ['a lock of another layout', held(), arrival(asWaiter(dave)), { lv: layoutKnown + 1 }],
  ])('refuses %s', (_what, lock, asked, more) => {
    expectRefused(lock, appendWaiter(key, asked), more);
  });

  it('takes as many waiters as the front has places', () => {
    const lock = held(acquireOf(bob, waiting), acquireOf(carol, waiting));
    const append = (frontLengthMax: number) => appendWaiter(key, { ...arrival(asWaiter(dave)), frontLengthMax });
    expect(itemOf(lock).apply(append(3))).toBe(true);
    expectRefused(lock, append(2));
  });
});

describe('openPage', () => {
  const full = () => held(acquireOf(bob, waiting), acquireOf(carol, waiting));
  const open = (seen: LockState['behind'], limit = asWaiter(dave).permits) =>
    openPage(key, { waiter: asWaiter(dave), limit, frontLengthMax: 2 }, seen);

  it.each([
    ['first', full(), undefined, { first: full().now, last: full().now }],
    ['next', withState(full(), { behind }), behind, { first: 7, last: 9 }],
    [
      'next after all have moved up',
      withState(full(), { behind: { first: 9, last: 8 } }),
      { first: 9, last: 8 },
      { first: 9, last: 9 },
    ],
    ['next if the front is empty', withState(held(), { behind }), behind, { first: 7, last: 9 }],
  ])('names the %s page', (_which, lock, seen, opened) => {
    const item = itemOf(lock);
    const { state } = lock;
    const next = { ...state, rev: state.rev + 1, changedAt: lock.now, behind: opened };
    expectWritten(item, open(seen), next, state);
  });

  it.each<[string, LockStory, LockState['behind'], (number | undefined)?, object?]>([
    ['for another limit', full(), undefined, 3],
    ['if there is a page that was not seen', withState(full(), { behind }), undefined],
    ['if there is another page than was seen', withState(full(), { behind }), { first: 7, last: 7 }],
    ['if the front has room', held(acquireOf(bob, waiting)), undefined],
    ['if the lock is free', new LockStory().after(acquireOf(bob), release(bob)), undefined],
    ['of another layout', full(), undefined, undefined, { lv: layoutKnown + 1 }],
  ])('is refused %s', (_why, lock, seen, limit, more) => {
    expectRefused(lock, open(seen, limit), more);
  });
});

describe('moveUpPages', () => {
  const paged = (span = behind) => withState(held(acquireOf(bob, waiting)), { behind: span });
  const move = (waiters: readonly Waiter[], { now }: LockStory, to = 8) => moveUpPages({ from: 7, to, waiters }, now);

  it.each([
    ['two waiters of a page', [asWaiter(carol), asWaiter(dave)], 8],
    ['nobody, if all of several pages are gone', [], 9],
  ])('appends %s', (_what, waiters, to) => {
    const lock = paged();
    const { state } = lock;
    const item = itemOf(lock);
    lock.pass(10);
    const queue = [...state.queue, ...waiters];
    const next = { ...state, rev: state.rev + 1, changedAt: lock.now, queue, behind: { ...behind, first: to } };
    expectWritten(item, move(waiters, lock, to), next, state);
  });

  it.each<[string, LockStory, object?]>([
    ['if another page is the first', paged({ first: 8, last: 8 })],
    ['if there never were pages', held(acquireOf(bob, waiting))],
    ['of another layout', paged(), { lv: layoutKnown + 1 }],
  ])('is refused %s', (_why, lock, more) => {
    expectRefused(lock, move([asWaiter(carol)], lock), more);
  });
});

describe('attendPlace and leavePlace', () => {
  const onSocket = { ...waiting, attendMs: null, notify: { type: 'websocket', connectionId: 'one' } } as const;
  const queued = () => held(acquireOf(bob, waiting), acquireOf(carol, waiting), acquireOf(dave, onSocket));
  const place = (lock: LockStory, index: number) => lock.state.queue[index] as Waiter;
  const longer = (waiter: Waiter): Waiter => ({ ...waiter, deadlineAt: epochMs(waiter.deadlineAt + 1) });
  const earlier = ({ queuedAt, deadlineAt, ...rest }: Waiter): Waiter => ({
    ...rest,
    queuedAt: epochMs(queuedAt - 1),
    deadlineAt: epochMs(deadlineAt - 1),
  });

  it.each<[number, LockCommand]>([
    [1, acquireOf(carol, waiting)],
    [2, { kind: 'step-away', leaseId: dave, connectionId: 'one' }],
  ])('write until when the waiter at %i is present', (index, command) => {
    const lock = queued();
    const item = itemOf(lock);
    const before = lock.state;
    lock.pass(10).after(command);
    expectWritten(item, attendPlace(index, place(lock, index), lock.now), lock.state, before);
  });

  it.each([true, false])('remove a waiter that is not the first, remembered: %s', (isRemembered) => {
    const lock = queued();
    const item = itemOf(lock);
    const before = lock.state;
    const update = leavePlace(1, place(lock, 1), isRemembered, lock.pass(10).now);
    lock.after(isRemembered ? release(carol) : { kind: 'give-up', leaseId: carol });
    expectWritten(item, update, lock.state, before);
  });

  it.each<[string, (lock: LockStory) => Update, object?]>([
    ['a place of another', (lock) => attendPlace(2, place(lock, 1), lock.now)],
    ['a poll of a parked waiter', (lock) => attendPlace(2, asWaiter(dave), lock.now)],
    [
      'another connection',
      (lock) => attendPlace(2, { ...place(lock, 2), notify: { type: 'websocket', connectionId: 'two' } }, lock.now),
    ],
    ['a place in another layout', (lock) => attendPlace(1, place(lock, 1), lock.now), { lv: layoutKnown + 1 }],
    ['a later wait of the same lease', (lock) => attendPlace(1, earlier(place(lock, 1)), lock.now)],
    ['to remove a later wait of the same lease', (lock) => leavePlace(1, earlier(place(lock, 1)), true, lock.now)],
    ['a wait of another length', (lock) => attendPlace(1, longer(place(lock, 1)), lock.now)],
    ['to remove a wait of another length', (lock) => leavePlace(1, longer(place(lock, 1)), true, lock.now)],
    ['to remove the first', (lock) => leavePlace(0, place(lock, 0), true, lock.now)],
    ['to remove another', (lock) => leavePlace(2, place(lock, 1), true, lock.now)],
  ])('refuse %s', (_what, updateFor, more) => {
    const lock = queued();
    expectRefused(lock, updateFor(lock), more);
  });
});
