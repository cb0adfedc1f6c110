import { describe, expect, it } from 'vitest';
import { lockLimits } from '../../../src/lock/limits.ts';
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

  it('delivers nothing to a caller that did not wait, because it got the answer', async () => {
    const world = createWorld();
    const handOffs = new HandOffs(world.ports);
    await world.park('lease-waiter-00001', { type: 'websocket', connectionId: 'c=' });
    await handOffs.settle();
    expect((await world.store.read(lockKey)).holders).toHaveLength(1);
    expect(world.posted).toEqual([]);
  });

  it('shortens a grant at once whose connection is gone, and counts its only try', async () => {
    const world = createWorld();
    const handOffs = new HandOffs(world.ports);
    world.ways.post = async () => 'gone';
    await world.acquire('lease-holder-00001');
    await world.park('lease-waiter-00001', { type: 'websocket', connectionId: 'c=' }, { leaseMs: 60_000 });
    await world.release('lease-holder-00001');
    await handOffs.settle();
    const { holders, fence } = await world.store.read(lockKey);
    expect((holders[0]?.expiresAt ?? 0) - world.clock.now()).toBe(lockLimits.waiterAbsenceMs);
    expect(await world.ports.deliveries.read(lockKey, fence)).toMatchObject({ tries: 1, delivered: false });
  });

  it('posts only to waiters on a WebSocket', async () => {
    const world = createWorld();
    const handOffs = new HandOffs(world.ports);
    await world.acquire('lease-holder-00001');
    await world.park('lease-waiter-00001', { type: 'event', ref: 'r' });
    await world.release('lease-holder-00001');
    await handOffs.settle();
    expect([world.posted, world.logged]).toEqual([[], []]);
  });

  it('needs no timer if nothing is under way, and none is under way after a delivery', async () => {
    const world = createWorld();
    const handOffs = new HandOffs(world.ports);
    await handOffs.settle();
    await world.acquire('lease-holder-00001');
    await world.park('lease-waiter-00001', { type: 'websocket', connectionId: 'c=' });
    await world.release('lease-holder-00001');
    await handOffs.settle();
    await world.clock.settle();
    const timersSet: number[] = [];
    const { after } = world.locks.timers;
    Object.assign(world.locks.timers, {
      after: (ms: number, run: () => void) => {
        timersSet.push(ms);
        return after(ms, run);
      },
    });
    await handOffs.settle();
    expect([world.posted.length, timersSet]).toEqual([1, []]);
  });

  it('logs which lock it could not hand over, and why', async () => {
    const world = createWorld();
    const post = () => Promise.reject(new Error('no route'));
    const handOffs = new HandOffs({ ...world.ports, connections: { ...world.ports.connections, post } });
    await world.acquire('lease-holder-00001');
    await world.park('lease-waiter-00001', { type: 'websocket', connectionId: 'c=' });
    await world.release('lease-holder-00001');
    await handOffs.settle();
    expect(world.logged).toMatchObject([
      {
        message: 'A hand-off was not delivered at once.',
        fields: { namespace: 'test', lock: 'wallet', error: expect.stringContaining('no route') },
      },
    ]);
  });

  it.each(['hangs', 'fails'])(
    'does not fail the release, nor delay it by more than a second, if the post %s',
    async (how) => {
      const world = createWorld();
      const post = how === 'hangs' ? () => new Promise<never>(() => {}) : () => Promise.reject(new Error('no route'));
      const handOffs = new HandOffs({ ...world.ports, connections: { ...world.ports.connections, post } });
      await world.acquire('lease-holder-00001', { leaseMs: 60_000 });
      await world.park('lease-waiter-00001', { type: 'websocket', connectionId: 'c=' });
      await world.release('lease-holder-00001');
      const settled = handOffs.settle().then(() => 'settled');
      await world.clock.advance(1_000);
      expect(await Promise.race([settled, new Promise((resolve) => setImmediate(resolve))])).toBe('settled');
      // The notifier finds a grant that was not delivered.
      expect((await world.store.read(lockKey)).holders[0]?.leaseId).toBe('lease-waiter-00001');
    },
  );
});
