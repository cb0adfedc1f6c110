import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { decide } from '../../../src/lock/decide.ts';
import { lockLimits } from '../../../src/lock/limits.ts';
import { unusedLock } from '../../../src/lock/state.ts';
import { queueSizes } from '../../../src/queue/pages.ts';
import { awsTable } from '../../../src/table/aws/table.ts';
import { leaseNameOf } from '../../../src/table/digest.ts';
import { systemClock } from '../../../src/time/clock.ts';
import { exactOnly } from '../../support/engine.ts';
import { acquireOf } from '../../support/lock-worlds.ts';
import { storesOn } from '../../support/memory-table.ts';
import { lockAt, newLeaseId, startService, type TestService } from '../../support/service.ts';
import { type EventSink, startSink, startTasks, watch } from './sink.ts';

let sink: EventSink;
let tasks: Awaited<ReturnType<typeof startTasks>>;
let service: TestService;

beforeAll(async () => {
  [sink, tasks] = await Promise.all([startSink(), startTasks()]);
  service = await startService({ eventsUrl: sink.url, tasksUrl: tasks.url });
});

afterAll(async () => {
  await service.stop();
  await sink[Symbol.asyncDispose]();
  await tasks[Symbol.asyncDispose]();
});

const freshLock = () => {
  const name = randomUUID();
  return { name, ...lockAt(service.call, name) };
};

/** Parks this many waiters behind a holder, in order. Returns their leases by reference. */
async function park(lock: ReturnType<typeof freshLock>, count: number): Promise<Map<string, string>> {
  const leases = new Map<string, string>();
  for (let index = 0; index < count; index++) {
    const [ref, leaseId] = [`${lock.name} ${index}`, newLeaseId()];
    leases.set(ref, leaseId);
    const asked = { leaseId, waitMs: 3_600_000, leaseMs: 60_000, notify: { type: 'event', ref } };
    expect((await lock.acquire(asked)).status).toBe(202);
  }
  return leases;
}

/** Writes a holder and this many parked waiters at once, in the front and in pages. A request for each waiter would take long. */
async function parkAtOnce(name: string, holder: string, leases: ReadonlyMap<string, string>): Promise<void> {
  const facts = { now: systemClock.now(), graceMs: lockLimits.graceMs };
  const held = decide(unusedLock, acquireOf(leaseNameOf(holder), { leaseMs: 600_000 }), facts).next;
  const waiters = [...leases].map(([ref, leaseId]) => {
    const parked = { leaseMs: 60_000, waitMs: 3_600_000, attendMs: null, notify: { type: 'event', ref } } as const;
    const { answer } = decide(held, acquireOf(leaseNameOf(leaseId), parked), facts);
    if (answer.kind !== 'waiting') throw new Error(`Expected to wait, got ${answer.kind}.`);
    return answer.waiter;
  });
  const { region, credentials, endpoint } = { ...service.engine, region: inject('engine').region };
  const { client, table } = awsTable({ region, credentials, endpoint });
  const { store, pages } = storesOn({ table, tableName: service.table });
  const lock = { namespace: 'test', name };
  const behind = waiters.slice(queueSizes.front);
  const last = Math.ceil(behind.length / queueSizes.page);
  const queue = waiters.slice(0, queueSizes.front);
  expect(
    (await store.write(lock, { kind: 'replace', next: { ...held, rev: 1, queue, behind: { first: 1, last } } }))
      .applied,
  ).toBe(true);
  for (const [index, waiter] of behind.entries()) {
    const page = { lock, number: 1 + Math.floor(index / queueSizes.page) };
    await pages.write(page, { kind: 'join', waiter, fence: held.fence, sizes: queueSizes });
  }
  client.destroy();
}

const refsOf = (name: string) => sink.toldRefs().filter((ref) => ref.startsWith(name));

describe.concurrent('a lock that is granted at once', () => {
  it('is delivered by task token if that was requested, and by nothing otherwise', async () => {
    const [quiet, told] = [freshLock(), freshLock()];
    const asked = (token: string) => ({ waitMs: 60_000, notify: { type: 'task-token', token } });
    expect((await quiet.acquire({ ...asked('quiet'), leaseId: newLeaseId() })).status).toBe(200);
    const token = `${told.name}${'t'.repeat(2_048 - told.name.length)}`;
    const leaseId = newLeaseId();
    const always = { waitMs: 60_000, notify: { type: 'task-token', token, always: true } };
    const { status, body } = await told.acquire({ ...always, leaseId });
    expect(status).toBe(200);
    const call = await tasks.calls.until(({ taskToken }) => taskToken === token);
    expect(call).toMatchObject({ action: 'SendTaskSuccess' });
    expect(JSON.parse(String(call.output))).toMatchObject({ leaseId, fence: body.fence, waitedMs: 0 });
    expect(tasks.calls.all.filter(({ taskToken }) => taskToken === 'quiet')).toEqual([]);
  });
});

describe.concurrent('parked waiters', () => {
  it(
    'are granted in order with one delivery each, while none of them runs',
    exactOnly('a delivery may be made again'),
    async () => {
      const lock = freshLock();
      const first = await lock.acquire({ leaseMs: 600_000 });
      const leases = await park(lock, 50);
      await lock.release(first.body.leaseId);
      const fences: number[] = [first.body.fence];
      for (const [ref, leaseId] of leases) {
        const { detail } = await sink.told(ref);
        expect(detail).toEqual({
          namespace: 'test',
          lock: lock.name,
          ref,
          owner: 'anonymous',
          fence: expect.any(Number),
          remainingMs: expect.any(Number),
        });
        fences.push(detail.fence);
        expect((await lock.release(leaseId)).body).toEqual({ released: true, reason: 'ok' });
      }
      expect(refsOf(lock.name)).toEqual([...leases.keys()]);
      expect(fences).toEqual([...fences].sort((one, other) => one - other));
      expect(new Set(fences).size).toBe(51);
    },
  );

  it('make one grant and one delivery for one release, for any number of waiters', async () => {
    const lock = freshLock();
    const holder = newLeaseId();
    const leases = new Map(Array.from({ length: 200 }, (_, index) => [`${lock.name} ${index}`, newLeaseId()]));
    await parkAtOnce(lock.name, holder, leases);
    const { fence, queueDepth } = (await lock.inspect()).body;
    expect(queueDepth).toBe(200);
    await lock.release(holder);
    await sink.told(`${lock.name} 0`);
    await lock.release(leases.get(`${lock.name} 0`) ?? '');
    await sink.told(`${lock.name} 1`);
    // A delivery for another lock comes later in the same stream. When it comes, nothing of this lock is outstanding.
    const other = freshLock();
    const otherHolder = await other.acquire();
    await park(other, 1);
    await other.release(otherHolder.body.leaseId);
    await sink.told(`${other.name} 0`);
    expect(refsOf(lock.name)).toEqual([`${lock.name} 0`, `${lock.name} 1`]);
    expect((await lock.inspect()).body).toMatchObject({ queueDepth: 198, fence: fence + 2 });
  });

  it('are notified soon after the lease of a dead holder could be taken over', exactOnly('measures time'), async () => {
    const lock = freshLock();
    const dead = await lock.acquire({ leaseMs: 4_000 });
    await park(lock, 1);
    await sink.told(`${lock.name} 0`);
    const lateMs = Date.now() - Date.parse(dead.body.expiresAt) - lockLimits.graceMs;
    expect(lateMs).toBeGreaterThanOrEqual(0);
    // The timer did it: the sweep of all locks comes only once a minute.
    expect(lateMs).toBeLessThan(30_000);
  });

  it('get no delivery for a grant that the answer contained', async () => {
    const lock = freshLock();
    const asked = { waitMs: 1_000, notify: { type: 'event', ref: `${lock.name} at once` } };
    expect((await lock.acquire(asked)).status).toBe(200);
    const other = freshLock();
    const holder = await other.acquire();
    await park(other, 1);
    await other.release(holder.body.leaseId);
    await sink.told(`${other.name} 0`);
    expect(refsOf(lock.name)).toEqual([]);
  });
});

describe.concurrent('a waiter by WebSocket', () => {
  it('alone receives its grant with the lease', async () => {
    const lock = freshLock();
    const [own, stranger] = await Promise.all([
      watch(service.url, `namespace=test&lock=${lock.name}`),
      watch(service.url, 'namespace=test&prefix='),
    ]);
    const holder = await lock.acquire();
    const leaseId = newLeaseId();
    const notify = { type: 'websocket', connectionId: own.connectionId };
    await lock.acquire({ leaseId, waitMs: 60_000, leaseMs: 60_000, notify });
    await lock.release(holder.body.leaseId);
    const granted = await own.messages.until((message) => message.leaseId !== undefined);
    expect(granted).toEqual({
      type: 'granted',
      lock: lock.name,
      leaseId,
      fence: holder.body.fence + 1,
      remainingMs: expect.any(Number),
    });
    await stranger.messages.until((message) => message.type === 'granted' && message.fence === granted.fence);
    expect(JSON.stringify(stranger.messages.all)).not.toContain(leaseId);
    await lock.release(leaseId);
    await Promise.all([own.close(), stranger.close()]);
  });

  it('is followed at once by the next waiter if its connection is closed', async () => {
    const lock = freshLock();
    const holder = await lock.acquire({ leaseMs: 600_000 });
    const gone = await watch(service.url, `namespace=test&lock=${lock.name}`);
    const notify = { type: 'websocket', connectionId: gone.connectionId };
    // Nobody could use this lease. If the next waiter had to wait for its end, this test would run into its timeout.
    await lock.acquire({ waitMs: 600_000, leaseMs: 3_600_000, notify });
    await park(lock, 1);
    await gone.close();
    await lock.release(holder.body.leaseId);
    const { detail } = await sink.told(`${lock.name} 0`);
    expect(detail.fence).toBe(holder.body.fence + 2);
  });
});

describe.concurrent('a waiter by task token', () => {
  it('has its task succeed with the grant', async () => {
    const lock = freshLock();
    const holder = await lock.acquire();
    const [leaseId, token] = [newLeaseId(), `token-${randomUUID()}`];
    await lock.acquire({ leaseId, waitMs: 60_000, notify: { type: 'task-token', token } });
    await lock.release(holder.body.leaseId);
    const { action, output } = await tasks.calls.until(({ taskToken }) => taskToken === token);
    expect([action, JSON.parse(output ?? '')]).toEqual([
      'SendTaskSuccess',
      expect.objectContaining({ namespace: 'test', lock: lock.name, leaseId, fence: holder.body.fence + 1 }),
    ]);
    await lock.release(leaseId);
  });

  it('has its task fail at the end of its wait', async () => {
    const lock = freshLock();
    await lock.acquire({ leaseMs: 60_000 });
    const token = `token-${randomUUID()}`;
    await lock.acquire({ waitMs: 2_000, notify: { type: 'task-token', token } });
    const failed = await tasks.calls.until(({ taskToken }) => taskToken === token);
    expect(failed).toMatchObject({ action: 'SendTaskFailure', error: 'Holdfast.WaitTimeout' });
  });

  it('is followed at once by the next waiter if its task is gone', async () => {
    const lock = freshLock();
    const holder = await lock.acquire();
    await lock.acquire({
      waitMs: 60_000,
      leaseMs: 60_000,
      notify: { type: 'task-token', token: `gone-${randomUUID()}` },
    });
    await park(lock, 1);
    await lock.release(holder.body.leaseId);
    expect((await sink.told(`${lock.name} 0`)).detail.fence).toBe(holder.body.fence + 2);
  });
});
