import { describe, expect, it } from 'vitest';
import { HandOffs } from '../../../src/notify/hand-offs.ts';
import { epochMs } from '../../../src/time/clock.ts';
import { createWorld, lockKey } from './world.ts';

describe('a process that hands a lock over', () => {
  it('delivers each grant once, also if other holders of the same lock were granted by it before', async () => {
    const world = createWorld();
    const handOffs = new HandOffs(world.ports);
    const part = { limit: 2, permits: 1, leaseMs: 60_000 };
    for (const leaseId of ['lease-holder-00001', 'lease-holder-00002']) await world.acquire(leaseId, part);
    const waiters = ['lease-waiter-00001', 'lease-waiter-00002'];
    for (const leaseId of waiters) await world.park(leaseId, { type: 'websocket', connectionId: 'c=' }, part);
    for (const leaseId of ['lease-holder-00001', 'lease-holder-00002']) {
      await world.release(leaseId);
      await handOffs.settle();
      await world.clock.advance(10);
    }
    expect(world.posted.map(({ text }) => JSON.parse(text).leaseId)).toEqual(waiters);
  });

  it('delivers nothing if the session of the grant has ended in the meantime', async () => {
    const world = createWorld();
    const handOffs = new HandOffs(world.ports);
    const { sessionStore } = world.locks;
    const session = { namespace: 'test', sessionId: 'session-0000001' };
    const now = world.clock.now();
    const state = { sessionId: session.sessionId, owner: 'me', ttlMs: 60_000, createdAt: now, waits: [] };
    await sessionStore.create('test', { ...state, expiresAt: epochMs(now + 60_000) });
    await world.acquire('lease-holder-00001', { leaseMs: 60_000 });
    const bound = { leaseMs: null, sessionId: session.sessionId };
    await world.park('lease-waiter-00001', { type: 'websocket', connectionId: 'c=' }, bound);
    const read = sessionStore.read.bind(sessionStore);
    sessionStore.read = async (...asked) => {
      // Right after the grant was written.
      const { holders } = await world.store.read(lockKey);
      if (holders[0]?.leaseId === 'lease-waiter-00001') await sessionStore.end(session, world.clock.now());
      return read(...asked);
    };
    await world.release('lease-holder-00001');
    await handOffs.settle();
    expect((await world.store.read(lockKey)).holders[0]?.leaseId).toBe('lease-waiter-00001');
    expect(world.posted).toEqual([]);
  });
});
