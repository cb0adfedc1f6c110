import { randomUUID } from 'node:crypto';
import { DeleteCommand } from '@aws-sdk/lib-dynamodb';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { lockLimits } from '../../../src/lock/limits.ts';
import { lockItemKey } from '../../../src/queue/lock-item.ts';
import { documentsOf, engineClient, exactOnly } from '../../support/engine.ts';
import { eventually } from '../../support/eventually.ts';
import { lockAt, newLeaseId, startService, type TestService } from '../../support/service.ts';

let service: TestService;
beforeAll(async () => {
  service = await startService();
});
afterAll(() => service.stop());

const newLock = (name: string = randomUUID()) => lockAt(service.call, name);

describe.concurrent('a holder that dies', () => {
  it('is followed by the waiter after its expiry plus grace, and its late requests are refused', async () => {
    const lock = newLock();
    const dead = newLeaseId();
    const taken = await lock.acquire({ leaseId: dead, leaseMs: 4_000, owner: 'dead' });
    const expiresAt = Date.parse(taken.body.expiresAt);
    const heir = newLeaseId();
    const granted = await lock.acquire({ leaseId: heir, waitMs: 55_000, leaseMs: 30_000, owner: 'heir' });
    const now = Date.now();

    expect(granted.status).toBe(200);
    expect(granted.body.fence).toBeGreaterThan(taken.body.fence);
    expect(now - expiresAt).toBeGreaterThanOrEqual(lockLimits.graceMs);
    expect(now - expiresAt).toBeLessThan(lockLimits.graceMs + 20_000);
    expect(granted.body.remainingMs).toBeGreaterThan(20_000);
    expect(granted.body.waitedMs).toBeGreaterThan(0);

    expect(await lock.renew({ leaseId: dead })).toMatchObject({
      status: 409,
      body: { code: 'lease-lost', reason: 'expired' },
    });
    expect(await lock.release(dead)).toMatchObject({
      status: 409,
      body: { code: 'lease-lost', reason: 'expired', released: false },
    });
    expect(await lock.acquire({ leaseId: dead })).toMatchObject({
      status: 409,
      body: { code: 'lease-lost', reason: 'expired' },
    });
    expect((await lock.inspect()).body.holders).toMatchObject([{ owner: 'heir', fence: granted.body.fence }]);
    expect((await lock.check(taken.body.fence)).body).toMatchObject({
      valid: false,
      fence: granted.body.fence,
      state: 'held',
    });
    expect((await lock.check(granted.body.fence)).body).toMatchObject({ valid: true });
  });

  it('may release several leases that expired, and learns which they were', async () => {
    const names = [randomUUID(), randomUUID()];
    const [one, two] = names.map(newLock) as [ReturnType<typeof newLock>, ReturnType<typeof newLock>];
    const leaseId = newLeaseId();
    const taken = await one.acquire({ leaseId, leaseMs: 1_000 });
    await two.acquire({ leaseId, limit: 3 });
    await new Promise((resolve) => setTimeout(resolve, Date.parse(taken.body.expiresAt) - Date.now() + 1));
    const body = { leaseId, locks: names };
    expect((await service.call('POST', '/v1/test/multi-locks/release', body)).body).toEqual({
      released: names,
      failed: [],
      expired: names.slice(0, 1),
    });
  });

  it('may release a part that expired, and learns it', async () => {
    const lock = newLock();
    const leaseId = newLeaseId();
    const taken = await lock.acquire({ leaseId, leaseMs: 1_000, limit: 3 });
    await new Promise((resolve) => setTimeout(resolve, Date.parse(taken.body.expiresAt) - Date.now() + 1));
    expect((await lock.release(leaseId)).body).toEqual({ released: true, reason: 'ok', expired: true });
  });

  it('may release a lease that expired and that nobody has taken, but not renew it', async () => {
    const lock = newLock();
    const leaseId = newLeaseId();
    const taken = await lock.acquire({ leaseId, leaseMs: 1_000 });
    await new Promise((resolve) => setTimeout(resolve, Date.parse(taken.body.expiresAt) - Date.now() + 1));
    expect(await lock.renew({ leaseId })).toMatchObject({ status: 409, body: { reason: 'expired' } });
    const released = await lock.release(leaseId);
    expect(released).toMatchObject({ status: 200, body: { released: true, reason: 'ok', expired: true } });
    expect((await lock.release(leaseId)).body).toEqual({ released: false, reason: 'already_released' });
  });

  it('keeps others out for its lock delay as well', async () => {
    const lock = newLock();
    const taken = await lock.acquire({ leaseMs: 1_000, lockDelayMs: 1_000 });
    const granted = await lock.acquire({ waitMs: 55_000 });
    expect(granted.status).toBe(200);
    expect(Date.now() - Date.parse(taken.body.expiresAt)).toBeGreaterThanOrEqual(lockLimits.graceMs + 1_000);
  });
});

describe.concurrent('retries', () => {
  it('of an acquire whose answer was lost find the same grant, fence and end', async () => {
    const lock = newLock();
    const leaseId = newLeaseId();
    const [one, two] = await Promise.all([lock.acquire({ leaseId }), lock.acquire({ leaseId })]);
    const three = await lock.acquire({ leaseId });
    expect([one.status, two.status, three.status]).toEqual([200, 200, 200]);
    expect([two.body.fence, three.body.fence]).toEqual([one.body.fence, one.body.fence]);
    expect(three.body.expiresAt).toBe(one.body.expiresAt);
  });

  it(
    'of a release have one effect, even if another caller took the lock in between',
    exactOnly('a repeat after a lost answer is told that its first try did it'),
    async () => {
      const lock = newLock();
      const leaseId = newLeaseId();
      await lock.acquire({ leaseId });
      expect((await lock.release(leaseId)).body).toEqual({ released: true, reason: 'ok' });
      const next = await lock.acquire({ owner: 'next' });
      expect((await lock.release(leaseId)).body).toEqual({ released: false, reason: 'already_released' });
      expect((await lock.inspect()).body.holders).toMatchObject([{ owner: 'next', fence: next.body.fence }]);
      expect(await lock.acquire({ leaseId })).toMatchObject({
        status: 409,
        body: { code: 'lease-lost', reason: 'released' },
      });
      expect(await lock.renew({ leaseId })).toMatchObject({
        status: 409,
        body: { code: 'lease-lost', reason: 'released' },
      });
    },
  );

  it('of a release at the same time as a renewal never revive the lease', async () => {
    const lock = newLock();
    for (let round = 0; round < 20; round++) {
      const leaseId = newLeaseId();
      const { body } = await lock.acquire({ leaseId });
      const [renewed, released] = await Promise.all([lock.renew({ leaseId, leaseMs: 60_000 }), lock.release(leaseId)]);
      expect(released.body).toEqual({ released: true, reason: 'ok' });
      if (renewed.status === 200) expect(renewed.body.fence).toBe(body.fence);
      else expect(renewed.body).toMatchObject({ code: 'lease-lost', reason: 'released' });
      expect((await lock.inspect()).body).toMatchObject({ state: 'free', holders: [] });
    }
  });
});

describe.concurrent('renew', () => {
  it('extends the lease under the same fence, for the same time or another', async () => {
    const lock = newLock();
    const leaseId = newLeaseId();
    const { body } = await lock.acquire({ leaseId, leaseMs: 5_000, metadata: { job: 'nightly' } });
    const longer = await lock.renew({ leaseId, leaseMs: 60_000 });
    expect(longer.body).toMatchObject({
      status: 'granted',
      fence: body.fence,
      leaseMs: 60_000,
      metadata: { job: 'nightly' },
    });
    expect(longer.body.remainingMs).toBeGreaterThan(45_000);
    const same = await lock.renew({ leaseId });
    expect(same.body).toMatchObject({ fence: body.fence, leaseMs: 60_000 });
  });

  it('and release are refused to a caller with another lease', async () => {
    const lock = newLock();
    await lock.acquire();
    expect(await lock.renew({ leaseId: newLeaseId() })).toMatchObject({
      status: 409,
      body: { code: 'lease-lost', reason: 'not_owner' },
    });
    expect(await lock.release(newLeaseId())).toMatchObject({
      status: 409,
      body: { reason: 'not_owner', released: false },
    });
  });
});

describe.concurrent('revoke', () => {
  it('ends the holder of that fence and grants the next waiter', async () => {
    const lock = newLock();
    const leaseId = newLeaseId();
    const { body } = await lock.acquire({ leaseId, leaseMs: 60_000 });
    const heir = lock.acquire({ waitMs: 55_000, owner: 'heir' });
    await eventually(async () => expect((await lock.inspect()).body.queueDepth).toBe(1));
    expect(await lock.revoke({ fence: body.fence + 1, reason: 'wrong one' })).toMatchObject({
      status: 409,
      body: { code: 'lease-lost' },
    });
    expect(await lock.revoke({ fence: body.fence, reason: 'stuck' })).toMatchObject({
      status: 200,
      body: { revoked: true },
    });
    expect((await heir).body.fence).toBeGreaterThan(body.fence);
    expect(await lock.renew({ leaseId })).toMatchObject({ status: 409, body: { reason: 'revoked' } });
    expect(await lock.release(leaseId)).toMatchObject({ status: 409, body: { reason: 'revoked', released: false } });
  });
});

describe.concurrent('fences', () => {
  it('rise across release, expiry, revocation and deletion of the item', async () => {
    const name = randomUUID();
    const lock = newLock(name);
    const fences: number[] = [];
    const take = async (body: object = {}) => {
      const granted = await lock.acquire({ waitMs: 55_000, ...body });
      expect(granted.status).toBe(200);
      fences.push(granted.body.fence);
      return granted.body;
    };
    const released = await take();
    await lock.release(released.leaseId);
    await take({ leaseMs: 1_000 });
    const revoked = await take();
    await lock.revoke({ fence: revoked.fence, reason: 'test' });
    const last = await take();
    await lock.release(last.leaseId);
    const client = documentsOf(engineClient());
    await client.send(
      new DeleteCommand({ TableName: service.table, Key: { ...lockItemKey({ namespace: 'test', name }) } }),
    );
    expect((await lock.inspect()).body).toMatchObject({ state: 'free', fence: 0 });
    await take();
    expect(fences).toEqual([...new Set(fences)].sort((one, other) => one - other));
  });
});

describe.concurrent('a secret', () => {
  it('is shown only to its owner', async () => {
    const lock = newLock();
    const holder = newLeaseId();
    const waiter = newLeaseId();
    await lock.acquire({ leaseId: holder, owner: 'holder', metadata: { seen: 'by all' } });
    const waiting = lock.acquire({ leaseId: waiter, waitMs: 55_000, owner: 'waiter' });
    await eventually(async () => expect((await lock.inspect()).body.queueDepth).toBe(1));
    const others = [
      await lock.acquire(),
      await lock.inspect(),
      await lock.renew({ leaseId: newLeaseId() }),
      await service.call('GET', '/v1/test/locks?prefix='),
    ];
    for (const { body } of others) {
      expect(JSON.stringify(body)).not.toContain(holder);
      expect(JSON.stringify(body)).not.toContain(waiter);
    }
    expect((await lock.inspect()).body).toMatchObject({
      holders: [{ owner: 'holder', permits: 1, metadata: { seen: 'by all' } }],
      queue: [{ owner: 'waiter', position: 1, permits: 1 }],
    });
    await lock.release(holder);
    expect((await waiting).body.leaseId).toBe(waiter);
  });
});
