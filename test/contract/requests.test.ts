import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, it } from 'vitest';
import type { LockKey } from '../../src/lock/state.ts';
import { serviceOn } from '../../src/process/wiring.ts';
import { queueSizes } from '../../src/queue/pages.ts';
import { acquire } from '../../src/service/acquire.ts';
import type { LockContext } from '../../src/service/context.ts';
import { release, renew } from '../../src/service/lease.ts';
import { inspect } from '../../src/service/look.ts';
import { acquireAll, renewAll } from '../../src/service/multi.ts';
import { createSession } from '../../src/service/sessions.ts';
import { acquireOnSocket } from '../../src/service/sockets.ts';
import { SocketStore } from '../../src/store/sockets.ts';
import { WatcherStore } from '../../src/store/watchers.ts';
import { epochMs } from '../../src/time/clock.ts';
import { exactOnly, type FreshTable, freshTable } from '../support/engine.ts';
import { eventually } from '../support/eventually.ts';
import { countRequests, type RequestCount } from '../support/request-count.ts';

let context: LockContext;
let access: FreshTable['access'];
let sent: RequestCount;

beforeAll(async () => {
  const fresh = await freshTable();
  access = fresh.access;
  sent = countRequests(fresh.client);
  context = serviceOn({ access, alone: true, engine: 'test' }).locks;
  sent.take();
});

const newKey = () => ({ namespace: 'count', name: randomUUID() });
/** On a busy machine, a test may take longer than the usual lease. */
const ask = (more: object = {}) => ({
  leaseId: randomUUID(),
  owner: 'me',
  leaseMs: 600_000,
  waitMs: 0,
  ...more,
});

describe('requests to the store', exactOnly('counts requests'), () => {
  it('are two writes and no read for an uncontended cycle of a mutex', async () => {
    const key = newKey();
    for (let cycle = 0; cycle < 3; cycle++) {
      const asked = ask();
      await acquire(context, key, asked);
      expect(sent.take()).toEqual({ reads: 0, writes: 1 });
      await renew(context, key, asked);
      expect(sent.take()).toEqual({ reads: 0, writes: 1 });
      await release(context, key, asked);
      expect(sent.take()).toEqual({ reads: 0, writes: 1 });
    }
  });

  it('are one read and one write under a session, also if the owner of the session must be found first', async () => {
    const fresh = serviceOn({ access, alone: false, engine: 'test' }).locks;
    const { session } = await createSession(context, 'count', { ttlMs: 600_000, owner: 'batch' });
    const { sessionId } = session;
    sent.take();
    for (let times = 0; times < 2; times++) {
      const asked = { ...ask({ sessionId, isOwnerDefault: true }), leaseMs: undefined };
      const { answer } = await acquire(fresh, newKey(), asked);
      expect(answer).toMatchObject({ kind: 'granted', holder: { owner: 'batch' } });
      expect(sent.take()).toEqual({ reads: 1, writes: 1 });
    }
  });

  it.each([
    ['a semaphore', { limit: 3 }],
    ['a reader', { mode: 'shared' as const }],
  ])('are just as few for %s', async (_kind, kind) => {
    const key = newKey();
    const [one, other] = [ask(kind), ask(kind)];
    await acquire(context, key, one);
    await acquire(context, key, other);
    await renew(context, key, one);
    await release(context, key, one);
    await release(context, key, other);
    expect(sent.take()).toEqual({ reads: 0, writes: 5 });
  });

  it('are one refused write for a try of a held lock', async () => {
    const key = newKey();
    await acquire(context, key, ask());
    sent.take();
    expect((await acquire(context, key, ask())).answer.kind).toBe('held');
    expect(sent.take()).toEqual({ reads: 0, writes: 1 });
  });

  it('are one write to wait for a lock that this process knows to be held', async () => {
    const key = newKey();
    const holder = ask();
    await acquire(context, key, holder);
    sent.take();
    expect((await acquire(context, key, ask({ waitMs: 60_000, pollMs: 0 }))).answer.kind).toBe('waiting');
    expect(sent.take()).toEqual({ reads: 0, writes: 1 });
  });

  const depthOf = async (key: LockKey) => (await inspect(context, key)).state.queue.length;

  it('are about one write to join and one for a hand-off, for any number of waiters, and none while they wait', async () => {
    const key = newKey();
    const first = ask();
    await acquire(context, key, first);
    const waiters = Array.from({ length: 30 }, () => ask({ waitMs: 60_000, place: 'new' as const }));
    sent.take();
    const grants = [];
    for (const [index, waiter] of waiters.entries()) {
      grants.push(acquire(context, key, waiter));
      await eventually(async () => expect(await depthOf(key)).toBeGreaterThan(index));
    }
    // One each, and for each page one that names it and one that was refused by the full page before it.
    const { page, front } = queueSizes;
    const pages = Math.ceil((waiters.length - front) / page);
    expect(sent.take().writes).toBeLessThanOrEqual(waiters.length + 2 * pages);
    let holder = first;
    let writes = 0;
    for (const [index, waiter] of waiters.entries()) {
      await release(context, key, holder);
      const granted = await grants[index];
      expect(granted?.answer.kind).toBe('granted');
      const { reads, writes: own } = sent.take();
      expect(reads).toBe(0);
      writes += own;
      holder = waiter;
    }
    // A page that moves up is closed, and then joins the front.
    expect(writes).toBe(waiters.length + 2 * pages);
  });

  it('do not multiply if many join the queue at once', async () => {
    const key = newKey();
    const first = ask();
    await acquire(context, key, first);
    sent.take();
    const crowd = Array.from({ length: 50 }, () => ask({ waitMs: 60_000, place: 'new' as const }));
    const grants = crowd.map((waiter) => acquire(context, key, waiter));
    await eventually(async () => expect(await depthOf(key)).toBe(crowd.length));
    // Arrivals commute: each joins the front or is refused by a full one, and joins a page that one of them opened.
    const pages = Math.ceil(crowd.length / queueSizes.page);
    expect(sent.take().writes).toBeLessThanOrEqual(3 * crowd.length + 2 * pages);
    await release(context, key, first);
    const order: string[] = [];
    await Promise.all(
      grants.map(async (grant, index) => {
        expect((await grant).answer.kind).toBe('granted');
        order.push((crowd[index] as { leaseId: string }).leaseId);
        await release(context, key, crowd[index] as { leaseId: string });
      }),
    );
    expect(new Set(order).size).toBe(crowd.length);
    expect(sent.take().writes).toBeLessThanOrEqual(crowd.length + 2 * Math.ceil(crowd.length / queueSizes.page) + 2);
  });

  it('are reads alone for a parked wait that asks again: the connection, and where it waits', async () => {
    const { client, access } = await freshTable();
    const counted = countRequests(client);
    // Each request is served by a process that remembers nothing.
    const another = () => serviceOn({ access, alone: false, engine: 'test' }).locks;
    const sockets = new SocketStore(access);
    const owner = { namespace: 'count', caller: 'me', connectionId: randomUUID() };
    await new WatcherStore(access).add({ ...owner, subject: 'nothing', connectedAt: epochMs(Date.now()) });
    const notify = { type: 'websocket' as const, connectionId: owner.connectionId };
    const key = newKey();
    await acquire(another(), key, ask());
    const waiters = Array.from({ length: queueSizes.front + 1 }, () => ask({ waitMs: 60_000 }));
    const parkAll = async (places: readonly (number | undefined)[]) => {
      const found: (number | undefined)[] = [];
      for (const [index, waiter] of waiters.entries()) {
        counted.take();
        const request = { ...waiter, notify, place: places[index] };
        const answer = (await acquireOnSocket(another(), sockets, key, request, 'me'))?.answer;
        expect(answer).toMatchObject({ kind: 'waiting', position: index + 1 });
        found.push(answer?.kind === 'waiting' ? answer.place : undefined);
        // In a page, the holders are read from the lock.
        if (places.length > 0) expect(counted.take()).toEqual({ writes: 0, reads: index < queueSizes.front ? 2 : 3 });
      }
      return found;
    };
    const places = await parkAll([]);
    expect(places.filter((place) => place !== undefined)).toHaveLength(1);
    expect(await parkAll(places)).toEqual(places);
  });

  it('are a few for 200 callers at once in the efficiency tier', async () => {
    const key = newKey();
    const tier = 'efficiency' as const;
    const callers = Array.from({ length: 200 }, () => ask({ tier }));
    const answers = await Promise.all(callers.map((caller) => acquire(context, key, caller)));
    const granted = answers.filter(({ answer }) => answer.kind === 'granted');
    expect(granted).toHaveLength(1);
    expect(answers.filter(({ answer }) => answer.kind === 'held')).toHaveLength(199);
    const { reads, writes } = sent.take();
    expect(reads + writes).toBeLessThanOrEqual(5);

    // A release is known at once: nobody is refused for the memory's sake.
    const winner = callers[answers.findIndex(({ answer }) => answer.kind === 'granted')] as { leaseId: string };
    await release(context, key, winner);
    expect((await acquire(context, key, ask({ tier }))).answer.kind).toBe('granted');
  });

  it('renew several locks by their own leases alone, even if many wait there', async () => {
    const { client, access } = await freshTable();
    const written: string[] = [];
    client.middlewareStack.add(
      (next) => (args) => {
        for (const item of (args.input as { TransactItems?: object[] }).TransactItems ?? []) {
          written.push(...Object.keys(item));
        }
        return next(args);
      },
      { step: 'initialize' },
    );
    const { locks } = serviceOn({ access, alone: true, engine: 'test' });
    const names = [randomUUID(), randomUUID()];
    const asked = { leaseId: randomUUID(), owner: 'me', waitMs: 0, entries: names.map((name) => ({ name })) };
    expect((await acquireAll(locks, 'count', asked)).kind).toBe('granted');
    const leaseOf = (name: string, index: number) => `waiter-${index}-of-${name}`;
    const parked = { waitMs: 60_000, notify: { type: 'event' as const, ref: 'r' } };
    for (const name of names) {
      for (let index = 0; index < 5; index++)
        await acquire(locks, { namespace: 'count', name }, ask({ ...parked, leaseId: leaseOf(name, index) }));
    }
    written.length = 0;
    const renewed = await renewAll(locks, 'count', { leaseId: asked.leaseId, names, leaseMs: 60_000 });
    expect(renewed.kind).toBe('granted');
    expect(written).toEqual(['Update', 'Update']);
    for (const name of names) expect((await locks.store.read({ namespace: 'count', name })).queue).toHaveLength(5);
  });
});
