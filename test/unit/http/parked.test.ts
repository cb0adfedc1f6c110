import { describe, expect, it, vi } from 'vitest';
import { createHandler } from '../../../src/http/handler.ts';
import { queueSizes } from '../../../src/queue/pages.ts';
import { memoryService } from '../../../src/testing/memory-service.ts';
import { seededRandom, VirtualTime } from '../../../src/testing/virtual-time.ts';

/** A lock that is held, and how requests ask for it. */
async function heldLock() {
  const { service } = memoryService(new VirtualTime(), seededRandom(1), () => {});
  const handle = createHandler(service, { info: () => {}, error: () => {} });
  const acquire = async (asked: object) => {
    const { body } = await handle({
      id: 'request-7',
      operation: 'acquireLock',
      method: 'POST',
      path: '/v1/test/locks/gate/acquire',
      parameters: { ns: 'test', name: 'gate' },
      query: {},
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(asked),
      caller: 'anonymous',
    });
    return JSON.parse(body ?? 'null');
  };
  await acquire({});
  return { pages: service.locks.pages, acquire };
}

const leaseOf = (index: number) => `lease-waiter-${String(index).padStart(4, '0')}`;

describe('a parked waiter', () => {
  it('has one place, although a copy of its request calls its lease new when its page is full', async () => {
    const { acquire } = await heldLock();
    const parked = { waitMs: 60_000, place: 'new', notify: { type: 'event', ref: 'somebody' } };
    const places: unknown[] = [];
    for (let index = 0; index < queueSizes.front + queueSizes.page; index++)
      places.push((await acquire({ leaseId: leaseOf(index), ...parked })).place);
    expect(places.at(-1)).toBe(places[queueSizes.front]);
    const again = await acquire({ leaseId: leaseOf(queueSizes.front), ...parked });
    expect(again.place).toBe(places[queueSizes.front]);
  });
});

describe('a task token that is sent with the lease id of another task', () => {
  const taskOf = (token: string) => ({ waitMs: 60_000, notify: { type: 'task-token', token, always: true } });
  const refusal = {
    status: 409,
    code: 'lease-lost',
    reason: 'not_owner',
    detail: 'Another task token or callback has this leaseId. Each of them needs a leaseId of its own.',
  };

  it('is refused if the other one waits in the front, or in a page', async () => {
    const { acquire } = await heldLock();
    const places: unknown[] = [];
    for (let index = 0; index < queueSizes.front + 2; index++)
      places.push((await acquire({ leaseId: leaseOf(index), ...taskOf(`token ${index}`) })).place);
    expect(places.at(0)).toBeUndefined();
    expect(places.at(-1)).toBeGreaterThan(0);
    const [first, last] = [leaseOf(0), leaseOf(queueSizes.front + 1)];
    for (const leaseId of [first, last]) {
      expect(await acquire({ leaseId, ...taskOf('another') })).toMatchObject(refusal);
    }
    expect(await acquire({ leaseId: last, ...taskOf(`token ${queueSizes.front + 1}`) })).toMatchObject({
      status: 'waiting',
    });
  });

  it.each([0, queueSizes.front])('is refused if both come at the same time, behind %i others', async (others) => {
    const { acquire } = await heldLock();
    for (let index = 0; index < others; index++)
      await acquire({ leaseId: leaseOf(index), ...taskOf(`token ${index}`) });
    const both = ['one', 'two'].map((token) => acquire({ leaseId: leaseOf(others), ...taskOf(token) }));
    const answers = await Promise.all(both);
    expect(answers.filter(({ status }) => status === 'waiting')).toHaveLength(1);
    expect(answers.filter(({ code }) => code === 'lease-lost')).toMatchObject([refusal]);
  });

  it('learns nothing about the other token', async () => {
    const { acquire } = await heldLock();
    await acquire({ leaseId: leaseOf(1), ...taskOf('secret-token') });
    const answer = await acquire({ leaseId: leaseOf(1), ...taskOf('another') });
    expect(answer).toMatchObject(refusal);
    expect(JSON.stringify(answer)).not.toContain('secret-token');
  });
});

describe('a parked waiter behind the front', () => {
  it('is searched for in the pages only if its caller chose the lease, and may have sent it before', async () => {
    const { pages, acquire } = await heldLock();
    const parked = { waitMs: 60_000, notify: { type: 'event', ref: 'somebody' } };
    for (let index = 0; index <= queueSizes.front; index++) await acquire({ leaseId: leaseOf(index), ...parked });
    const search = vi.spyOn(pages, 'read');
    expect((await acquire(parked)).place).toBeGreaterThan(0);
    expect(search).not.toHaveBeenCalled();
    expect((await acquire({ leaseId: leaseOf(100), ...parked })).place).toBeGreaterThan(0);
    expect(search).toHaveBeenCalledTimes(1);
  });
});
