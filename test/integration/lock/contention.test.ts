import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../support/eventually.ts';
import { lockAt, newLeaseId, startService, type TestService } from '../../support/service.ts';

let service: TestService;
beforeAll(async () => {
  service = await startService();
});
afterAll(() => service.stop());

const newLock = () => lockAt(service.call, randomUUID());

/** Resolves when the lock shows this many waiters. */
async function queued(lock: ReturnType<typeof newLock>, depth: number): Promise<void> {
  await eventually(async () => expect((await lock.inspect()).body.queueDepth).toBeGreaterThanOrEqual(depth));
}

describe('100 contenders on one key', () => {
  it('hold it one at a time, in the order in which they queued, under rising fences', async () => {
    const lock = newLock();
    const first = await lock.acquire({ owner: 'first', leaseId: newLeaseId(), leaseMs: 600_000 });
    expect(first.status).toBe(200);

    const order: number[] = [];
    const fences: number[] = [];
    let holding = 0;
    const contend = async (index: number) => {
      const leaseId = newLeaseId();
      const request = { leaseId, owner: `contender ${index}`, waitMs: 600_000, leaseMs: 30_000 };
      let granted = await lock.acquire({ ...request, place: 'new' });
      // A poll ends after 20 s, which a busy machine may need. The same request keeps the place.
      while (granted.status === 202) granted = await lock.acquire({ ...request, place: granted.body.place });
      expect(granted.status, JSON.stringify(granted.body)).toBe(200);
      holding += 1;
      expect(holding, 'two hold it at once').toBe(1);
      order.push(index);
      fences.push(granted.body.fence);
      expect(granted.body.remainingMs).toBeGreaterThan(25_000);
      expect(granted.body.waitedMs).toBeGreaterThan(0);
      holding -= 1;
      expect((await lock.release(leaseId)).body).toEqual({ released: true, reason: 'ok' });
    };
    // The first ten queue one after the other, so that their order is known. The rest arrive at once.
    const contenders: Promise<void>[] = [];
    for (let index = 0; index < 10; index++) {
      contenders.push(contend(index));
      await queued(lock, index + 1);
    }
    for (let index = 10; index < 100; index++) contenders.push(contend(index));
    await queued(lock, 100);
    const waiting = (await lock.inspect()).body.queue.map(({ owner }: { owner: string }) =>
      Number(owner.split(' ')[1]),
    );

    await lock.release(first.body.leaseId);
    await Promise.all(contenders);

    expect(order).toEqual(waiting);
    expect(order.slice(0, 10)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    expect(new Set(fences).size).toBe(100);
    expect(fences).toEqual([...fences].sort((one, other) => one - other));
    expect(fences[0]).toBeGreaterThan(first.body.fence);
  });
});

describe('a semaphore of 3 with 20 clients', () => {
  it('never has more than 3 holders, and grants to all', async () => {
    const lock = newLock();
    let holding = 0;
    let most = 0;
    const use = async () => {
      const leaseId = newLeaseId();
      const request = { leaseId, limit: 3, waitMs: 600_000 };
      let granted = await lock.acquire({ ...request, place: 'new' });
      while (granted.status === 202) granted = await lock.acquire({ ...request, place: granted.body.place });
      expect(granted.status, JSON.stringify(granted.body)).toBe(200);
      expect(granted.body).toMatchObject({ limit: 3, permits: 1 });
      holding += 1;
      most = Math.max(most, holding);
      const { holders } = (await lock.inspect()).body;
      expect(holders.length).toBeLessThanOrEqual(3);
      holding -= 1;
      expect((await lock.release(leaseId)).status).toBe(200);
    };
    await Promise.all(Array.from({ length: 20 }, use));
    expect(most).toBeGreaterThan(1);
    expect(most).toBeLessThanOrEqual(3);
    expect((await lock.inspect()).body).toMatchObject({ state: 'free', holders: [], queue: [] });
  });

  it('refuses another limit while it is in use, and accepts one when it is free', async () => {
    const lock = newLock();
    const leaseId = newLeaseId();
    await lock.acquire({ leaseId, limit: 3, permits: 2 });
    const mutex = await lock.acquire({ limit: 1 });
    expect(mutex).toMatchObject({ status: 409, body: { code: 'limit-mismatch', limit: 3 } });
    expect((await lock.acquire({ limit: 3, permits: 2 })).body.code).toBe('lock-held');
    await lock.release(leaseId);
    expect((await lock.acquire({ limit: 5 })).body).toMatchObject({ status: 'granted', limit: 5 });
  });
});

describe('a read-write lock', () => {
  it('is shared by readers until a writer waits, and then granted to the writer before new readers', async () => {
    const lock = newLock();
    const readers = [newLeaseId(), newLeaseId()];
    for (const leaseId of readers) {
      expect((await lock.acquire({ leaseId, mode: 'shared' })).body).toMatchObject({
        status: 'granted',
        mode: 'shared',
      });
    }
    const writerLease = newLeaseId();
    const writer = lock.acquire({ leaseId: writerLease, mode: 'exclusive', waitMs: 30_000, owner: 'writer' });
    await queued(lock, 1);
    expect((await lock.acquire({ mode: 'shared' })).body.code).toBe('lock-held');
    const lateReader = lock.acquire({ leaseId: newLeaseId(), mode: 'shared', waitMs: 30_000, owner: 'late reader' });
    await queued(lock, 2);

    await lock.release(readers[0] as string);
    expect((await lock.inspect()).body.queueDepth).toBe(2);
    await lock.release(readers[1] as string);

    expect((await writer).body).toMatchObject({ status: 'granted', mode: 'exclusive' });
    expect((await lock.inspect()).body.holders.map(({ owner }: { owner: string }) => owner)).toEqual(['writer']);
    await lock.release(writerLease);
    expect((await lateReader).body).toMatchObject({ status: 'granted', mode: 'shared' });
  });

  it('excludes a caller that asks without a mode', async () => {
    const lock = newLock();
    await lock.acquire({ mode: 'shared' });
    expect((await lock.acquire()).body.code).toBe('lock-held');
    const mutex = newLock();
    await mutex.acquire();
    expect((await mutex.acquire({ mode: 'shared' })).body.code).toBe('lock-held');
  });
});
