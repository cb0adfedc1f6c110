import { describe, expect, it } from 'vitest';
import { Holdfast } from '../../../src/client/index.ts';
import { DirectTransport } from '../../../src/server/direct-transport.ts';
import { memoryService } from '../../../src/testing/memory-service.ts';
import { seededRandom, VirtualTime } from '../../../src/testing/virtual-time.ts';

/** A client of a deployment that allows less than the rules do. */
function clientOfStrict(): Holdfast {
  const { service } = memoryService(new VirtualTime(), seededRandom(1), () => {});
  const locks = { ...service.locks, leaseMsMax: 10_000, waitMsMax: 60_000 };
  return new Holdfast({ namespace: 'test', transport: new DirectTransport({ ...service, locks }) });
}

describe('several locks in a deployment with its own maxima', () => {
  it.each([
    ['a lease', { leaseMs: 10_001 }, 'leaseMs must be at most 10000'],
    ['a wait', { leaseMs: 5_000, waitMs: 90_000 }, 'waitMs must be at most 60000'],
  ])('are not taken for %s that is longer', async (_what, options, message) => {
    const locks = clientOfStrict();
    await expect(locks.acquireAll(['a', 'b'], options)).rejects.toThrow(message);
    await locks.close();
  });

  it('are not renewed for longer', async () => {
    const locks = clientOfStrict();
    const both = await locks.acquireAll(['a', 'b'], { leaseMs: 5_000, waitMs: 0 });
    await expect(both.renew(10_001)).rejects.toThrow('leaseMs must be at most 10000');
    await locks.close();
  });

  it('are taken for as long as is allowed if no lease was given', async () => {
    const locks = clientOfStrict();
    const both = await locks.acquireAll(['a', 'b'], { waitMs: 0 });
    expect(both.remainingMs()).toBeLessThanOrEqual(10_000);
    await locks.close();
  });
});
