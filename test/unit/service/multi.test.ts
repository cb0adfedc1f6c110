import { describe, expect, it } from 'vitest';
import { lockLimits } from '../../../src/lock/limits.ts';
import { acquire } from '../../../src/service/acquire.ts';
import { apply } from '../../../src/service/apply.ts';
import type { LockContext } from '../../../src/service/context.ts';
import { release } from '../../../src/service/lease.ts';
import { acquireAll, renewAll } from '../../../src/service/multi.ts';
import { createSession } from '../../../src/service/sessions.ts';
import { leaseNameOf } from '../../../src/table/digest.ts';
import type { VirtualTime } from '../../../src/testing/virtual-time.ts';
import { afterWork, lockIn, refused } from '../../support/memory-table.ts';
import { serviceOnTable, watched } from './world.ts';

const namespace = 'test';
const both = {
  entries: [{ name: 'a' }, { name: 'b' }],
  leaseId: 'lease-of-both-0000',
  owner: 'both',
  leaseMs: 30_000,
  waitMs: 60_000,
};
const theirs = { leaseId: 'lease-of-theirs-00', owner: 'they', leaseMs: 60_000, waitMs: 0 };

const world = () => serviceOnTable();

const name = leaseNameOf(both.leaseId);

describe('acquireAll', () => {
  it('leaves to its other copies the locks that it cannot finish itself', async () => {
    const { time, table, locks } = world();
    await acquire(locks, { namespace, name: 'b' }, theirs);
    const first = acquireAll(locks, namespace, both);
    await time.advance(100);
    // Another host can't write to one of the locks.
    table.before = (operation, request) => {
      if (operation === 'UpdateItem' && lockIn(request) === 'b') throw new Error('out of reach');
    };
    await expect(acquireAll(locks, namespace, both)).rejects.toMatchObject({ code: 'unavailable' });
    table.before = undefined;
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
    const repeat = acquireAll(locks, namespace, both);
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
        apply(locks, { namespace, name: 'b' }, { kind: 'give-up', leaseId: name, deadlock: '[]' }),
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
    expect((await locks.store.read({ namespace, name: 'a' })).holders).toMatchObject([{ leaseId: name }]);
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
    expect((await locks.store.read({ namespace, name: 'a' })).holders).toMatchObject([{ leaseId: name }]);
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
    const { locks, table } = world();
    const { session } = await createSession(locks, namespace, { ttlMs: 60_000, owner: 'me' });
    const { sessionId } = session;
    table.take();
    const entries = [{ name: 'a', limit: 2 }, { name: 'b' }, { name: 'c', mode: 'shared' as const }];
    await acquireAll(locks, namespace, { entries, leaseId: both.leaseId, owner: 'me', waitMs: 0, sessionId });
    expect(table.take().filter((sent) => sent === 'PutItem part')).toHaveLength(2);
    expect((await locks.sessionStore.locksOf({ namespace, sessionId })).sort()).toEqual(['a', 'b', 'c']);
  });

  it('does not grant if a lock that it held already is lost in between', async () => {
    const { time, table, locks, newProcess } = world();
    const { store } = locks;
    await acquire(locks, { namespace, name: 'a' }, { ...theirs, leaseId: both.leaseId });
    // The first lock is lost between the read and the step that takes the other one.
    const other = newProcess();
    table.beforeNext('write together', () => release(other, { namespace, name: 'a' }, both));
    const outcome = acquireAll(locks, namespace, { ...both, waitMs: 0 });
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
    expect(locks.cache.seen({ namespace, name: 'a' })?.state.holders, 'the process remembers its write').toHaveLength(
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

  it('tell the waiters whom their step has granted something that was due, and not themselves', async () => {
    const { time, locks } = world();
    const told: [string, string[]][] = [];
    locks.grants.on(({ name: lock }, grantedTo) => told.push([lock, grantedTo.map(({ owner }) => owner)]));
    await acquire(locks, { namespace, name: 'a' }, { ...theirs, limit: 3, permits: 2, leaseMs: 1_000 });
    const parked = { waitMs: 60_000, notify: { type: 'event', ref: 'r' } } as const;
    await acquire(
      locks,
      { namespace, name: 'a' },
      { ...theirs, ...parked, leaseId: 'lease-of-a-waiter', limit: 3, permits: 2 },
    );
    await time.advance(1_000 + lockLimits.graceMs);
    const entries = [{ name: 'a', limit: 3, permits: 1 }, { name: 'b' }];
    expect(await acquireAll(locks, namespace, { ...both, entries, waitMs: 0 })).toMatchObject({ kind: 'granted' });
    expect(told).toEqual([['a', ['they']]]);
    await time.advance(1_000);
    await renewAll(locks, namespace, { leaseId: both.leaseId, names: ['a', 'b'] });
    expect(told).toHaveLength(1);
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
    const { time, table, locks, newProcess } = world();
    await acquire(locks, { namespace, name: 'a' }, { ...theirs, limit: 3 });
    const other = newProcess();
    table.meddle(
      'write together',
      afterWork(() => apply(other, { namespace, name: 'a' }, { kind: 'renew', leaseId: leaseNameOf(theirs.leaseId) })),
    );
    const entries = [{ name: 'a', limit: 3 }, { name: 'b' }];
    const asked = acquireAll(locks, namespace, { ...both, entries, waitMs: 0 }).catch((error) => error);
    await time.advance(10_000);
    expect(await asked).toMatchObject({
      code: 'conflict',
      message: 'Others kept writing to these locks for 10 tries.',
    });
    expect(table.take().filter((sent) => sent === 'write together')).toHaveLength(10);
  });

  it('are renewed by single leases at first, and by whole states after a refusal', async () => {
    const { time, table, locks } = world();
    await acquireAll(locks, namespace, both);
    table.requests.length = 0;
    table.meddle('write together', refused, 1);
    const renewed = renewAll(locks, namespace, { leaseId: both.leaseId, names: ['a', 'b'] });
    await time.advance(1_000);
    expect(await renewed).toMatchObject({ kind: 'granted' });
    const written = table.requests.flatMap(({ request }) =>
      'TransactItems' in request ? [request.TransactItems.map((item) => Object.keys(item)[0])] : [],
    );
    expect(written).toEqual([
      ['Update', 'Update'],
      ['Put', 'Put'],
    ]);
  });
});
