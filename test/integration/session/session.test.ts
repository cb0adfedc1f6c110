import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { lockLimits } from '../../../src/lock/limits.ts';
import { exactOnly } from '../../support/engine.ts';
import { eventually } from '../../support/eventually.ts';
import { lockAt, newLeaseId, startService, type TestService } from '../../support/service.ts';

let service: TestService;
beforeAll(async () => {
  service = await startService();
});
afterAll(() => service.stop());

const sessions = '/v1/test/sessions';
const open = async (body: object = {}) => (await service.call('POST', sessions, body)).body.sessionId as string;
const end = (id: string) => service.call('DELETE', `${sessions}/${id}`);
const newLock = () => {
  const name = randomUUID();
  return { name, ...lockAt(service.call, name) };
};
async function queued(lock: ReturnType<typeof newLock>, depth: number): Promise<void> {
  await eventually(async () => expect((await lock.inspect()).body.queueDepth).toBeGreaterThanOrEqual(depth));
}

describe.concurrent("a session's owner", () => {
  const ownersOf = async ({ inspect }: ReturnType<typeof newLock>) => {
    const { holders, queue } = (await inspect()).body as Record<'holders' | 'queue', { owner: string }[]>;
    return { holders: holders.map(({ owner }) => owner), queue: queue.map(({ owner }) => owner) };
  };

  it('is shown for holders and waiters under it, unless they name their own', async () => {
    const [lock, third] = [newLock(), newLock()];
    const [batch, shop] = [
      await open({ owner: 'batch', ttlMs: 600_000 }),
      await open({ owner: 'shop', ttlMs: 600_000 }),
    ];
    await lock.acquire({ sessionId: batch });
    // Parked waiters stay, however long the machine takes.
    const parked = { waitMs: 600_000, notify: { type: 'event', ref: 'somebody' } };
    await lock.acquire({ ...parked, sessionId: shop, leaseId: newLeaseId() });
    await lock.acquire({ ...parked, sessionId: shop, leaseId: newLeaseId(), owner: 'clerk 7' });
    await lock.acquire({ ...parked, leaseId: newLeaseId() });
    expect(await ownersOf(lock)).toEqual({ holders: ['batch'], queue: ['shop', 'clerk 7', 'anonymous'] });
    const locks = { locks: [third.name, newLock().name], sessionId: shop };
    expect((await service.call('POST', '/v1/test/multi-locks/acquire', locks)).status).toBe(200);
    expect(await ownersOf(third)).toEqual({ holders: ['shop'], queue: [] });
  });

  it('is shown for a waiter of several locks', async () => {
    const lock = newLock();
    const sessionId = await open({ owner: 'mover', ttlMs: 600_000 });
    await lock.acquire({ leaseMs: 600_000 });
    const body = { locks: [lock.name, newLock().name], sessionId, waitMs: 20_000, leaseId: newLeaseId() };
    const waiting = service.call('POST', '/v1/test/multi-locks/acquire', body);
    await queued(lock, 1);
    expect((await ownersOf(lock)).queue).toEqual(['mover']);
    await end(sessionId);
    expect((await waiting).body.code).toBe('session-lost');
  });

  it('is named in the cycle of a deadlock', exactOnly('a single request may be refused with 429 or 503'), async () => {
    const [a, b] = [newLock(), newLock()];
    const [one, two] = [await open({ owner: 'one', ttlMs: 600_000 }), await open({ owner: 'two', ttlMs: 600_000 })];
    await a.acquire({ sessionId: one });
    await b.acquire({ sessionId: two });
    const waiting = b.acquire({ sessionId: one, leaseId: newLeaseId(), waitMs: 50_000 });
    await queued(b, 1);
    const refused = await a.acquire({ sessionId: two, leaseId: newLeaseId(), waitMs: 50_000 });
    expect(refused.body.cycle).toMatchObject([
      { owner: 'two', waitsFor: a.name },
      { owner: 'one', waitsFor: b.name },
    ]);
    await end(two);
    expect((await waiting).status).toBe(200);
  });
});

describe.concurrent('a session', () => {
  it(
    'is created, kept alive, inspected and ended',
    exactOnly('a repeat after a lost answer is told that its first try did it'),
    async () => {
      const created = await service.call('POST', sessions, { ttlMs: 60_000, owner: 'me' });
      expect(created.status).toBe(201);
      expect(created.body).toMatchObject({ ttlMs: 60_000, remainingMs: 60_000 });
      const id = created.body.sessionId;
      // A fast machine may do both in the same millisecond.
      await eventually(async () => {
        const kept = await service.call('POST', `${sessions}/${id}/keepalive`);
        expect(kept.status).toBe(200);
        expect(Date.parse(kept.body.expiresAt)).toBeGreaterThan(Date.parse(created.body.expiresAt));
      });
      const one = newLock();
      const two = newLock();
      const part = newLock();
      const grants = [
        await one.acquire({ sessionId: id }),
        await two.acquire({ sessionId: id }),
        await part.acquire({ sessionId: id, limit: 3 }),
      ];
      expect(grants.map(({ status }) => status)).toEqual([200, 200, 200]);
      expect(grants[0]?.body).toMatchObject({ sessionId: id });
      expect(grants[0]?.body.remainingMs).toBeGreaterThan(0);
      const inspected = await service.call('GET', `${sessions}/${id}`);
      expect(inspected.status).toBe(200);
      const locks = inspected.body.locks as { lock: string; fence: number }[];
      expect(new Map(locks.map(({ lock, fence }) => [lock, fence]))).toEqual(
        new Map([one, two, part].map(({ name }, index) => [name, grants[index]?.body.fence])),
      );
      expect((await end(id)).body).toEqual({ ended: true, released: 3 });
      expect((await end(id)).body).toEqual({ ended: false });
      expect((await service.call('POST', `${sessions}/${id}/keepalive`)).body.code).toBe('session-lost');
      expect((await service.call('GET', `${sessions}/${id}`)).status).toBe(410);
      for (const lock of [one, two, part])
        expect((await lock.inspect()).body).toMatchObject({ state: 'free', holders: [] });
    },
  );

  it('that ended frees its locks for its waiters, long before it would have expired, and cannot be used any more', async () => {
    const id = await open({ ttlMs: 600_000, owner: 'leaver' });
    const lock = newLock();
    const leaseId = newLeaseId();
    const first = await lock.acquire({ sessionId: id, leaseId });
    const waiting = lock.acquire({ waitMs: 55_000, owner: 'heir' });
    await queued(lock, 1);
    await end(id);
    const heir = await waiting;
    expect(heir.status).toBe(200);
    expect(heir.body.fence).toBeGreaterThan(first.body.fence);
    expect(await lock.renew({ leaseId })).toMatchObject({
      status: 409,
      body: { code: 'lease-lost', reason: 'session_lost' },
    });
    expect(await newLock().acquire({ sessionId: id })).toMatchObject({ status: 410, body: { code: 'session-lost' } });
    expect((await lock.check(first.body.fence)).body.valid).toBe(false);
  });

  it('that is lost frees its locks at its end plus grace, and its own waiters are never granted', async () => {
    const id = await open({ ttlMs: 5_000, owner: 'lost' });
    const [held, wanted] = [newLock(), newLock()];
    const grant = await held.acquire({ sessionId: id });
    const holder = newLeaseId();
    await wanted.acquire({ leaseId: holder });
    const dead = wanted.acquire({ sessionId: id, leaseId: newLeaseId(), waitMs: 55_000, owner: 'dead waiter' });
    // On a busy machine the session may be over before its waiter is seen.
    await Promise.race([queued(wanted, 1), dead]);
    const behind = wanted.acquire({ waitMs: 55_000, owner: 'behind' });
    await eventually(async () =>
      expect((await wanted.inspect()).body.queue.map(({ owner }: { owner: string }) => owner)).toContain('behind'),
    );
    const heir = await held.acquire({ waitMs: 55_000, owner: 'heir' });
    expect(heir.status).toBe(200);
    const lateMs = Date.now() - Date.parse(grant.body.expiresAt);
    expect(lateMs).toBeGreaterThanOrEqual(lockLimits.graceMs);
    expect(lateMs).toBeLessThan(lockLimits.graceMs + 20_000);
    await wanted.release(holder);
    expect((await behind).body).toMatchObject({ status: 'granted' });
    expect((await wanted.inspect()).body.holders).toMatchObject([{ owner: 'behind' }]);
    expect(await dead).toMatchObject({ status: 410, body: { code: 'session-lost' } });
    expect((await service.call('POST', `${sessions}/${id}/keepalive`)).status).toBe(410);
  });

  it('keeps all its locks with one keepalive, and shows others only its owner and a public form of its id', async () => {
    const id = await open({ ttlMs: 60_000, owner: 'keeper' });
    const [lock, other] = [newLock(), newLock()];
    const leaseId = newLeaseId();
    // Repeated, it finds the same grant.
    const endsOf = async () => {
      const grants = [lock, other].map((one) => one.acquire({ sessionId: id, leaseId, owner: 'keeper' }));
      return (await Promise.all(grants)).map(({ body }) => Date.parse(body.expiresAt));
    };
    const [end, otherEnd] = (await endsOf()) as [number, number];
    await eventually(async () => {
      expect((await service.call('POST', `${sessions}/${id}/keepalive`)).status).toBe(200);
      const [later, otherLater] = await endsOf();
      expect(later).toBeGreaterThan(end);
      expect(otherLater).toBeGreaterThan(otherEnd);
    });
    expect((await lock.acquire()).body.code).toBe('lock-held');
    const { body } = await lock.inspect();
    expect(body.holders).toMatchObject([{ owner: 'keeper' }]);
    expect(body.holders[0].sessionId).toMatch(/^[0-9a-f]{12}$/);
    expect(JSON.stringify(body)).not.toContain(id);
    expect((await lock.renew({ leaseId })).body).toMatchObject({ status: 'granted', sessionId: id });
    expect((await lock.release(leaseId)).body).toEqual({ released: true, reason: 'ok' });
  });

  it('refuses a leaseMs together with it, and a session that never existed', async () => {
    const id = await open();
    expect((await newLock().acquire({ sessionId: id, leaseMs: 5_000 })).body.errors).toMatchObject([
      { field: 'leaseMs' },
    ]);
    expect((await newLock().acquire({ sessionId: 'never-was' })).body.code).toBe('session-lost');
    expect((await service.call('POST', sessions, { ttlMs: 10 })).status).toBe(400);
  });
});

describe.concurrent('a deadlock', () => {
  const ring = async (size: number) => {
    const members = await Promise.all(
      Array.from({ length: size }, async (_, index) => ({
        id: await open({ owner: `member ${index}` }),
        lock: newLock(),
        held: newLeaseId(),
      })),
    );
    for (const { id, lock, held } of members) await lock.acquire({ sessionId: id, leaseId: held });
    return members;
  };

  it.each([2, 3, 5])(
    'in a ring of %i ends one wait, soon, and the others are then granted',
    exactOnly('a single request may be refused with 429 or 503'),
    async (size) => {
      const members = await ring(size);
      const startedAt = Date.now();
      const waits = members.map(async ({ id }, index) => {
        const wanted = members[(index + 1) % size]?.lock as ReturnType<typeof newLock>;
        const answer = await wanted.acquire({
          sessionId: id,
          leaseId: newLeaseId(),
          waitMs: 50_000,
          owner: `member ${index}`,
        });
        // A refused session releases its locks. A granted one works and ends.
        await end(id);
        return { ...answer, tookMs: Date.now() - startedAt };
      });
      const answers = await Promise.all(waits);
      const victims = answers.filter(({ status }) => status === 409);
      expect(victims).toHaveLength(1);
      expect(victims[0]?.body.code).toBe('deadlock');
      expect(victims[0]?.body.cycle).toHaveLength(size);
      for (const step of victims[0]?.body.cycle ?? []) {
        expect(step).toMatchObject({
          sessionId: expect.stringMatching(/^[0-9a-f]{12}$/),
          owner: expect.stringMatching(/^member \d$/),
        });
      }
      expect(victims[0]?.tookMs).toBeLessThan(20_000);
      expect(answers.filter(({ status }) => status === 200)).toHaveLength(size - 1);
    },
  );

  it('is not seen if a chain has an end, or if two share one session', async () => {
    const members = await ring(4);
    const waits = members
      .slice(0, 3)
      .map(({ id }, index) =>
        members[index + 1]?.lock.acquire({ sessionId: id, leaseId: newLeaseId(), waitMs: 20_000 }),
      );
    const last = members[3];
    await queued(last?.lock as ReturnType<typeof newLock>, 1);
    const worker = last?.lock.acquire({ sessionId: last.id, leaseId: newLeaseId(), waitMs: 20_000 });
    await queued(last?.lock as ReturnType<typeof newLock>, 2);
    await last?.lock.release(last.held);
    const answers = [];
    for (let index = 2; index >= 0; index--) {
      const answer = await waits[index];
      answers.push(answer?.status);
      await end(members[index]?.id as string);
      if (index === 2) expect((await worker)?.status).toBe(200);
    }
    expect(answers).toEqual([200, 200, 200]);
  });
});
