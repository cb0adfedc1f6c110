/** Parking on a connection that ends at that very moment. */
import { describe, expect, it } from 'vitest';
import { lockLimits } from '../../../src/lock/limits.ts';
import type { QueueSizes } from '../../../src/lock/pages.ts';
import { systemLockContext } from '../../../src/service/context.ts';
import { acquireOnSocket, issueTicket, leaveConnection } from '../../../src/service/sockets.ts';
import { MemoryLockStore } from '../../../src/store/memory/lock-store.ts';
import { MemorySessionStore } from '../../../src/store/memory/session-store.ts';
import { VirtualTime } from '../../../src/testing/virtual-time.ts';
import { createWebsocketHandler } from '../../../src/websocket/handler.ts';
import { MemorySockets } from '../../support/memory-stores.ts';
import { key } from './world.ts';

const leaseId = 'lease-of-a-waiter-1';
const asked = { leaseId, owner: 'waiter', leaseMs: 10_000, waitMs: 60_000 } as const;

async function heldLock(sizes?: QueueSizes) {
  const time = new VirtualTime();
  const store = new MemoryLockStore();
  const sessionStore = new MemorySessionStore(() => []);
  const context = systemLockContext({ store, sessionStore, alone: true, clock: time, timers: time, sizes });
  const open = new Map([['here', { namespace: key.namespace, caller: 'me' }]]);
  const sockets = new MemorySockets((id) => open.get(id));
  const park = (connectionId: string, caller = 'me', more: object = {}) =>
    acquireOnSocket(context, sockets, key, { ...asked, ...more, notify: { type: 'websocket', connectionId } }, caller);
  const hold = {
    ...asked,
    leaseId: 'lease-of-the-holder',
    notify: { type: 'websocket', connectionId: 'here' },
  } as const;
  await acquireOnSocket(context, sockets, key, hold, 'me');
  const presentMs = async () => {
    const [waiter] = (await store.read(key)).queue;
    return waiter === undefined ? undefined : waiter.presentUntil - time.now();
  };
  return { time, store, context, sockets, open, park, presentMs };
}

describe('the end of a connection', () => {
  it('is written before its waits are read, so a later wait finds it', async () => {
    const { context, sockets, open, park, presentMs } = await heldLock();
    const { waitsOn } = sockets;
    sockets.waitsOn = async (...asked) => {
      expect(open.has('here')).toBe(false);
      return waitsOn.call(sockets, ...asked);
    };
    const watchers = {
      add: async () => {},
      welcome: async () => true,
      welcomed: async () => [],
      remove: async (id: string) => void open.delete(id),
    };
    const log = { info: () => {}, error: () => {} };
    const handler = createWebsocketHandler({ watchers, sockets, locks: context, needsTicket: true, log });
    await park('here');
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
    const { sockets, park, presentMs } = await heldLock();
    sockets.noteWait = () => Promise.reject(new Error('The store can not be reached.'));
    await expect(park('here')).rejects.toThrow('can not be reached');
    expect(await presentMs()).toBeUndefined();
  });

  it('is absent if the connection ended before or after the wait was written', async () => {
    const { context, sockets, open, park, presentMs } = await heldLock();
    const { noteWait } = sockets;
    sockets.noteWait = async (...wait) => {
      await noteWait.call(sockets, ...wait);
      // Its end was handled a moment ago, and found no wait.
      open.delete('here');
    };
    await park('here');
    expect(await presentMs()).toBe(lockLimits.waiterAbsenceMs);
    open.set('there', { namespace: key.namespace, caller: 'me' });
    sockets.noteWait = noteWait;
    await park('there');
    expect(await presentMs()).toBe(asked.waitMs);
    await leaveConnection(context, sockets, 'here', key.namespace);
    expect(await presentMs()).toBe(asked.waitMs);
    await leaveConnection(context, sockets, 'there', key.namespace);
    expect(await presentMs()).toBe(lockLimits.waiterAbsenceMs);
  });

  it('is noted until its deadline, and is refused on a connection of another namespace', async () => {
    const { time, sockets, open, park } = await heldLock();
    const noted: unknown[] = [];
    sockets.noteWait = async (...wait) => void noted.push(wait);
    await park('here');
    expect(noted).toEqual([['here', { key, leaseId }, time.now() + asked.waitMs]]);
    open.set('other', { namespace: 'other', caller: 'me' });
    expect(await park('other')).toBeUndefined();
  });

  it('keeps what it got if the connection ended after the grant, because only a wait can be absent', async () => {
    const { store, sockets, open, park } = await heldLock();
    const [holder] = (await store.read(key)).holders;
    sockets.noteWait = async () => void open.delete('here');
    const acquired = await park('here', 'me', { leaseId: 'lease-of-the-holder' });
    expect(acquired).toMatchObject({ answer: { kind: 'granted' } });
    expect((await store.read(key)).holders).toMatchObject([{ fence: holder?.fence, expiresAt: holder?.expiresAt }]);
  });
});

describe('waits in pages on a connection', () => {
  async function parkedInPages() {
    const world = await heldLock({ front: 1, page: 2 });
    for (let index = 0; index < 4; index++) await world.park('here', 'me', { leaseId: `lease-of-waiter-${index}-000` });
    const { pages } = await world.store.read(key);
    const presentInPages = async () =>
      (await world.store.readPages([pages?.first ?? 0, pages?.last ?? 0].map((number) => ({ lock: key, number }))))
        .flatMap(({ waiters }) => waiters)
        .map(({ presentUntil }) => presentUntil - world.time.now());
    return { ...world, presentInPages };
  }

  it('are absent after its end, and their pages are searched once for all of them', async () => {
    const { store, context, sockets, presentInPages, presentMs } = await parkedInPages();
    expect(await presentInPages()).toEqual([asked.waitMs, asked.waitMs, asked.waitMs]);
    let searches = 0;
    const readPages = store.readPages.bind(store);
    store.readPages = (...pages) => {
      searches += 1;
      return readPages(...pages);
    };
    await leaveConnection(context, sockets, 'here', key.namespace);
    // The second search is for the lease that holds the lock, which no page knows.
    expect(searches).toBe(2);
    expect(await presentMs()).toBe(lockLimits.waiterAbsenceMs);
    expect(await presentInPages()).toEqual(Array(3).fill(lockLimits.waiterAbsenceMs));
  });

  it('are absent if it ended before they were written, and the lock is not searched for them', async () => {
    const { store, sockets, open, park, presentInPages } = await parkedInPages();
    sockets.noteWait = async () => void open.delete('here');
    store.readPages = () => Promise.reject(new Error('The answer names the page.'));
    await park('here', 'me', { leaseId: 'lease-of-a-late-one', place: 'new' });
    Reflect.deleteProperty(store, 'readPages');
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
