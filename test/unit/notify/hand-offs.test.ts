import { describe, expect, it } from 'vitest';
import { HandOffs } from '../../../src/notify/hand-offs.ts';
import { createWorld } from './world.ts';

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
});
