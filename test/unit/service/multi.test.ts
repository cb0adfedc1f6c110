import { describe, expect, it } from 'vitest';
import { lockLimits } from '../../../src/lock/limits.ts';
import type { LockStore } from '../../../src/queue/lock-store.ts';
import { acquire } from '../../../src/service/acquire.ts';
import { apply } from '../../../src/service/apply.ts';
import type { LockContext } from '../../../src/service/context.ts';
import { release } from '../../../src/service/lease.ts';
import { acquireAll, renewAll } from '../../../src/service/multi.ts';
import { createSession } from '../../../src/service/sessions.ts';
import { StoreError } from '../../../src/table/store-error.ts';
import { memoryService } from '../../../src/testing/memory-service.ts';
import { seededRandom, VirtualTime } from '../../../src/testing/virtual-time.ts';
import { watched } from './world.ts';

const namespace = 'test';
const both = {
  entries: [{ name: 'a' }, { name: 'b' }],
  leaseId: 'lease-of-both-0000',
  owner: 'both',
  leaseMs: 30_000,
  waitMs: 60_000,
};
const theirs = { leaseId: 'lease-of-theirs-00', owner: 'they', leaseMs: 60_000, waitMs: 0 };

const reach = <T>({ name }: { name: string }, unreachable: string, write: () => Promise<T>): Promise<T> =>
  name === unreachable ? Promise.reject(new StoreError('unavailable', 'The store did not answer.')) : write();

/** The same store, as seen by a host that can't reach one of the locks. */
const without = (store: LockStore, unreachable: string): LockStore => ({
  read: (key) => store.read(key),
  look: (key) => store.look(key),
  readMany: (keys) => store.readMany(keys),
  attempt: (key, command, facts) => reach(key, unreachable, () => store.attempt(key, command, facts)),
  enqueue: (key, arrival) => reach(key, unreachable, () => store.enqueue(key, arrival)),
  openPage: (key, arrival, seen) => reach(key, unreachable, () => store.openPage(key, arrival, seen)),
  moveUp: (key, pages, now) => reach(key, unreachable, () => store.moveUp(key, pages, now)),
  readPages: (pages) => store.readPages(pages),
  appendToPage: (page, joining, sizes) => store.appendToPage(page, joining, sizes),
  attendInPage: (page, attendance) => store.attendInPage(page, attendance),
  stepAwayInPage: (page, absence) => store.stepAwayInPage(page, absence),
  leavePage: (page, leaseId, how, now) => store.leavePage(page, leaseId, how, now),
  closePage: (page, now) => store.closePage(page, now),
  attend: (key, index, waiter, now) => reach(key, unreachable, () => store.attend(key, index, waiter, now)),
  leave: (key, index, waiter, isRemembered, now) => store.leave(key, index, waiter, isRemembered, now),
  swap: (key, next) => store.swap(key, next),
  swapAll: (swaps) => store.swapAll(swaps),
  list: (within, page) => store.list(within, page),
});

function world(): { time: VirtualTime; locks: LockContext } {
  const time = new VirtualTime();
  return { time, locks: memoryService(time, seededRandom(1), () => {}).service.locks };
}

describe('acquireAll', () => {
  it('leaves to its other copies the locks that it cannot finish itself', async () => {
    const { time, locks } = world();
    await acquire(locks, { namespace, name: 'b' }, theirs);
    const first = acquireAll(locks, namespace, both);
    await time.advance(100);
    const cutOff = { ...locks, store: without(locks.store, 'b') };
    await expect(acquireAll(cutOff, namespace, both)).rejects.toMatchObject({ code: 'unavailable' });
    await release(locks, { namespace, name: 'b' }, theirs);
    await time.advance(1_000);
    expect(await first).toMatchObject({ kind: 'granted' });
  });

  it('keeps the deadline of its first request, even if a repeat has another one', async () => {
    const { time, locks } = world();
    await acquire(locks, { namespace, name: 'b' }, theirs);
    const first = acquireAll(locks, namespace, both);
    await time.advance(locks.pollMs);
    expect(await first).toMatchObject({ kind: 'waiting', waitRemainingMs: 60_000 - locks.pollMs });
    const repeat = acquireAll(locks, namespace, { ...both, waitMs: 60_000 - locks.pollMs });
    await time.advance(locks.pollMs);
    expect(await repeat).toMatchObject({ kind: 'waiting', waitRemainingMs: 60_000 - 2 * locks.pollMs });
  });

  it('answers when its poll is over, counted from the request, on whichever lock it waits by then', async () => {
    const { time, locks } = world();
    for (const name of ['a', 'b']) await acquire(locks, { namespace, name }, theirs);
    const asked = watched(acquireAll(locks, namespace, both));
    await time.advance(locks.pollMs - 5_000);
    await release(locks, { namespace, name: 'a' }, theirs);
    await time.advance(4_900);
    expect(asked.done).toBe(false);
    await time.advance(200);
    expect(asked.done).toBe(true);
    expect(await asked.promise).toMatchObject({ kind: 'waiting', name: 'b' });
  });

  it.each([
    ['ran out', async (time: VirtualTime) => time.advance(60_000)],
    [
      'was ended to break a deadlock',
      (_: VirtualTime, locks: LockContext) =>
        apply(locks, { namespace, name: 'b' }, { kind: 'give-up', leaseId: both.leaseId, deadlock: '[]' }),
    ],
  ])('holds nothing if its wait %s between two polls', async (_how, end) => {
    const { time, locks } = world();
    await acquire(locks, { namespace, name: 'b' }, { ...theirs, leaseMs: 600_000 });
    const first = acquireAll(locks, namespace, { ...both, leaseMs: 300_000 });
    await time.advance(locks.pollMs + 100);
    expect(await first).toMatchObject({ kind: 'waiting', name: 'b' });
    await end(time, locks);
    expect(await acquireAll(locks, namespace, { ...both, leaseMs: 300_000 })).toMatchObject({ kind: 'refused' });
    expect((await locks.store.read({ namespace, name: 'a' })).holders).toEqual([]);
  });

  it('keeps the locks that it has between two polls, even if the lease is short', async () => {
    const { time, locks } = world();
    await acquire(locks, { namespace, name: 'b' }, theirs);
    const first = acquireAll(locks, namespace, { ...both, leaseMs: 1_000 });
    await time.advance(locks.pollMs);
    expect(await first).toMatchObject({ kind: 'waiting', name: 'b' });
    // As long as a polling waiter may stay away without losing its place.
    await time.advance(lockLimits.waiterAbsenceMs - 100);
    const barging = acquire(locks, { namespace, name: 'a' }, { ...theirs, leaseId: 'lease-of-barger-00' });
    expect(await barging).toMatchObject({ answer: { kind: 'held' } });
  });

  it('takes locks in the order of their names, whatever the order of the request', async () => {
    const { time, locks } = world();
    await acquire(locks, { namespace, name: 'b' }, theirs);
    void acquireAll(locks, namespace, { ...both, entries: [{ name: 'b' }, { name: 'a' }] });
    await time.advance(100);
    expect((await locks.store.read({ namespace, name: 'a' })).holders).toMatchObject([{ leaseId: both.leaseId }]);
  });

  it('waits for all locks together as long as it asked for, and not for each of them', async () => {
    const { time, locks } = world();
    for (const name of ['a', 'b']) await acquire(locks, { namespace, name }, { ...theirs, leaseMs: 600_000 });
    const asked = watched(acquireAll(locks, namespace, { ...both, waitMs: 10_000 }));
    await time.advance(8_000);
    await release(locks, { namespace, name: 'a' }, theirs);
    await time.advance(2_000);
    expect(asked.done).toBe(true);
    expect(await asked.promise).toMatchObject({ kind: 'refused', refusals: [{ name: 'b' }] });
  });

  it('keeps what it has if its caller is gone, because a repeat goes on from there', async () => {
    const { time, locks } = world();
    await acquire(locks, { namespace, name: 'b' }, theirs);
    const gone = new AbortController();
    const asked = acquireAll(locks, namespace, both, gone.signal);
    await time.advance(100);
    gone.abort();
    await time.settle();
    await asked;
    expect((await locks.store.read({ namespace, name: 'a' })).holders).toMatchObject([{ leaseId: both.leaseId }]);
  });

  it('gives back the other locks if one was revoked while it gathered them', async () => {
    const { time, locks } = world();
    await acquire(locks, { namespace, name: 'b' }, theirs);
    const asked = acquireAll(locks, namespace, both);
    await time.advance(100);
    const [holder] = (await locks.store.read({ namespace, name: 'a' })).holders;
    await apply(locks, { namespace, name: 'a' }, { kind: 'revoke', fence: holder?.fence ?? 0, reason: 'stuck' });
    await release(locks, { namespace, name: 'b' }, theirs);
    await time.advance(1_000);
    expect(await asked).toMatchObject({ kind: 'refused', refusals: [{ name: 'a', answer: { reason: 'revoked' } }] });
    expect((await locks.store.read({ namespace, name: 'b' })).holders).toEqual([]);
  });

  it('notes the parts of locks that it takes under a session, so that the end of the session finds them', async () => {
    const { locks } = world();
    const { session } = await createSession(locks, namespace, { ttlMs: 60_000, owner: 'me' });
    const { sessionId } = session;
    const noted: string[] = [];
    locks.sessionStore.notePart = async (_key, lock) => void noted.push(lock);
    const entries = [{ name: 'a', limit: 2 }, { name: 'b' }, { name: 'c', mode: 'shared' as const }];
    await acquireAll(locks, namespace, { entries, leaseId: both.leaseId, owner: 'me', waitMs: 0, sessionId });
    expect(noted.sort()).toEqual(['a', 'c']);
  });

  it('does not grant if a lock that it held already is lost in between', async () => {
    const { time, locks } = world();
    const { store } = locks;
    await acquire(locks, { namespace, name: 'a' }, { ...theirs, leaseId: both.leaseId });
    const [held] = await store.readMany([{ namespace, name: 'a' }]);
    expect(held?.holders).toHaveLength(1);
    // An operator revokes the first lock between the read and the step that takes the other one.
    let revoked = false;
    const meddled: LockStore = {
      ...without(store, ''),
      swapAll: async (swaps) => {
        if (!revoked) await release(locks, { namespace, name: 'a' }, both);
        revoked = true;
        return store.swapAll(swaps);
      },
    };
    const outcome = acquireAll({ ...locks, store: meddled }, namespace, { ...both, waitMs: 0 });
    await time.advance(5_000);
    expect(await outcome).toMatchObject({ kind: 'refused', refusals: [{ name: 'a' }] });
    expect((await store.read({ namespace, name: 'b' })).holders).toEqual([]);
  });
});

describe('several locks', () => {
  const held = async ({ store }: LockContext) =>
    (await Promise.all(['a', 'b'].map((name) => store.read({ namespace, name })))).flatMap(({ holders }) =>
      holders.map(({ owner, expiresAt }) => ({ owner, expiresAt })),
    );

  it('are granted in one step, with what was asked for and the default lease', async () => {
    const { time, locks } = world();
    const entries = [
      { name: 'a', limit: 3, permits: 2 },
      { name: 'b', mode: 'shared' as const },
    ];
    const granted = await acquireAll(locks, namespace, { entries, leaseId: both.leaseId, owner: 'both', waitMs: 0 });
    expect(granted).toMatchObject({
      kind: 'granted',
      waitedMs: 0,
      holders: [
        { permits: 2, leaseMs: lockLimits.leaseMsDefault, expiresAt: time.now() + lockLimits.leaseMsDefault },
        { permits: 1, mode: 'shared' },
      ],
    });
    expect(locks.memory.seen({ namespace, name: 'a' })?.state.holders, 'the process remembers its write').toHaveLength(
      1,
    );
  });

  it('are refused together if one is held and nobody waits', async () => {
    const { locks } = world();
    await acquire(locks, { namespace, name: 'b' }, theirs);
    const refused = await acquireAll(locks, namespace, { ...both, waitMs: 0 });
    expect(refused).toMatchObject({
      kind: 'refused',
      refusals: [{ name: 'b', answer: { kind: 'held' } }],
      waitedMs: 0,
    });
    expect(await held(locks)).toMatchObject([{ owner: 'they' }]);
  });

  it('are not waited for if waiting can not help', async () => {
    const { locks } = world();
    await acquire(locks, { namespace, name: 'a' }, { ...theirs, limit: 3 });
    const entries = [{ name: 'a', limit: 4 }, { name: 'b' }];
    expect(await acquireAll(locks, namespace, { ...both, entries })).toMatchObject({
      kind: 'refused',
      refusals: [{ name: 'a', answer: { kind: 'limit-mismatch' } }],
    });
  });

  it('are granted after a wait with the lease that was asked for, counted from the grant', async () => {
    const { time, locks } = world();
    await acquire(locks, { namespace, name: 'b' }, theirs);
    const asked = acquireAll(locks, namespace, { ...both, leaseMs: 5_000 });
    await time.advance(1_000);
    await release(locks, { namespace, name: 'b' }, theirs);
    await time.advance(100);
    expect(await asked).toMatchObject({ kind: 'granted', waitedMs: 1_000 });
    const endsAt = time.now() - 100 + 5_000;
    expect((await held(locks)).map(({ expiresAt }) => expiresAt)).toEqual([endsAt, endsAt]);
  });

  it('keep what they have alive while they wait, and nothing is left to do after the answer', async () => {
    const { time, locks } = world();
    await acquire(locks, { namespace, name: 'b' }, { ...theirs, leaseMs: 60_000 });
    const asked = acquireAll(locks, namespace, both);
    await time.advance(19_000);
    const [mine] = await held(locks);
    // Renewed at a third of the lease, so at least two thirds are left.
    expect((mine?.expiresAt ?? 0) - time.now()).toBeGreaterThanOrEqual(20_000);
    await time.advance(1_000);
    expect(await asked).toMatchObject({ kind: 'waiting' });
    expect(time.nextAt).toBeUndefined();
  });

  it('are lost with their session, and others may take what was gathered', async () => {
    const { time, locks } = world();
    const { session } = await createSession(locks, namespace, { ttlMs: 60_000, owner: 'both' });
    const key = { namespace, sessionId: session.sessionId };
    const { leaseMs: _, ...bound } = { ...both, sessionId: session.sessionId };
    await acquire(locks, { namespace, name: 'b' }, theirs);
    const asked = acquireAll(locks, namespace, bound);
    await time.advance(100);
    expect(await held(locks)).toMatchObject([{ owner: 'both', expiresAt: null }, { owner: 'they' }]);
    await locks.sessionStore.end(key, time.now());
    await release(locks, { namespace, name: 'b' }, theirs);
    await time.advance(locks.pollMs);
    expect(await asked).toEqual({ kind: 'session-lost' });
    for (const name of ['a', 'b']) {
      const other = { ...theirs, leaseId: 'lease-of-a-third-0' };
      expect(await acquire(locks, { namespace, name }, other)).toMatchObject({ answer: { kind: 'granted' } });
    }
    expect(await acquireAll(locks, namespace, { ...bound, waitMs: 0 })).toEqual({ kind: 'session-lost' });
  });

  it('are granted after a wait under a session that is alive', async () => {
    const { time, locks } = world();
    const { session } = await createSession(locks, namespace, { ttlMs: 60_000, owner: 'both' });
    const { leaseMs: _, ...bound } = { ...both, sessionId: session.sessionId };
    await acquire(locks, { namespace, name: 'b' }, theirs);
    const asked = acquireAll(locks, namespace, bound);
    await time.advance(100);
    await release(locks, { namespace, name: 'b' }, theirs);
    await time.advance(100);
    expect(await asked).toMatchObject({
      kind: 'granted',
      waitedMs: 100,
      holders: [{ leaseMs: null }, { leaseMs: null }],
    });
  });

  it('end with the session that they name, and else have their own end', async () => {
    const { locks } = world();
    const { session } = await createSession(locks, namespace, { ttlMs: 60_000, owner: 'both' });
    const { leaseMs: _, ...bound } = { ...both, waitMs: 0, sessionId: session.sessionId };
    const under = { sessionId: session.sessionId, leaseMs: null, expiresAt: null };
    const granted = await acquireAll(locks, namespace, bound);
    expect(granted).toMatchObject({ kind: 'granted', holders: [under, under] });
    const free = { ...both, entries: [{ name: 'c' }], leaseId: theirs.leaseId, waitMs: 0 };
    const [holder] = ((await acquireAll(locks, namespace, free)) as { holders?: object[] }).holders ?? [];
    expect(holder).not.toHaveProperty('sessionId');
    expect(holder).not.toHaveProperty('mode');
  });

  it('are announced as a hand-off when they are granted, and not when they are renewed', async () => {
    const { time, locks } = world();
    const heard: string[] = [];
    locks.memory.onHandOff(({ name }) => heard.push(name));
    await acquireAll(locks, namespace, both);
    expect(heard).toEqual(['a', 'b']);
    await time.advance(1_000);
    await renewAll(locks, namespace, { leaseId: both.leaseId, names: ['a', 'b'] });
    expect(heard).toEqual(['a', 'b']);
  });

  it('are renewed all or none', async () => {
    const { time, locks } = world();
    await acquireAll(locks, namespace, both);
    await time.advance(1_000);
    const names = ['a', 'b'];
    const renewed = await renewAll(locks, namespace, { leaseId: both.leaseId, names, leaseMs: 40_000 });
    expect(renewed).toMatchObject({ kind: 'granted', waitedMs: 0 });
    const endsAt = time.now() + 40_000;
    expect((await held(locks)).map(({ expiresAt }) => expiresAt)).toEqual([endsAt, endsAt]);
    await release(locks, { namespace, name: 'b' }, both);
    await time.advance(1_000);
    expect(await renewAll(locks, namespace, { leaseId: both.leaseId, names })).toMatchObject({
      kind: 'refused',
      refusals: [{ name: 'b', answer: { kind: 'lost', reason: 'released' } }],
    });
    expect((await held(locks)).map(({ expiresAt }) => expiresAt)).toEqual([endsAt]);
  });

  it('are tried again if others write in between, and given up after ten tries', async () => {
    const { time, locks } = world();
    let tries = 0;
    const swapAll = async () => {
      tries += 1;
      return false;
    };
    const busy: LockStore = { ...without(locks.store, ''), swapAll };
    const asked = acquireAll({ ...locks, store: busy }, namespace, { ...both, waitMs: 0 }).catch((error) => error);
    await time.advance(10_000);
    expect(await asked).toMatchObject({
      code: 'conflict',
      message: 'Others kept writing to these locks for 10 tries.',
    });
    expect(tries).toBe(10);
  });

  it('are renewed by single leases at first, and by whole states after a refusal', async () => {
    const { time, locks } = world();
    await acquireAll(locks, namespace, both);
    const sent: boolean[] = [];
    const store: LockStore = {
      ...without(locks.store, ''),
      swapAll: async (swaps) => {
        sent.push(swaps.every(({ renewal }) => renewal !== undefined));
        return sent.length > 1 && locks.store.swapAll(swaps);
      },
    };
    const renewed = renewAll({ ...locks, store }, namespace, { leaseId: both.leaseId, names: ['a', 'b'] });
    await time.advance(1_000);
    expect(await renewed).toMatchObject({ kind: 'granted' });
    expect(sent).toEqual([true, false]);
  });
});
