/** Parking on a connection: it may end at that very moment, and the client asks again while nothing changes. */
import { describe, expect, it } from 'vitest';
import { lockLimits } from '../../../src/lock/limits.ts';
import type { QueueSizes } from '../../../src/queue/pages.ts';
import { type AcquireRequest, acquire } from '../../../src/service/acquire.ts';
import { apply } from '../../../src/service/apply.ts';
import { systemLockContext } from '../../../src/service/context.ts';
import { release } from '../../../src/service/lease.ts';
import { createSession } from '../../../src/service/sessions.ts';
import { acquireOnSocket, issueTicket, leaveConnection } from '../../../src/service/sockets.ts';
import { leaseNameOf } from '../../../src/table/digest.ts';
import { createWebsocketHandler } from '../../../src/websocket/handler.ts';
import { afterWork, outOfReach, thenDo } from '../../support/memory-table.ts';
import { key, serviceOnTable } from './world.ts';

const leaseId = 'lease-of-a-waiter-1';
const asked = { leaseId, owner: 'waiter', leaseMs: 10_000, waitMs: 60_000 } as const;
const holder = 'lease-of-the-holder';

type More = Partial<AcquireRequest>;

/** A lock that somebody holds, and a connection on which to wait for it. `claim`: how all of them ask. */
async function heldLock({ sizes, claim = {} }: { readonly sizes?: QueueSizes; readonly claim?: More } = {}) {
  const service = serviceOnTable({ sizes });
  const { time, table, sockets, elsewhere, locks: context } = service;
  const connect = (connectionId: string, namespace = key.namespace) =>
    elsewhere.watchers.add({ connectionId, namespace, caller: 'me', connectedAt: time.now(), subject: 'nothing' });
  const disconnect = (connectionId: string) => elsewhere.watchers.remove(connectionId);
  await connect('here');
  const parkMore = (connectionId: string, more: More, served = context) => {
    const notify = { type: 'websocket', connectionId } as const;
    return acquireOnSocket(served, sockets, key, { ...asked, ...claim, ...more, notify }, 'me');
  };
  const park = (connectionId: string, caller = 'me', more: More = {}) =>
    acquireOnSocket(context, sockets, key, { ...asked, ...more, notify: { type: 'websocket', connectionId } }, caller);
  await parkMore('here', { leaseId: holder, ...claim });
  /** Another process that serves. It remembers nothing of the lock. */
  const another = () => systemLockContext({ ...service, clock: time, timers: time, sizes, alone: false });
  const waiterOf = async (lease = leaseId) =>
    (await elsewhere.store.read(key)).queue.find((waiter) => waiter.leaseId === leaseNameOf(lease));
  const presentMs = async () => {
    const waiter = await waiterOf();
    return waiter === undefined ? undefined : waiter.presentUntil - time.now();
  };
  /** What was written since the last call. A write that is refused counts: it is billed. */
  const taken = () => table.take().filter((name) => !/read|peek|GetItem|Query/.test(name));
  const openSession = async (owner: string) =>
    (await createSession(context, key.namespace, { ttlMs: 600_000, owner })).session.sessionId;
  return { ...service, context, connect, disconnect, park, parkMore, another, waiterOf, presentMs, taken, openSession };
}

describe('the end of a connection', () => {
  it('is written before its waits are read, so a later wait finds it', async () => {
    const { table, context, sockets, watchers, elsewhere, park, presentMs } = await heldLock();
    const log = { info: () => {}, error: () => {} };
    const handler = createWebsocketHandler({ watchers, sockets, locks: context, needsTicket: true, log });
    await park('here');
    table.meddle(
      'Query',
      afterWork(async () => expect(await elsewhere.sockets.connection('here')).toBeUndefined()),
    );
    await handler.disconnect('here');
    expect(await presentMs()).toBe(lockLimits.waiterAbsenceMs);
  });
});

describe('a wait on a connection', () => {
  it('is refused to every caller except the owner of the connection', async () => {
    const { park, presentMs } = await heldLock();
    expect([await park('here', 'you'), await park('elsewhere')]).toEqual([undefined, undefined]);
    expect(await presentMs()).toBeUndefined();
  });

  it('does not begin if it can not be noted, because the end of the connection would not find it', async () => {
    const { table, park, presentMs } = await heldLock();
    table.meddle('PutItem parked wait', outOfReach);
    await expect(park('here')).rejects.toMatchObject({ code: 'unavailable' });
    expect(await presentMs()).toBeUndefined();
  });

  it('is absent if the connection ended before or after the wait was written', async () => {
    const { table, context, sockets, connect, disconnect, park, presentMs } = await heldLock();
    // Its end was handled a moment ago, and found no wait.
    table.meddle(
      'PutItem parked wait',
      thenDo(() => disconnect('here')),
      1,
    );
    await park('here');
    expect(await presentMs()).toBe(lockLimits.waiterAbsenceMs);
    await connect('there');
    await park('there');
    expect(await presentMs()).toBe(asked.waitMs);
    await leaveConnection(context, sockets, 'here', key.namespace);
    expect(await presentMs()).toBe(asked.waitMs);
    await leaveConnection(context, sockets, 'there', key.namespace);
    expect(await presentMs()).toBe(lockLimits.waiterAbsenceMs);
  });

  it('is noted by the name of its lease, and is refused on a connection of another namespace', async () => {
    const { sockets, connect, park } = await heldLock();
    await park('here');
    const waits = await sockets.waitsOn('here', key.namespace);
    expect(waits).toContainEqual({ key, leaseId: leaseNameOf(leaseId) });
    await connect('other', 'other');
    expect(await park('other')).toBeUndefined();
  });

  it('keeps what it got if the connection ended after the grant, because only a wait can be absent', async () => {
    const { table, store, disconnect, park } = await heldLock();
    const [before] = (await store.read(key)).holders;
    table.meddle(
      'PutItem parked wait',
      thenDo(() => disconnect('here')),
      1,
    );
    const acquired = await park('here', 'me', { leaseId: holder });
    expect(acquired).toMatchObject({ answer: { kind: 'granted' } });
    expect((await store.read(key)).holders).toMatchObject([{ fence: before?.fence, expiresAt: before?.expiresAt }]);
  });

  it('takes the place of its poll with one write to the lock, and none that is refused', async () => {
    const { time, context, parkMore, waiterOf, taken } = await heldLock();
    const polled = acquire(context, key, { ...asked, pollMs: 0 });
    await time.advance(1);
    expect((await polled).answer.kind).toBe('waiting');
    taken();
    expect(await parkMore('here', {})).toMatchObject({ answer: { kind: 'waiting', position: 1 } });
    expect(taken()).toEqual(['PutItem parked wait', 'replace']);
    const waiter = await waiterOf();
    expect(waiter?.presentUntil).toBe(waiter?.deadlineAt);
  });
});

describe('waits in pages on a connection', () => {
  async function parkedInPages() {
    const world = await heldLock({ sizes: { front: 1, page: 2 } });
    for (let index = 0; index < 4; index++) await world.park('here', 'me', { leaseId: `lease-of-waiter-${index}-000` });
    const { behind } = await world.store.read(key);
    const presentInPages = async () =>
      (
        await world.elsewhere.pages.read(
          [behind?.first ?? 0, behind?.last ?? 0].map((number) => ({ lock: key, number })),
        )
      )
        .flatMap(({ waiters }) => waiters)
        .map(({ presentUntil }) => presentUntil - world.time.now());
    return { ...world, presentInPages };
  }

  it('are absent after its end, and their pages are searched once for all of them', async () => {
    const { time, table, context, sockets, presentInPages, waiterOf } = await parkedInPages();
    expect(await presentInPages()).toEqual([asked.waitMs, asked.waitMs, asked.waitMs]);
    table.take();
    await leaveConnection(context, sockets, 'here', key.namespace);
    // The second search is for the lease that holds the lock, which no page knows.
    expect(table.take().filter((name) => name === 'read pages')).toHaveLength(2);
    const inFront = await waiterOf('lease-of-waiter-0-000');
    expect(inFront?.presentUntil).toBe(time.now() + lockLimits.waiterAbsenceMs);
    expect(await presentInPages()).toEqual(Array(3).fill(lockLimits.waiterAbsenceMs));
  });

  it('are absent if it ended before they were written, and the lock is not searched for them', async () => {
    const { table, disconnect, park, presentInPages } = await parkedInPages();
    table.meddle(
      'PutItem parked wait',
      thenDo(() => disconnect('here')),
      1,
    );
    table.take();
    await park('here', 'me', { leaseId: 'lease-of-a-late-one', place: 'new' });
    expect(table.take(), 'the answer names the page').not.toContain('read pages');
    expect((await presentInPages()).at(-1)).toBe(lockLimits.waiterAbsenceMs);
  });
});

describe('a ticket', () => {
  it('opens one connection of its owner within a minute, and nobody can guess it', async () => {
    const { time, sockets } = await heldLock();
    const owner = { namespace: key.namespace, caller: 'me' };
    const { ticket, expiresInMs } = await issueTicket(sockets, time, owner);
    expect(ticket).toMatch(/^[\w-]{32}$/);
    expect(expiresInMs).toBe(60_000);
    await time.advance(expiresInMs - 1);
    expect(await sockets.redeem(ticket, time.now())).toEqual(owner);
    expect(await sockets.redeem(ticket, time.now())).toBeUndefined();
    const late = await issueTicket(sockets, time, owner);
    await time.advance(expiresInMs);
    expect(await sockets.redeem(late.ticket, time.now())).toBeUndefined();
  });
});

describe('a parked wait that asks again', () => {
  const behind = { sizes: { front: 1, page: 4 } };

  it.each([
    ['in the front', {}],
    ['in a page', behind],
    ['for a part of a lock', { claim: { limit: 2, permits: 2 } }],
    ['as a writer', { claim: { mode: 'exclusive' } }],
  ] as const)('on the same connection writes nothing, and learns its place: %s', async (_, how) => {
    const { time, parkMore, another, taken } = await heldLock(how);
    await parkMore('here', { leaseId: 'lease-of-one-ahead' });
    const first = await parkMore('here', {});
    if (first?.answer.kind !== 'waiting') throw new Error('It does not wait.');
    const { waiter, place } = first.answer;
    expect(place !== undefined).toBe(how === behind);
    taken();
    await time.advance(5_000);
    // The SDK sends the place from the last answer, and what is left of its wait.
    const again = await parkMore('here', { place, waitMs: asked.waitMs - 5_000 }, another());
    expect(again).toMatchObject({ answer: { kind: 'waiting', position: 2, waiter }, etaMs: null });
    expect(again?.answer).toEqual(first.answer);
    expect(taken()).toEqual([]);
  });

  it.each([
    ['in the front', {}],
    ['in a page', behind],
  ])('is written to another connection if it names one: %s', async (_, how) => {
    const { context, sockets, connect, parkMore, another, taken } = await heldLock(how);
    await parkMore('here', { leaseId: 'lease-of-one-ahead' });
    const first = await parkMore('here', {});
    const place = first?.answer.kind === 'waiting' ? first.answer.place : undefined;
    await connect('there');
    taken();
    const again = await parkMore('there', { place }, another());
    expect(again?.answer).toMatchObject({ kind: 'waiting', waiter: { notify: { connectionId: 'there' } } });
    expect(taken()).toContain('PutItem parked wait');
    // Its old connection has nothing to do with it any more. The end of its new one makes it absent.
    await leaveConnection(context, sockets, 'here', key.namespace);
    taken();
    expect((await parkMore('there', { place }, another()))?.answer.kind).toBe('waiting');
    expect(taken()).toEqual([]);
  });

  it.each([
    ['in the front', {}],
    ['in a page', behind],
  ])('is written as present if it counted as absent: %s', async (_, how) => {
    const { time, context, parkMore, another, taken } = await heldLock(how);
    await parkMore('here', { leaseId: 'lease-of-one-ahead' });
    const first = await parkMore('here', {});
    const place = first?.answer.kind === 'waiting' ? first.answer.place : undefined;
    const absence = { kind: 'step-away', leaseId: leaseNameOf(leaseId), connectionId: 'here' } as const;
    await apply(context, key, place === undefined ? absence : { ...absence, place });
    taken();
    await time.advance(1_000);
    const again = await parkMore('here', { place }, another());
    const waiter = again?.answer.kind === 'waiting' ? again.answer.waiter : undefined;
    expect(waiter?.presentUntil).toBe(waiter?.deadlineAt);
    expect(taken()).not.toEqual([]);
  });

  it('is refused if the connection has ended, and does not become present by that', async () => {
    const { context, sockets, disconnect, park, presentMs, taken } = await heldLock();
    await park('here');
    await disconnect('here');
    taken();
    expect(await park('here')).toBeUndefined();
    expect(taken()).toEqual([]);
    await leaveConnection(context, sockets, 'here', key.namespace);
    expect(await park('here')).toBeUndefined();
    expect(await presentMs()).toBe(lockLimits.waiterAbsenceMs);
  });

  it('finds its grant, which is then known to be delivered', async () => {
    const { context, parkMore, another } = await heldLock();
    await parkMore('here', {});
    await release(context, key, { leaseId: holder });
    expect((await context.store.read(key)).holders[0]).toHaveProperty('notify');
    expect(await parkMore('here', {}, another())).toMatchObject({
      answer: { kind: 'granted', holder: { leaseId: leaseNameOf(leaseId) } },
    });
    expect((await context.store.read(key)).holders[0]).not.toHaveProperty('notify');
  });

  it('finds its grant if its page moved up in the meantime', async () => {
    const { context, parkMore, another } = await heldLock(behind);
    await parkMore('here', { leaseId: 'lease-of-one-ahead' });
    const first = await parkMore('here', {});
    const place = first?.answer.kind === 'waiting' ? first.answer.place : undefined;
    for (const held of [holder, 'lease-of-one-ahead']) await release(context, key, { leaseId: held });
    const again = await parkMore('here', { place }, another());
    expect(again).toMatchObject({ answer: { kind: 'granted', holder: { leaseId: leaseNameOf(leaseId) } } });
  });

  it.each([
    ['in the front', {}],
    ['in a page', behind],
  ])('finds that its wait has ended: %s', async (_, how) => {
    const { time, parkMore, another } = await heldLock({ ...how, claim: { leaseMs: 600_000 } });
    await parkMore('here', { leaseId: 'lease-of-one-ahead', waitMs: 600_000 });
    const first = await parkMore('here', {});
    const place = first?.answer.kind === 'waiting' ? first.answer.place : undefined;
    await time.advance(asked.waitMs);
    expect((await parkMore('here', { place }, another()))?.answer.kind).toBe('wait-timeout');
  });

  it('waits at the end if it was absent for too long, even if its old entry is still in the front', async () => {
    const { time, context, sockets, connect, parkMore, another } = await heldLock(behind);
    const first = await parkMore('here', {});
    expect(first).toMatchObject({ answer: { kind: 'waiting', position: 1 } });
    await connect('there');
    await parkMore('there', { leaseId: 'lease-of-one-behind' });
    await leaveConnection(context, sockets, 'here', key.namespace);
    await time.advance(lockLimits.waiterAbsenceMs);
    const again = await parkMore('here', {}, another());
    expect(again?.answer).toMatchObject({ kind: 'waiting', position: 2 });
    expect(again?.answer).toHaveProperty('place');
  });

  it('is written again if it has left the queue, and is told so if it gave its place back', async () => {
    const { context, parkMore, another, taken } = await heldLock();
    await parkMore('here', {});
    await apply(context, key, { kind: 'give-up', leaseId: leaseNameOf(leaseId) });
    taken();
    expect((await parkMore('here', {}, another()))?.answer.kind).toBe('waiting');
    expect(taken()).toContain('PutItem parked wait');
    await release(context, key, { leaseId });
    expect((await parkMore('here', {}, another()))?.answer).toEqual({ kind: 'lost', reason: 'released' });
  });
});

describe('a parked wait under a session that asks again', () => {
  const underSession = { leaseMs: undefined };

  it.each([
    ['a whole lock', {}],
    ['a part of a lock', { limit: 2, permits: 1 }],
  ])('writes nothing: %s', async (_, claim) => {
    const { parkMore, another, taken, openSession } = await heldLock({ claim });
    await parkMore('here', { leaseId: 'lease-of-one-ahead' });
    const sessionId = await openSession('me');
    const first = await parkMore('here', { ...underSession, sessionId });
    taken();
    const again = await parkMore('here', { ...underSession, sessionId }, another());
    expect(again?.answer).toMatchObject({ kind: 'waiting' });
    expect(again?.answer).toEqual(first?.answer);
    expect(taken()).toEqual([]);
  });

  it('learns that the session has ended', async () => {
    const { context, parkMore, another, openSession } = await heldLock();
    const sessionId = await openSession('me');
    await parkMore('here', { ...underSession, sessionId });
    await context.sessionStore.end({ namespace: key.namespace, sessionId }, context.clock.now());
    const again = await parkMore('here', { ...underSession, sessionId }, another());
    expect(again?.answer).toEqual({ kind: 'lost', reason: 'session_lost' });
  });

  it.each([
    ['in the front, although its session was seen alive a moment ago', undefined],
    ['in a page, which knows no sessions', { front: 1, page: 2 }],
  ])('learns that the session has ended, in the same process: %s', async (_, sizes) => {
    const { context, parkMore, openSession } = await heldLock(sizes === undefined ? {} : { sizes });
    const sessionId = await openSession('me');
    if (sizes !== undefined) await parkMore('here', { leaseId: 'lease-of-one-ahead' });
    const ask = async () => (await parkMore('here', { ...underSession, sessionId }))?.answer;
    expect([(await ask())?.kind, (await ask())?.kind]).toEqual(['waiting', 'waiting']);
    await context.sessionStore.end({ namespace: key.namespace, sessionId }, context.clock.now());
    expect(await ask()).toEqual({ kind: 'lost', reason: 'session_lost' });
  });

  it.each([
    ['nothing', undefined],
    ['only a wait of this lease for another lock', { lock: 'another', leaseId: leaseNameOf(leaseId) }],
    ['only a wait of another lease for this lock', { lock: key.name, leaseId: 'lease-of-another' }],
  ])('is noted again if the session knows %s', async (_, known) => {
    const { context, parkMore, another, taken, openSession } = await heldLock();
    const sessionId = await openSession('me');
    await parkMore('here', { ...underSession, sessionId });
    const session = { namespace: key.namespace, sessionId };
    await context.sessionStore.forgetWait(session, { lock: key.name, leaseId: leaseNameOf(leaseId) });
    if (known !== undefined) await context.sessionStore.noteWait(session, known);
    taken();
    await parkMore('here', { ...underSession, sessionId }, another());
    const [noted] = await context.sessionStore.read(key.namespace, [sessionId]);
    expect(noted?.waits).toContainEqual({ lock: key.name, leaseId: leaseNameOf(leaseId) });
  });

  it('leaves its page if the session has ended, and the pages are not searched for it', async () => {
    const { table, elsewhere, context, parkMore, another, openSession } = await heldLock({
      sizes: { front: 1, page: 4 },
    });
    await parkMore('here', { leaseId: 'lease-of-one-ahead' });
    const sessionId = await openSession('me');
    const first = await parkMore('here', { ...underSession, sessionId });
    const place = first?.answer.kind === 'waiting' ? first.answer.place : undefined;
    expect(place).toBeDefined();
    await context.sessionStore.end({ namespace: key.namespace, sessionId }, context.clock.now());
    table.take();
    const again = await parkMore('here', { ...underSession, sessionId, place }, another());
    expect(again?.answer).toEqual({ kind: 'lost', reason: 'session_lost' });
    const looks = table.take().filter((name) => name === 'read pages').length;
    const [page] = await elsewhere.pages.read([{ lock: key, number: place ?? 0 }]);
    expect([page?.waiters, looks]).toEqual([[], 1]);
  });

  it('does not begin if its part of the lock can not be noted, because later requests do not note it', async () => {
    const { table, parkMore, waiterOf, openSession } = await heldLock({ claim: { limit: 2, permits: 2 } });
    const sessionId = await openSession('me');
    table.meddle('PutItem part', outOfReach);
    const refused = parkMore('here', { ...underSession, sessionId, permits: 1 });
    await expect(refused).rejects.toMatchObject({ code: 'unavailable' });
    expect(await waiterOf()).toBeUndefined();
  });

  it('is searched for a deadlock again, because the first search may have failed', async () => {
    const { time, table, context, parkMore, openSession } = await heldLock();
    const [one, other] = [await openSession('one'), await openSession('other')];
    const take = (name: string, lease: string, more: More) =>
      acquire(context, { namespace: key.namespace, name }, { leaseId: lease, owner: 'me', waitMs: 0, ...more });
    await release(context, key, { leaseId: holder });
    await take(key.name, 'lease-of-one-here-0', { sessionId: one });
    await take('b', 'lease-of-other-b-000', { sessionId: other });
    const event = { waitMs: 60_000, notify: { type: 'event', ref: 'one' } } as const;
    await take('b', 'lease-of-one-b-00000', { sessionId: one, ...event });
    // The youngest wait is the victim.
    await time.advance(10);
    table.meddle('read many', outOfReach, 1);
    const unsearched = parkMore('here', { ...underSession, sessionId: other });
    await expect(unsearched).rejects.toMatchObject({ code: 'unavailable' });
    // This request finds the cycle. The next one is told of it.
    await parkMore('here', { ...underSession, sessionId: other });
    const told = await parkMore('here', { ...underSession, sessionId: other });
    expect(told?.answer.kind).toBe('deadlock');
  });
});
