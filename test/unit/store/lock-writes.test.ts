/** Each direct write, compared with `decide` on a lock that a test has made step by step. */
import { describe, expect, it } from 'vitest';
import type { Acquire, LockCommand, Release, Renew } from '../../../src/lock/commands.ts';
import { lockLimits } from '../../../src/lock/limits.ts';
import { queueSizes } from '../../../src/lock/pages.ts';
import { holderWeight, type LockState, queueWeight, type Waiter, weightOf } from '../../../src/lock/state.ts';
import type { Update } from '../../../src/store/dynamodb/attributes.ts';
import { exclusiveSlot, fromLockItem, lockItemKey, toLockItem } from '../../../src/store/dynamodb/lock-item.ts';
import { retentionMsDefault } from '../../../src/store/dynamodb/lock-store.ts';
import {
  appendWaiter,
  attendPlace,
  grantIfFree,
  leavePlace,
  moveUpPages,
  openPage,
  releaseAndHandOff,
  releasePart,
  renewIfLive,
} from '../../../src/store/dynamodb/lock-writes.ts';
import { ItemInMemory } from '../../support/item-in-memory.ts';
import { expectSameItem } from '../../support/lock-items.ts';
import { acquireOf } from '../../support/lock-worlds.ts';
import { alice, bob, carol, dave, LockStory } from '../lock/story.ts';

const key = { namespace: 'test', name: 'lock' };
const waiting = { waitMs: 60_000 };
const three = { limit: 3 };
const all = { limit: 3, permits: 3 };
const bySession = { leaseMs: null, sessionId: 'session-1' };
const pages = { first: 7, last: 8 };
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
  expect(fromLockItem(item.item)).toEqual(next);
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
  const grant = (lock: LockStory, command: Acquire) => grantIfFree(key, command, factsOf(lock), retentionMsDefault);
  const always = { notify: { type: 'task-token', token: 'token', always: true } } as const;
  const heavy = (leaseId: string, bytes: number) => {
    const command = acquireOf(leaseId, { ...three, metadata: { note: '' } });
    return { ...command, metadata: { note: 'x'.repeat(bytes - holderWeight({ ...command })) } };
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
      withState(new LockStory().after(acquireOf(bob), release(bob)), { pages: { first: 8, last: 7 } }),
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
      withState(new LockStory().after(acquireOf(bob, three)), { pages }),
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
    ['a lock of an older layout', new LockStory().after(acquireOf(bob), release(bob)), acquireOf(alice), { lv: 1 }],
  ])('refuses %s', (_what, lock, command, more) => {
    expectRefused(lock, grant(lock, command), more);
  });
});

describe('grantIfFree under a session', () => {
  it('removes the end that an earlier holder left', () => {
    const lock = new LockStory().after(acquireOf(bob), release(bob));
    const item = itemOf(lock, { 'h#0': null, 'f#0': lock.state.fence, 'a#0': lock.now, 'x#0': lock.now });
    const command = acquireOf(alice, bySession);
    expect(item.apply(grantIfFree(key, command, factsOf(lock), retentionMsDefault))).toBe(true);
    expect(item.item).not.toHaveProperty('x#0');
  });
});

describe('the time of collection', () => {
  const hourMs = 3_600_000;

  it('is after the end of the lease that is granted or renewed, for any retention', () => {
    const grant = acquireOf(alice, { leaseMs: 86_400_000 });
    const lock = new LockStory();
    const item = itemOf(lock);
    item.apply(grantIfFree(key, grant, factsOf(lock), hourMs));
    expect(item.item?.ttl).toBe(toLockItem(key, lock.after(grant).state, hourMs).ttl);
    const longer = renew(alice, 2 * 86_400_000);
    item.apply(renewIfLive(exclusiveSlot, longer, factsOf(lock), hourMs));
    expect(item.item?.ttl).toBe(toLockItem(key, lock.after(longer).state, hourMs).ttl);
  });
});

describe('renewIfLive', () => {
  const renewal = (lock: LockStory, command: Renew, slot = exclusiveSlot) =>
    renewIfLive(slot, command, factsOf(lock), retentionMsDefault);
  const whole = () => new LockStory().after(acquireOf(alice));
  const part = () => new LockStory().after(acquireOf(bob, three), acquireOf(alice, three));

  it.each([
    ['a lease', whole(), exclusiveSlot, undefined],
    ['a lease for longer', whole(), exclusiveSlot, 86_400_000],
    ['a part', part(), alice, undefined],
    ['a part for longer', part(), alice, 86_400_000],
  ])('extends %s', (_what, given, slot, leaseMs) => {
    const lock = withState(given);
    const item = itemOf(lock);
    const update = renewal(lock.pass(9_999), renew(alice, leaseMs), slot);
    expectWritten(item, update, lock.after(renew(alice, leaseMs)).state);
  });

  it.each<[string, LockStory, string, string, object?]>([
    ['another lease', whole(), bob, exclusiveSlot],
    ['a part that is not held', part(), carol, carol],
    ['a lease at its end', whole().pass(10_000), alice, exclusiveSlot],
    ['a part at its end', part().pass(10_000), alice, alice],
    ['a lease that was written later', whole().pass(-1), alice, exclusiveSlot],
    ['a part beside a session', part().after(acquireOf(carol, { ...three, ...bySession })), alice, alice],
    ['a lease in an older layout', whole(), alice, exclusiveSlot, { lv: 1 }],
    ['a part in an older layout', part(), alice, alice, { lv: 1 }],
  ])('refuses %s', (_what, lock, leaseId, slot, more) => {
    expectRefused(lock, renewal(lock, renew(leaseId), slot), more);
  });
});

describe('releaseAndHandOff', () => {
  const handOff = (lock: LockStory, leaseId = alice) =>
    releaseAndHandOff(release(leaseId), factsOf(lock), retentionMsDefault);
  const held = (...more: Acquire[]) => new LockStory().after(acquireOf(alice), ...more);

  it.each([
    ['frees a lock that nobody waits for', held()],
    ['frees the lock of a session', new LockStory().after(acquireOf(alice, bySession))],
    ['frees a lock whose pages have all moved up', withState(held(), { pages: { first: 8, last: 7 } })],
    [
      'remembers a few endings',
      new LockStory().after(acquireOf(bob), release(bob), acquireOf(dave), release(dave), acquireOf(alice)),
    ],
    ['grants to the first waiter', held(acquireOf(bob, waiting), acquireOf(carol, waiting))],
    ['grants to the first waiter before the pages', withState(held(acquireOf(bob, waiting)), { pages })],
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
    ['if all waiters are in pages', withState(held(), { pages })],
    ['in an older layout', held(), alice, { lv: 1 }],
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
    ['a lock that others wait for in pages', withState(parts(), { pages })],
    ['a lock of which a session holds a part', parts().after(acquireOf(carol, { ...three, ...bySession }))],
    ['a lock of an older layout', parts(), alice, { lv: 1 }],
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
  const arrival = (waiter: Waiter, limit: number = waiter.permits) => ({ waiter, limit, sizes: queueSizes });

  it.each([
    ['a lock that is held', held()],
    ['a lock that others wait for', held(acquireOf(bob, waiting))],
    ['a lock whose pages have all moved up', withState(held(), { pages: { first: 8, last: 7 } })],
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
    ['a lock with pages', withState(held(), { pages }), arrival(asWaiter(dave))],
    ['a lock of an older layout', held(), arrival(asWaiter(dave)), { lv: 1 }],
  ])('refuses %s', (_what, lock, asked, more) => {
    expectRefused(lock, appendWaiter(key, asked), more);
  });

  it('takes as many waiters as the front has places, and as many bytes', () => {
    const lock = held(acquireOf(bob, waiting), acquireOf(carol, waiting));
    const append = (front: number, waiter = asWaiter(dave)) =>
      appendWaiter(key, { ...arrival(waiter), sizes: { front, page: 8 } });
    expect(itemOf(lock).apply(append(3))).toBe(true);
    expectRefused(lock, append(2));
    const rest = lockLimits.frontBytesMax - queueWeight(lock.state.queue) - weightOf(asWaiter(dave, { owner: '' }));
    expect(itemOf(lock).apply(append(10, asWaiter(dave, { owner: 'x'.repeat(rest) })))).toBe(true);
    expectRefused(lock, append(10, asWaiter(dave, { owner: 'x'.repeat(rest + 1) })));
    const large = asWaiter(dave, { owner: 'x'.repeat(lockLimits.frontBytesMax) });
    expect(itemOf(held()).apply(append(10, large)), 'an empty front takes any waiter').toBe(true);
  });
});

describe('openPage', () => {
  const sizes = { front: 2, page: 8 };
  const full = () => held(acquireOf(bob, waiting), acquireOf(carol, waiting));
  const open = (seen: LockState['pages'], limit = asWaiter(dave).permits) =>
    openPage(key, { waiter: asWaiter(dave), limit, sizes }, seen);

  it.each([
    ['first', full(), undefined, { first: full().now, last: full().now }],
    ['next', withState(full(), { pages }), pages, { first: 7, last: 9 }],
    [
      'next after all have moved up',
      withState(full(), { pages: { first: 9, last: 8 } }),
      { first: 9, last: 8 },
      { first: 9, last: 9 },
    ],
    ['next if the front is empty', withState(held(), { pages }), pages, { first: 7, last: 9 }],
  ])('names the %s page', (_which, lock, seen, opened) => {
    const item = itemOf(lock);
    const { state } = lock;
    const next = { ...state, rev: state.rev + 1, changedAt: lock.now, pages: opened };
    expectWritten(item, open(seen), next, state);
  });

  it.each<[string, LockStory, LockState['pages'], (number | undefined)?, object?]>([
    ['for another limit', full(), undefined, 3],
    ['if there is a page that was not seen', withState(full(), { pages }), undefined],
    ['if there is another page than was seen', withState(full(), { pages }), { first: 7, last: 7 }],
    ['if the front has room', held(acquireOf(bob, waiting)), undefined],
    ['if the lock is free', new LockStory().after(acquireOf(bob), release(bob)), undefined],
    ['of an older layout', full(), undefined, undefined, { lv: 1 }],
  ])('is refused %s', (_why, lock, seen, limit, more) => {
    expectRefused(lock, open(seen, limit), more);
  });
});

describe('moveUpPages', () => {
  const paged = (span = pages) => withState(held(acquireOf(bob, waiting)), { pages: span });
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
    const next = { ...state, rev: state.rev + 1, changedAt: lock.now, queue, pages: { ...pages, first: to } };
    expectWritten(item, move(waiters, lock, to), next, state);
    expect(item.item?.w).toEqual(new Set(queue.map(({ leaseId }) => leaseId)));
  });

  it.each<[string, LockStory, object?]>([
    ['if another page is the first', paged({ first: 8, last: 8 })],
    ['if there never were pages', held(acquireOf(bob, waiting))],
    ['of an older layout', paged(), { lv: 1 }],
  ])('is refused %s', (_why, lock, more) => {
    expectRefused(lock, move([asWaiter(carol)], lock), more);
  });
});

describe('attendPlace and leavePlace', () => {
  const onSocket = { ...waiting, attendMs: null, notify: { type: 'websocket', connectionId: 'one' } } as const;
  const queued = () => held(acquireOf(bob, waiting), acquireOf(carol, waiting), acquireOf(dave, onSocket));
  const place = (lock: LockStory, index: number) => lock.state.queue[index] as Waiter;

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
    expect(item.item?.w).toEqual(new Set([bob, dave]));
  });

  it.each<[string, (lock: LockStory) => Update, object?]>([
    ['a place of another', (lock) => attendPlace(2, place(lock, 1), lock.now)],
    ['a poll of a parked waiter', (lock) => attendPlace(2, asWaiter(dave), lock.now)],
    [
      'another connection',
      (lock) => attendPlace(2, { ...place(lock, 2), notify: { type: 'websocket', connectionId: 'two' } }, lock.now),
    ],
    ['a place in an older layout', (lock) => attendPlace(1, place(lock, 1), lock.now), { lv: 1 }],
    ['to remove the first', (lock) => leavePlace(0, place(lock, 0), true, lock.now)],
    ['to remove another', (lock) => leavePlace(2, place(lock, 1), true, lock.now)],
  ])('refuse %s', (_what, updateFor, more) => {
    const lock = queued();
    expectRefused(lock, updateFor(lock), more);
  });
});
