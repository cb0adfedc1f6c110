import { describe, expect, it } from 'vitest';
import { createHandler } from '../../../src/http/handler.ts';
import { queueSizes } from '../../../src/lock/pages.ts';
import { memoryService } from '../../../src/testing/memory-service.ts';
import { seededRandom, VirtualTime } from '../../../src/testing/virtual-time.ts';

describe('a parked waiter', () => {
  it('has one place, although a copy of its request calls its lease new when its page is full', async () => {
    const { service } = memoryService(new VirtualTime(), seededRandom(1), () => {});
    const handle = createHandler(service, { info: () => {}, error: () => {} });
    const acquire = async (leaseId: string, more: object = {}) => {
      const { body } = await handle({
        id: 'request-7',
        operation: 'acquireLock',
        method: 'POST',
        path: '/v1/test/locks/gate/acquire',
        parameters: { ns: 'test', name: 'gate' },
        query: {},
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ leaseId, ...more }),
        caller: 'anonymous',
      });
      return JSON.parse(body ?? 'null');
    };
    const parked = { waitMs: 60_000, place: 'new', notify: { type: 'event', ref: 'somebody' } };
    await acquire('lease-of-the-holder');
    const places: unknown[] = [];
    for (let index = 0; index < queueSizes.front + queueSizes.page; index++)
      places.push((await acquire(`lease-waiter-${String(index).padStart(4, '0')}`, parked)).place);
    expect(places.at(-1)).toBe(places[queueSizes.front]);
    const again = await acquire(`lease-waiter-${String(queueSizes.front).padStart(4, '0')}`, parked);
    expect(again.place).toBe(places[queueSizes.front]);
  });
});
