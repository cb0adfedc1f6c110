/** Parking on a connection that ends at that very moment. */
import { describe, expect, it } from 'vitest';
import { lockLimits } from '../../../src/lock/limits.ts';
import { systemLockContext } from '../../../src/service/context.ts';
import { acquireOnSocket, leaveConnection } from '../../../src/service/sockets.ts';
import { MemoryLockStore } from '../../../src/store/memory/lock-store.ts';
import { MemorySessionStore } from '../../../src/store/memory/session-store.ts';
import { VirtualTime } from '../../../src/testing/virtual-time.ts';
import { createWebsocketHandler } from '../../../src/websocket/handler.ts';
import { MemorySockets } from '../../support/memory-stores.ts';
import { key } from './world.ts';

const leaseId = 'lease-of-a-waiter-1';
const asked = { leaseId, owner: 'waiter', leaseMs: 10_000, waitMs: 60_000 } as const;

async function heldLock() {
  const time = new VirtualTime();
  const store = new MemoryLockStore();
  const sessionStore = new MemorySessionStore(() => []);
  const context = systemLockContext({ store, sessionStore, alone: true, clock: time, timers: time });
  const open = new Map([['here', { namespace: key.namespace, caller: 'me' }]]);
  const sockets = new MemorySockets((id) => open.get(id));
  const park = (connectionId: string, caller = 'me') =>
    acquireOnSocket(context, sockets, key, { ...asked, notify: { type: 'websocket', connectionId } }, caller);
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
  return { context, sockets, open, park, presentMs };
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
});
