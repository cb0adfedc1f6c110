import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { exactOnly, untilIndexesFollow } from '../../support/engine.ts';
import { eventually } from '../../support/eventually.ts';
import { lockAt, newLeaseId, startService, type TestService } from '../../support/service.ts';

let service: TestService;
let patientService: TestService;
beforeAll(async () => {
  service = await startService({ pollMs: 1_000 });
  patientService = await startService({ table: service.table });
});
afterAll(async () => {
  await service.stop();
  await patientService.stop();
});

const many = (verb: string, body: object, { call } = service) => call('POST', `/v1/test/multi-locks/${verb}`, body);
const names = (count: number) => {
  const run = randomUUID().slice(0, 8);
  return Array.from({ length: count }, (_, index) => `${run}:${index}`);
};
const lock = (name: string) => lockAt(service.call, name);
const stateOf = async (name: string) => (await lock(name).inspect()).body;

/** Waits as a client does: it repeats the same request. */
async function acquireAll(body: object) {
  for (;;) {
    const answer = await many('acquire', body);
    if (answer.status !== 202) return answer;
  }
}

describe.concurrent('a try of several locks', () => {
  it.each([1, 2, 50])('takes all %i, each with its own fence, in the order asked', async (count) => {
    const locks = names(count).reverse();
    const leaseId = newLeaseId();
    const granted = await many('acquire', { locks, leaseId, leaseMs: 10_000 });
    expect(granted.status, JSON.stringify(granted.body)).toBe(200);
    expect(granted.body).toMatchObject({ status: 'granted', leaseId, waitedMs: 0 });
    expect(granted.body.grants.map((grant: { lock: string }) => grant.lock)).toEqual(locks);
    const again = await many('acquire', { locks, leaseId, leaseMs: 10_000 });
    expect(again.body.grants).toEqual(granted.body.grants);
    const released = await many('release', { leaseId, locks });
    expect(released.body).toEqual({ released: locks, failed: [] });
    // If the store sends a release twice, the second try may take what it finds for the effect of the first.
    if (inject('engine').harsh) return;
    expect((await many('release', { leaseId, locks })).body).toMatchObject({
      released: [],
      failed: locks.map((name) => ({ lock: name, reason: 'already_released' })),
    });
  });

  it('takes none if one is held, and says which', async () => {
    const [a, b, c] = names(3) as [string, string, string];
    await lock(b).acquire({ owner: 'in the way' });
    const refused = await many('acquire', { locks: [a, b, c] });
    expect(refused).toMatchObject({
      status: 409,
      body: { code: 'lock-held', blockedBy: [b], holders: [{ owner: 'in the way' }] },
    });
    for (const name of [a, c]) expect(await stateOf(name)).toMatchObject({ state: 'free', fence: 0 });
  });

  it('mixes kinds', async () => {
    const [a, b, c] = names(3) as [string, string, string];
    await lock(b).acquire({ limit: 3 });
    await lock(c).acquire({ mode: 'shared' });
    const granted = await many('acquire', {
      locks: [a, { name: b, limit: 3, permits: 2 }, { name: c, mode: 'shared' }],
    });
    expect(granted.status).toBe(200);
    expect((await stateOf(b)).holders).toHaveLength(2);
    const mismatch = await many('acquire', { locks: [{ name: b, limit: 4 }] });
    expect(mismatch.body).toMatchObject({ code: 'limit-mismatch', limit: 3, blockedBy: [b] });
  });

  it(
    'is all or nothing even with other writes at the same time',
    exactOnly('a single request may be refused with 429 or 503'),
    async () => {
      const locks = names(3);
      let stop = false;
      const traffic = locks.map(async (name) => {
        while (!stop) {
          const { status, body } = await lock(name).acquire();
          if (status === 200) await lock(name).release(body.leaseId);
        }
      });
      let taken = 0;
      for (let round = 0; round < 15; round++) {
        const leaseId = newLeaseId();
        const answer = await acquireAll({ locks, leaseId, waitMs: 120_000, owner: 'multi' });
        expect(answer.status, JSON.stringify(answer.body)).toBe(200);
        taken += 1;
        const holders = await Promise.all(locks.map(async (name) => (await stateOf(name)).holders[0]?.owner));
        expect(holders).toEqual(['multi', 'multi', 'multi']);
        expect((await many('release', { leaseId, locks })).body.released).toEqual(locks);
      }
      stop = true;
      await Promise.all(traffic);
      expect(taken).toBe(15);
    },
  );

  it.each([
    [{ locks: [] }, 'locks'],
    [{ locks: ['a', 'a'] }, 'locks'],
    [{ locks: ['a', { name: 'a' }] }, 'locks'],
    [{ locks: Array.from({ length: 51 }, (_, index) => `l${index}`) }, 'locks'],
    [{ locks: ['-bad'] }, 'locks.0'],
    [{ locks: ['a'], metadata: {} }, 'metadata'],
  ])('refuses %j', async (body, field) => {
    const refused = await many('acquire', body);
    expect(refused.status).toBe(400);
    expect(refused.body.errors[0].field).toBe(field);
  });
});

describe.concurrent('a wait for several locks', () => {
  it(
    'gets all when they become free, and its full lease begins then',
    exactOnly('after a 503, the repeat gets the grant as it is'),
    async () => {
      const [a, b] = names(2) as [string, string];
      const holder = newLeaseId();
      await lock(b).acquire({ leaseId: holder });
      const leaseId = newLeaseId();
      // One request for the whole wait. If its poll ended at the release, the repeat would get the grant as it is.
      const asked = { locks: [b, a], leaseId, waitMs: 55_000, leaseMs: 10_000, owner: 'patient' };
      const waiting = many('acquire', asked, patientService);
      await eventually(async () => expect((await stateOf(b)).queueDepth).toBe(1));
      expect((await stateOf(a)).holders).toMatchObject([{ owner: 'patient' }]);
      const releasedAt = Date.now();
      await lock(b).release(holder);
      const granted = await waiting;
      expect(granted.status, JSON.stringify(granted.body)).toBe(200);
      expect(granted.body.grants.map((grant: { lock: string }) => grant.lock)).toEqual([b, a]);
      expect(Date.parse(granted.body.expiresAt)).toBeGreaterThanOrEqual(releasedAt + 10_000);
      expect(granted.body.waitedMs).toBeGreaterThan(0);
      const renewed = await many('renew', { leaseId, locks: [a, b], leaseMs: 20_000 });
      expect(renewed.body.remainingMs).toBeGreaterThan(12_000);
    },
  );

  it('that times out holds nothing', async () => {
    const [a, b] = names(2) as [string, string];
    await lock(b).acquire({ owner: 'in the way' });
    const beganAt = Date.now();
    const answer = await acquireAll({ locks: [a, b], leaseId: newLeaseId(), waitMs: 1_500 });
    // Two clocks are compared, so a few milliseconds mean nothing.
    expect(Date.now() - beganAt).toBeGreaterThan(1_450);
    expect(answer).toMatchObject({ status: 409, body: { code: 'wait-timeout', blockedBy: [b] } });
    expect(answer.body.waitedMs).toBeGreaterThan(0);
    expect(answer.body.waitedMs).toBeLessThan(20_000);
    expect(await stateOf(a)).toMatchObject({ state: 'free' });
    expect((await stateOf(b)).queueDepth).toBe(0);
  });

  it(
    'in opposite orders never deadlocks and never starves',
    exactOnly('a single request may be refused with 429 or 503'),
    async () => {
      const [a, b] = names(2) as [string, string];
      const run = async (locks: string[]) => {
        let rounds = 0;
        for (; rounds < 15; rounds++) {
          const leaseId = newLeaseId();
          const answer = await acquireAll({ locks, leaseId, waitMs: 120_000 });
          expect(answer.status, JSON.stringify(answer.body)).toBe(200);
          expect((await many('release', { leaseId, locks })).body.failed).toEqual([]);
        }
        return rounds;
      };
      expect(await Promise.all([run([a, b]), run([b, a]), run([a, b])])).toEqual([15, 15, 15]);
    },
  );

  it('renews all or nothing', async () => {
    const [a, b] = names(2) as [string, string];
    const leaseId = newLeaseId();
    await many('acquire', { locks: [a, b], leaseId, leaseMs: 10_000 });
    const before = (await stateOf(a)).holders[0];
    await lock(b).release(leaseId);
    const refused = await many('renew', { leaseId, locks: [a, b], leaseMs: 60_000 });
    expect(refused).toMatchObject({ status: 409, body: { code: 'lease-lost', reason: 'released', blockedBy: [b] } });
    expect((await stateOf(a)).holders[0].remainingMs).toBeLessThanOrEqual(before.remainingMs);
  });

  it('under a session ends with it', async () => {
    const [a, b] = names(2) as [string, string];
    const { sessionId } = (await service.call('POST', '/v1/test/sessions', { ttlMs: 30_000 })).body;
    const granted = await many('acquire', { locks: [a, b], sessionId });
    expect(granted.status, JSON.stringify(granted.body)).toBe(200);
    expect(granted.body.remainingMs).toBeGreaterThan(20_000);
    // The locks of a session are counted by an index.
    await untilIndexesFollow();
    expect((await service.call('DELETE', `/v1/test/sessions/${sessionId}`)).body).toEqual({ ended: true, released: 2 });
    expect((await stateOf(a)).state).toBe('free');
    expect((await many('acquire', { locks: [a, b], sessionId })).status).toBe(410);
  });
});
