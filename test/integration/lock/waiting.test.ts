import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { lockLimits } from '../../../src/lock/limits.ts';
import { exactOnly } from '../../support/engine.ts';
import { eventually } from '../../support/eventually.ts';
import { lockAt, newLeaseId, startService, type TestService } from '../../support/service.ts';

const pollMs = 300;
let service: TestService;
let otherProcess: TestService;
beforeAll(async () => {
  service = await startService({ pollMs });
  otherProcess = await startService({ table: service.table });
});
afterAll(async () => {
  await service.stop();
  await otherProcess.stop();
});

const newLock = () => {
  const name = randomUUID();
  return { ...lockAt(service.call, name), elsewhere: lockAt(otherProcess.call, name) };
};
type Lock = ReturnType<typeof newLock>;

const owners = async (lock: Lock) => (await lock.inspect()).body.queue.map(({ owner }: { owner: string }) => owner);
async function queued(lock: Lock, depth: number): Promise<void> {
  await eventually(async () => expect((await lock.inspect()).body.queueDepth).toBeGreaterThanOrEqual(depth));
}

/** Repeats the request as a caller does: on a busy machine a short poll may end before the lock is released. */
async function untilGranted(lock: Lock, request: object): ReturnType<Lock['acquire']> {
  for (;;) {
    const answer = await lock.acquire(request);
    if (answer.status !== 202) return answer;
  }
}

describe.concurrent('a long poll', () => {
  it('answers 202 when it ends, and the same request goes on in the same place', async () => {
    const lock = newLock();
    const held = await lock.acquire({ owner: 'holder' });
    const leaseId = newLeaseId();
    const request = { leaseId, waitMs: 30_000, owner: 'patient' };
    const waiting = await lock.acquire(request);
    expect(waiting.status).toBe(202);
    expect(waiting.body).toMatchObject({
      status: 'waiting',
      leaseId,
      position: 1,
      queueDepth: 1,
      etaMs: null,
      retryAfterMs: 0,
    });
    expect(waiting.body.holders).toMatchObject([{ owner: 'holder', fence: held.body.fence }]);
    expect(waiting.body.waitRemainingMs).toBeLessThan(30_000);

    const behind = lock.acquire({ leaseId: newLeaseId(), waitMs: 30_000, owner: 'behind' });
    await queued(lock, 2);
    const resumed = untilGranted(lock, request);
    await lock.release(held.body.leaseId);
    const granted = await resumed;
    expect(granted).toMatchObject({ status: 200, body: { leaseId, status: 'granted' } });
    expect(granted.body.waitedMs).toBeGreaterThanOrEqual(pollMs);
    expect(granted.body.remainingMs).toBeGreaterThan(20_000);
    await lock.release(leaseId);
    expect([200, 202]).toContain((await behind).status);
  });

  it(
    'answers wait-timeout at the deadline, and the waiter has left the queue',
    exactOnly('a request may take longer than this wait'),
    async () => {
      const lock = newLock();
      await lock.acquire({ owner: 'holder' });
      // On the other process, whose polls are long: only the deadline ends this one.
      const timedOut = await lock.elsewhere.acquire({ waitMs: 150, owner: 'impatient' });
      expect(timedOut).toMatchObject({ status: 409, body: { code: 'wait-timeout', holders: [{ owner: 'holder' }] } });
      expect(timedOut.body.waitedMs).toBeGreaterThanOrEqual(145);
      expect(await owners(lock)).toEqual([]);
    },
  );

  it('estimates the rest of the wait after the queue has moved', async () => {
    // A poll that is long enough for the queue to move, even on a busy machine.
    const patient = await startService({ pollMs: 6_000, table: service.table });
    const lock = { ...newLock(), ...lockAt(patient.call, randomUUID()) };
    let holder = (await lock.acquire()).body.leaseId;
    const next = newLeaseId();
    const second = untilGranted(lock, { leaseId: next, waitMs: 60_000 });
    await queued(lock, 1);
    const last = lock.acquire({ waitMs: 60_000 });
    await queued(lock, 2);
    await lock.release(holder);
    holder = (await second).body.leaseId;
    const waiting = await last;
    expect(waiting.status).toBe(202);
    expect(waiting.body.position).toBe(1);
    expect(waiting.body.etaMs).toBeGreaterThan(0);
    await lock.release(holder);
    await patient.stop();
  });
});

describe.concurrent('a waiter', () => {
  it(
    'that cancels gives up its place, and its late duplicate does not join again',
    exactOnly('a repeat after a lost answer is told that its first try did it'),
    async () => {
      const lock = newLock();
      await lock.acquire({ owner: 'holder' });
      const leaseId = newLeaseId();
      const request = { leaseId, waitMs: 30_000, owner: 'fickle' };
      // On the other process, whose polls are long: only the release ends this one.
      const waiting = lock.elsewhere.acquire(request);
      await queued(lock, 1);
      expect((await lock.release(leaseId)).body).toEqual({ released: true, reason: 'cancelled' });
      expect(await waiting).toMatchObject({ status: 409, body: { code: 'lease-lost', reason: 'released' } });
      expect((await lock.release(leaseId)).body).toEqual({ released: false, reason: 'already_released' });
      expect(await lock.acquire(request)).toMatchObject({ status: 409, body: { code: 'lease-lost' } });
      expect(await owners(lock)).toEqual([]);
    },
  );

  it('whose connection broke keeps its place for a while, then loses it', async () => {
    const lock = newLock();
    const held = await lock.acquire({ owner: 'holder', leaseMs: 60_000 });
    const gone = new AbortController();
    const lost = { leaseId: newLeaseId(), waitMs: 60_000, owner: 'cut off' };
    // A long poll on the other process. Only the broken connection ends it.
    const cut = lock.elsewhere.acquire(lost, { signal: gone.signal }).catch(() => 'cut');
    await queued(lock, 1);
    gone.abort();
    expect(await cut).toBe('cut');
    expect(await owners(lock)).toEqual(['cut off']);
    const returned = untilGranted(lock, lost);
    await lock.release(held.body.leaseId);
    expect((await returned).status).toBe(200);
    await lock.release(lost.leaseId);

    const again = new AbortController();
    const holder = await lock.acquire({ owner: 'holder', leaseMs: 60_000 });
    const vanished = lock.elsewhere
      .acquire({ leaseId: newLeaseId(), waitMs: 60_000, owner: 'vanished' }, { signal: again.signal })
      .catch(() => 'cut');
    await queued(lock, 1);
    again.abort();
    await vanished;
    const leftAt = Date.now();
    while ((await owners(lock)).length > 0) await new Promise((resolve) => setTimeout(resolve, 50));
    expect(Date.now() - leftAt).toBeGreaterThan(lockLimits.waiterAbsenceMs - 500);
    // Long before its wait of a minute is over.
    expect(Date.now() - leftAt).toBeLessThan(30_000);
    await lock.release(holder.body.leaseId);
    expect((await lock.inspect()).body).toMatchObject({ state: 'free' });
  });
});

describe.concurrent('two services on one table', () => {
  it('pass a lock to each other: the stream wakes the waiter of the other', async () => {
    const lock = newLock();
    const held = await lock.acquire();
    const leaseId = newLeaseId();
    const waiting = lock.elsewhere.acquire({ leaseId, waitMs: 60_000 });
    await queued(lock, 1);
    const releasedAt = Date.now();
    await lock.release(held.body.leaseId);
    const granted = await waiting;
    expect(granted).toMatchObject({ status: 200, body: { leaseId } });
    // Nothing else would have woken it before the end of its poll.
    expect(Date.now() - releasedAt).toBeLessThan(15_000);
    await lock.elsewhere.release(leaseId);
  });
});
