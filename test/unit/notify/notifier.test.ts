import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { lockLimits } from '../../../src/lock/limits.ts';
import { historyView } from '../../../src/notify/change-events.ts';
import { createNotifier } from '../../../src/notify/notifier.ts';
import type { Meter } from '../../../src/notify/ports.ts';
import { createPublisher } from '../../../src/notify/publisher.ts';
import { historyPage } from '../../../src/service/look.ts';
import { createSession } from '../../../src/service/sessions.ts';
import type { HistoryEntry } from '../../../src/store/history.ts';
import { epochMs, toIso } from '../../../src/time/clock.ts';
import { lockIn, outOfReach, requestName, storesOn } from '../../support/memory-table.ts';
import { createWorld, lockKey, settled, type World } from './world.ts';

const holder = 'lease-holder-00001';
const waiter = 'lease-waiter-00001';
const nextWaiter = 'lease-waiter-00002';
const event = (ref: string) => ({ type: 'event', ref }) as const;
const token = (value: string) => ({ type: 'task-token', token: value }) as const;
const callback = (id: string) => ({ type: 'durable-callback', id }) as const;
const socket = (connectionId: string) => ({ type: 'websocket', connectionId }) as const;

/** A lock that is held, with these waiters parked behind its holder. */
async function heldWorld(...ways: Parameters<World['park']>[1][]): Promise<World> {
  const world = createWorld();
  await world.acquire(holder);
  for (const [index, way] of ways.entries()) await world.park(`lease-waiter-0000${index + 1}`, way);
  await world.drain();
  return world;
}

describe('a delivery to a parked waiter', () => {
  it('publishes the grant with its own reference, without the lease', async () => {
    const world = await heldWorld(event('order 7'));
    await world.clock.advance(1_000);
    await world.release(holder);
    await world.drain();
    const [told, ...more] = world.published.filter(({ detailType }) => detailType === 'granted-to-waiter');
    expect(more).toEqual([]);
    const { fence } = (await world.store.read(lockKey)).holders[0] ?? {};
    expect(told?.detail).toEqual({
      namespace: 'test',
      lock: 'wallet',
      ref: 'order 7',
      owner: `owner of ${waiter}`,
      fence,
      remainingMs: 10_000,
    });
  });

  it('answers a task token with the grant and its lease', async () => {
    const world = await heldWorld(token('token-1'));
    await world.clock.advance(1_000);
    await world.release(holder);
    await world.drain();
    const { fence } = (await world.store.read(lockKey)).holders[0] ?? {};
    const output = {
      status: 'granted',
      namespace: 'test',
      lock: 'wallet',
      leaseId: waiter,
      owner: `owner of ${waiter}`,
      fence,
      remainingMs: 10_000,
      expiresAt: toIso(epochMs(world.clock.now() + 10_000)),
      waitedMs: 1_000,
    };
    expect(world.tasks).toEqual([{ token: 'token-1', output }]);
  });

  it('is logged with the lock, the fence, the way and the time since the grant', async () => {
    const world = await heldWorld(token('token-1'));
    await world.release(holder);
    await world.clock.advance(70);
    await world.drain();
    const { fence } = (await world.store.read(lockKey)).holders[0] ?? {};
    expect(world.logged).toEqual([
      {
        message: 'A grant was delivered to its waiter.',
        fields: { namespace: 'test', lock: 'wallet', fence, by: 'task-token', afterMs: 70 },
      },
    ]);
  });

  it('never has the grant of another holder, if the waiter has lost its own', async () => {
    const world = createWorld();
    const part = { limit: 2, permits: 1 };
    for (const leaseId of [holder, 'lease-holder-00002']) await world.acquire(leaseId, part);
    await world.park(waiter, token('late'), part);
    await world.release(holder);
    await world.release(waiter);
    await world.drain();
    expect(world.tasks).toEqual([{ token: 'late', error: 'Holdfast.LeaseLost' }]);
  });

  it('is tried again if the bus does not take it for a moment, and nothing is given up', async () => {
    const world = await heldWorld(event('first'), event('next'));
    world.ways.publish = ({ detailType }) => detailType !== 'granted-to-waiter';
    await world.release(holder);
    expect(await world.drain()).toHaveLength(1);
    expect((await world.store.read(lockKey)).holders[0]?.leaseId).toBe(waiter);
    world.ways.publish = () => true;
    await world.deliver(world.records());
    expect(world.toldRefs()).toEqual(['first']);
  });

  it('completes the callback of a durable function with the grant and its lease', async () => {
    const world = await heldWorld(callback('callback/1'));
    await world.release(holder);
    await world.drain();
    const output = expect.objectContaining({ status: 'granted', lock: 'wallet', leaseId: waiter });
    expect(world.tasks).toEqual([{ token: 'callback/1', output }]);
  });

  it.each([
    ['its place was given up', 'Holdfast.WaitCancelled', (world: World) => world.release(waiter)],
    ['its wait is over', 'Holdfast.WaitTimeout', (world: World) => world.do({ kind: 'give-up', leaseId: waiter })],
  ])('fails the callback of a durable function if %s', async (_, error, end) => {
    const world = await heldWorld(callback('callback/1'));
    await end(world);
    await world.drain();
    expect(world.tasks).toEqual([{ token: 'callback/1', error }]);
  });

  it('gives up the grant of a callback that is gone', async () => {
    const world = await heldWorld(callback('callback/1'), callback('callback/2'));
    world.ways.task = async (id) => (id === 'callback/1' ? 'gone' : 'sent');
    await world.release(holder);
    await world.drain();
    await world.drain();
    expect(world.tasks).toEqual([{ token: 'callback/2', output: expect.objectContaining({ leaseId: nextWaiter }) }]);
  });

  it.each([
    { ...token('token-1'), always: true },
    { ...callback('callback/1'), always: true },
  ])('delivers a grant without waiting if asked to, and once: $type', async (notify) => {
    const world = createWorld();
    await world.park(waiter, notify);
    await world.drain();
    await world.deliver(world.records());
    const output = expect.objectContaining({ leaseId: waiter, waitedMs: 0 });
    expect(world.tasks).toEqual([{ token: 'token' in notify ? notify.token : notify.id, output }]);
  });

  it('posts the grant to the connection that waits, and to no other', async () => {
    const world = await heldWorld(socket('connection-1'));
    await world.release(holder);
    await world.drain();
    const { fence } = (await world.store.read(lockKey)).holders[0] ?? {};
    const message = { type: 'granted', lock: 'wallet', leaseId: waiter, fence, remainingMs: 10_000 };
    expect(world.posted.map(({ connectionId, text }) => [connectionId, JSON.parse(text)])).toEqual([
      ['connection-1', message],
    ]);
  });

  it('delivers nothing to a caller that was granted at once, because it got the answer', async () => {
    const world = createWorld();
    await world.park(waiter, event('at once'));
    await world.drain();
    expect([world.toldRefs(), await world.historyTypes()]).toEqual([[], ['granted']]);
  });

  it('is made once, even if the record comes again to another notifier', async () => {
    const world = await heldWorld(event('once'));
    await world.release(holder);
    await world.drain();
    await world.deliver(world.records());
    world.restart();
    await world.deliver(world.records());
    expect(world.toldRefs()).toEqual(['once']);
  });

  it('is made again if the notifier died before it wrote that it was made', async () => {
    const world = await heldWorld(event('twice'));
    await world.release(holder);
    const { markDelivered } = world.ports.deliveries;
    world.ports.deliveries.markDelivered = () => Promise.reject(new Error('died'));
    expect(await world.drain()).toHaveLength(1);
    world.ports.deliveries.markDelivered = markDelivered;
    world.restart();
    await world.deliver(world.records());
    expect(world.toldRefs()).toEqual(['twice', 'twice']);
  });

  it('is not made for a grant that is over when the record comes', async () => {
    const world = await heldWorld(event('late'), token('late-token'));
    await world.release(holder);
    await world.release(waiter);
    await world.release(nextWaiter);
    await world.drain();
    expect([world.toldRefs(), world.tasks]).toEqual([[], [{ token: 'late-token', error: 'Holdfast.LeaseLost' }]]);
  });

  it('gives the grant up at once if a task token is gone, and delivers to the next waiter', async () => {
    const world = await heldWorld(token('gone'), event('next'));
    world.ways.task = async () => 'gone';
    await world.release(holder);
    expect(await world.drain()).toEqual([]);
    expect(world.toldRefs()).toEqual(['next']);
    expect((await world.store.read(lockKey)).holders.map(({ leaseId }) => leaseId)).toEqual([nextWaiter]);
  });

  it('keeps the grant of a closed connection as long as its client may be absent', async () => {
    const world = await heldWorld(socket('gone'), event('next'));
    world.ways.post = async () => 'gone';
    await world.release(holder);
    expect(await world.drain()).toEqual([]);
    const [kept] = (await world.store.read(lockKey)).holders;
    expect(kept).toMatchObject({ leaseId: waiter, expiresAt: world.clock.now() + lockLimits.waiterAbsenceMs });
    await world.clock.advance(lockLimits.waiterAbsenceMs + lockLimits.graceMs);
    await world.do({ kind: 'sweep' });
    expect(await world.drain()).toEqual([]);
    expect(world.toldRefs()).toEqual(['next']);
  });

  it.each([
    ['a task, which is over once it was answered', token('heard')],
    ['a connection that was closed after it was told', socket('heard')],
  ])('does not give up the grant of %s when the record comes again', async (_what, way) => {
    const world = await heldWorld(way, event('next'));
    const { markDelivered } = world.ports.deliveries;
    world.ports.deliveries.markDelivered = () => Promise.reject(new Error('died'));
    await world.release(holder);
    expect(await world.drain()).toHaveLength(1);
    world.ports.deliveries.markDelivered = markDelivered;
    world.restart();
    world.ways.task = async () => 'gone';
    world.ways.post = async () => 'gone';
    expect(await world.deliver(world.records())).toEqual({ batchItemFailures: [] });
    expect((await world.store.read(lockKey)).holders.map(({ leaseId }) => leaseId)).toEqual([waiter]);
    expect(world.toldRefs()).toEqual([]);
  });

  it('does not give up a grant that its owner got by a repeat and renewed', async () => {
    const world = await heldWorld(token('answered'), event('next'));
    await world.release(holder);
    await world.clock.advance(100);
    await world.do({ kind: 'renew', leaseId: waiter });
    world.ways.task = async () => 'gone';
    expect(await world.drain()).toEqual([]);
    expect((await world.store.read(lockKey)).holders.map(({ leaseId }) => leaseId)).toEqual([waiter]);
  });

  it('does not give up a grant that its owner renews at the same moment', async () => {
    const world = await heldWorld(token('answered'), event('next'));
    await world.release(holder);
    world.ways.task = async () => 'gone';
    world.table.beforeNext('replace', async () => {
      await world.clock.advance(1);
      await world.do({ kind: 'renew', leaseId: waiter });
    });
    expect(await world.drain()).toEqual([]);
    expect((await world.store.read(lockKey)).holders.map(({ leaseId }) => leaseId)).toEqual([waiter]);
  });

  it('does not give up a grant that another notifier delivered in the meantime', async () => {
    const world = await heldWorld(token('heard by another'), event('next'));
    world.ways.task = async () => {
      // Another notifier with the same record was faster: the task is over because it got its delivery.
      await world.ports.deliveries.begin(lockKey, (await world.store.read(lockKey)).fence);
      return 'gone';
    };
    await world.release(holder);
    expect(await world.drain()).toEqual([]);
    expect((await world.store.read(lockKey)).holders.map(({ leaseId }) => leaseId)).toEqual([waiter]);
  });

  it('is tried again after a short failure, and nothing is given up', async () => {
    const world = await heldWorld(token('token-1'), event('next'));
    world.ways.task = () => Promise.reject(new Error('throttled'));
    await world.release(holder);
    const failures = await world.drain();
    const record = world.records().at(-1);
    expect(failures).toEqual([record?.dynamodb?.SequenceNumber]);
    expect((await world.store.read(lockKey)).holders[0]?.leaseId).toBe(waiter);

    world.ways.task = async () => 'sent';
    const before = world.published.length;
    expect(await world.deliver(record === undefined ? [] : [record])).toEqual({ batchItemFailures: [] });
    expect(world.tasks.map((task) => task.token)).toEqual(['token-1']);
    // The same process does not publish an event twice.
    expect(world.published.length).toBe(before);
  });

  it('waits only for a limited time for an answer', async () => {
    const world = await heldWorld(token('hangs'));
    world.ways.task = () => new Promise(() => {});
    await world.release(holder);
    const draining = world.drain();
    await world.clock.advance(10_000);
    expect(await draining).toHaveLength(1);
  });

  it.each([
    ['was cancelled', 'Holdfast.WaitCancelled', { kind: 'release', leaseId: waiter }],
    ['timed out', 'Holdfast.WaitTimeout', { kind: 'give-up', leaseId: waiter }],
    ['closed a deadlock', 'Holdfast.Deadlock', { kind: 'give-up', leaseId: waiter, deadlock: '[]' }],
  ] as const)('fails the task token of a wait that %s', async (_, error, command) => {
    const world = await heldWorld(token('token-1'));
    await world.do(command);
    await world.drain();
    expect(world.tasks).toEqual([{ token: 'token-1', error }]);
  });

  it('fails the task token of a wait whose session has ended', async () => {
    const world = await heldWorld();
    const { sessionStore, clock } = world.locks;
    const { session } = await createSession(world.locks, lockKey.namespace, { ttlMs: 60_000, owner: 'me' });
    const { sessionId } = session;
    await world.park(waiter, token('token-1'), { sessionId, leaseMs: null });
    await world.drain();
    await sessionStore.end({ namespace: lockKey.namespace, sessionId }, clock.now());
    await world.do({ kind: 'sweep' });
    await world.drain();
    expect(world.tasks).toEqual([{ token: 'token-1', error: 'Holdfast.SessionLost' }]);
  });
});

describe('what is optional', () => {
  const hanging = <T>(): Promise<T> => new Promise(() => {});

  it('never delays a delivery or a timer, even if the bus, the history and the watchers all hang', async () => {
    const world = await heldWorld(token('token-1'), token('token-2'));
    const { history, watchers } = storesOn({ ...world.access, table: { call: hanging } });
    const publisher = createPublisher({ ...world.ports, bus: { publish: hanging }, history, watchers });
    const notifier = createNotifier(world.ports);
    await world.release(holder);
    const batch = { Records: structuredClone(world.records()) };
    const published = publisher(batch);
    expect(await notifier(batch)).toEqual({ batchItemFailures: [] });
    expect(world.tasks.map((task) => task.token)).toEqual(['token-1']);
    expect(world.timers.size).toBe(1);
    // Another batch comes for the notifier while the publisher still hangs in its first one.
    await world.release(waiter);
    expect(await notifier({ Records: structuredClone(world.records().slice(-1)) })).toEqual({ batchItemFailures: [] });
    expect(world.tasks.map((task) => task.token)).toEqual(['token-1', 'token-2']);
    expect(await Promise.race([published, settled().then(() => 'hangs')])).toBe('hangs');
  });

  it('does not delay a task behind a waiter whose bus hangs', async () => {
    const world = await heldWorld(event('never'));
    const other = { namespace: 'test', name: 'other' };
    await world.acquire(holder, {}, other);
    await world.park(waiter, token('token-1'), {}, other);
    await world.release(holder);
    await world.release(holder, other);
    const notifier = createNotifier({ ...world.ports, bus: { publish: hanging } });
    const notified = notifier({ Records: structuredClone(world.records()) });
    await settled();
    expect(world.tasks.map((task) => task.token)).toEqual(['token-1']);
    await world.clock.advance(5_000);
    expect((await notified).batchItemFailures).toHaveLength(1);
  });

  it('counts a batch with a failed record, because Lambda counts its answer as a success', async () => {
    const world = createWorld();
    const failed = { name: 'FailedBatches', unit: 'Count', value: 1 };
    await world.acquire(holder);
    await world.drain();
    expect(world.measured).not.toContainEqual(failed);
    world.ways.publish = () => false;
    await world.release(holder);
    expect(await world.drain()).not.toEqual([]);
    expect(world.measured).toContainEqual(failed);
  });

  it('gives up a waiter if the bus refuses for good, and goes on with the next', async () => {
    const world = await heldWorld(event('refused'), token('token-2'));
    world.ways.publish = ({ detailType }) => (detailType === 'granted-to-waiter' ? 'never' : true);
    await world.release(holder);
    expect(await world.drain()).toEqual([]);
    expect(world.tasks.map((task) => task.token)).toEqual(['token-2']);
  });

  it('does not try again if the bus refuses for good: it is counted, and there is an alarm', async () => {
    const world = createWorld();
    world.ways.publish = () => 'never';
    await world.acquire(holder);
    expect(await world.drain()).toEqual([]);
    expect(world.measured).toContainEqual({ name: 'EventsRefused', unit: 'Count', value: 1 });
    expect(await world.historyTypes()).toEqual(['granted']);
  });

  it('counts only what the bus refuses for good, and tries the rest again', async () => {
    const world = createWorld();
    const other = { ...lockKey, name: 'other' };
    world.ways.publish = ({ detail }) => (detail.lock === 'other' ? 'never' : false);
    await world.acquire(holder);
    await world.acquire('lease-holder-00002', {}, other);
    expect(await world.drain()).toEqual([world.records()[0]?.dynamodb?.SequenceNumber]);
    const refused = world.measured.filter(({ name }) => name === 'EventsRefused');
    expect(refused).toEqual([{ name: 'EventsRefused', unit: 'Count', value: 1 }]);
    expect(world.logged).toContainEqual({ message: expect.stringContaining('for good'), fields: { events: 1 } });
  });

  it('asks the bus for nothing if there is nothing to publish', async () => {
    const world = createWorld();
    await world.acquire(holder);
    await world.drain();
    const sent: unknown[] = [];
    const publish = async (events: readonly unknown[]) => {
      sent.push(events);
      return [];
    };
    const publisher = createPublisher({ ...world.ports, bus: { publish } });
    await world.clock.advance(1_000);
    await world.do({ kind: 'renew', leaseId: holder });
    expect(await publisher({ Records: structuredClone(world.records().slice(-1)) })).toEqual({ batchItemFailures: [] });
    expect(sent).toEqual([]);
  });

  it('writes out what it measured before the batch ends', async () => {
    const world = createWorld();
    world.ways.publish = () => 'never';
    await world.acquire(holder);
    const done: string[] = [];
    const meter: Meter = {
      record: (measures) => void done.push(...measures.map(({ name }) => name)),
      flush: () => void done.push('flush'),
    };
    await createPublisher({ ...world.ports, meter })({ Records: structuredClone(world.records()) });
    expect(done[done.indexOf('EventsRefused') + 1]).toBe('flush');
    expect(done.filter((name) => name !== 'EventsRefused').at(-1)).toBe('flush');
    expect(done.filter((name) => name === 'flush')).toHaveLength(2);
  });

  it('is left out if nobody asked for it', async () => {
    const world = createWorld();
    await world.acquire(holder);
    await world.release(holder);
    const bare = createPublisher({ ...world.ports, bus: undefined, history: undefined });
    expect(await bare({ Records: structuredClone(world.records()) })).toEqual({ batchItemFailures: [] });
    expect([world.published, await world.historyTypes()]).toEqual([[], []]);
    expect(world.measured.map(({ name }) => name)).toContain('Grants');
  });
});

describe('the history of a hold', () => {
  it('is written once, when it ends, and is the same however often the record comes', async () => {
    const world = createWorld();
    const written: HistoryEntry[] = [];
    const { append } = world.ports.history;
    world.ports.history.append = (entries) => {
      written.push(...entries);
      return append.call(world.ports.history, entries);
    };
    await world.acquire(holder);
    await world.drain();
    expect([written, await world.historyTypes()]).toEqual([[], ['granted']]);
    await world.do({ kind: 'renew', leaseId: holder });
    await world.clock.advance(100);
    await world.release(holder);
    await world.drain();
    world.restart();
    await world.deliver(world.records());
    expect(new Set(written.map(({ place }) => place)).size).toBe(1);
    expect(await world.historyTypes()).toEqual(['granted', 'released']);
  });

  it('tells the same of a grant as the bus did when it was made', async () => {
    const world = await heldWorld(event('first'));
    await world.clock.advance(1_000);
    await world.release(holder);
    await world.release(waiter);
    await world.drain();
    const { events } = await historyPage(world.ports, lockKey, { limit: 100 });
    const told = world.published.filter(({ detailType }) => detailType !== 'granted-to-waiter');
    const sorted = told.toSorted((one, other) => (String(one.detail.id) < String(other.detail.id) ? 1 : -1));
    expect(events.map(historyView)).toEqual(
      sorted.map(({ detail: { id: _id, namespace: _namespace, lock: _lock, ...shown } }) => shown),
    );
  });
});

describe('a waiter behind the front of a long queue', () => {
  it('is told how its wait ended, and its history shows each step', async () => {
    const world = createWorld({ sizes: { front: 1, page: 3 } });
    await world.acquire(holder, { leaseMs: 60_000 });
    await world.acquire('lease-front-000001', { waitMs: 60_000, attendMs: 60_000 });
    await world.park('lease-page-0000001', token('token-1'));
    await world.park('lease-page-0000002', socket('connection-1'));
    await world.release('lease-page-0000001');
    await world.release('lease-page-0000002');
    await world.drain();
    expect(world.tasks).toEqual([{ token: 'token-1', error: 'Holdfast.WaitCancelled' }]);
    expect(world.posted.map(({ text }) => JSON.parse(text))).toEqual([
      { type: 'wait-ended', lock: 'wallet', leaseId: 'lease-page-0000002', reason: 'cancelled' },
    ]);
    const kinds = ['granted', 'queued', 'queued', 'queued', 'wait-cancelled', 'wait-cancelled'];
    expect((await world.historyTypes()).sort()).toEqual(kinds);
  });
});

describe('the front of a long queue', () => {
  const leaseOf = (index: number) => `lease-waiter-0000${index}`;
  const other = { ...lockKey, name: 'other' };

  /** Locks with a holder, three waiters in the front and two in a page. */
  async function longQueues(...keys: readonly (typeof lockKey)[]) {
    const world = createWorld({ sizes: { front: 3, page: 2 } });
    for (const key of keys) {
      await world.acquire(holder, { leaseMs: 600_000 }, key);
      for (const index of [1, 2, 3, 4, 5])
        await world.park(leaseOf(index), event(leaseOf(index)), { leaseMs: 600_000 }, key);
    }
    await world.drain();
    const refilled: string[] = [];
    world.table.before = (operation, request) => {
      if (requestName(operation, request) === 'close page') refilled.push(lockIn(request)?.replace(/#.*/, '') ?? '');
    };
    const inFront = async (key = lockKey) => (await world.store.read(key)).queue.map(({ leaseId }) => leaseId);
    return { world, refilled, inFront };
  }

  it('is filled from the next page before it is empty, and not earlier', async () => {
    const { world, refilled, inFront } = await longQueues(lockKey);
    await world.release(holder);
    await world.drain();
    expect([refilled, await inFront()]).toEqual([[], [2, 3].map(leaseOf)]);
    await world.release(leaseOf(1));
    await world.drain();
    expect([refilled, await inFront()]).toEqual([['wallet'], [3, 4, 5].map(leaseOf)]);
  });

  it('is filled once for all changes of a batch, for each lock', async () => {
    const { world, refilled, inFront } = await longQueues(lockKey, other);
    for (const key of [lockKey, other]) for (const leaseId of [holder, leaseOf(1)]) await world.release(leaseId, key);
    await world.do({ kind: 'renew', leaseId: leaseOf(2), leaseMs: 900_000 });
    await world.drain();
    expect(refilled).toEqual(['wallet', 'other']);
    expect(await inFront(other)).toEqual([3, 4, 5].map(leaseOf));
  });
});

describe('a timer for the reaper', () => {
  it('is armed for the first waiter, and again only if something is due earlier', async () => {
    const world = createWorld();
    const armed: [string, number][] = [];
    world.ports.timers.arm = async ({ name }, at) => void armed.push([name, at]);
    const { graceMs } = lockLimits;
    await world.acquire(holder, { leaseMs: 10_000 });
    await world.drain();
    expect(armed, 'nobody waits').toEqual([]);
    const heldUntil = world.clock.now() + 10_000;
    await world.park(waiter, event('first'), { waitMs: 60_000 });
    await world.drain();
    expect(armed).toEqual([['wallet', heldUntil + graceMs]]);
    await world.clock.advance(5_000);
    await world.do({ kind: 'renew', leaseId: holder });
    await world.drain();
    expect(armed, 'the timer that is armed finds nothing due, and arms the next').toHaveLength(1);
    await world.park(nextWaiter, event('second'), { waitMs: 1_000 });
    await world.drain();
    expect(armed.slice(1)).toEqual([['wallet', world.clock.now() + 1_000]]);
  });
});

describe('a change of a held lock', () => {
  it('delivers the grant of its holder only when the lock was granted', async () => {
    const world = await heldWorld(event('once'));
    await world.release(holder);
    await world.drain();
    const { begin } = world.ports.deliveries;
    let begun = 0;
    world.ports.deliveries.begin = (...grant) => {
      begun += 1;
      return begin.call(world.ports.deliveries, ...grant);
    };
    await world.do({ kind: 'renew', leaseId: waiter });
    await world.acquire('lease-another-0001', { waitMs: 60_000 });
    await world.drain();
    expect(begun).toBe(0);
  });
});

describe('a batch of the stream', () => {
  it('reports only a record that always fails, and handles the others', async () => {
    const world = createWorld();
    await world.acquire(holder);
    await world.park(waiter, event('behind the poison'));
    await world.release(holder);
    const [first, second, third] = structuredClone(world.records());
    if (!first || !second?.dynamodb || !third) throw new Error('three records expected');
    second.dynamodb.NewImage = { rev: { N: '2' } };
    const { batchItemFailures } = await world.deliver([first, second, third]);
    expect(batchItemFailures).toEqual([{ itemIdentifier: second.dynamodb.SequenceNumber }]);
    expect(world.toldRefs()).toEqual(['behind the poison']);
    expect(await world.historyTypes()).toEqual(['granted', 'released', 'granted']);
  });

  it('reports only the records whose events the bus did not take', async () => {
    const world = createWorld();
    await world.acquire(holder);
    await world.release(holder);
    await world.acquire(waiter);
    world.ways.publish = ({ detailType }) => detailType !== 'released';
    expect(await world.drain()).toEqual([world.records()[1]?.dynamodb?.SequenceNumber]);
    expect(world.published.map(({ detailType }) => detailType)).toEqual(['granted', 'granted']);
    expect(await world.historyTypes()).toEqual(['granted', 'released', 'granted']);
  });

  it('reports the records whose history could not be written', async () => {
    const world = createWorld();
    await world.acquire(holder);
    await world.release(holder);
    world.table.meddle('BatchWriteItem', outOfReach);
    expect(await world.drain()).toEqual([world.records()[1]?.dynamodb?.SequenceNumber]);
    world.table.restore('BatchWriteItem');
    await world.deliver(world.records());
    expect(await world.historyTypes()).toEqual(['granted', 'released']);
  });

  it('reports every change of a lock whose timer could not be armed, because the last one alone may need none', async () => {
    const world = createWorld();
    await world.acquire(holder, { leaseMs: 5_000 });
    await world.park(waiter, event('first'));
    await world.do({ kind: 'renew', leaseId: holder });
    const { arm } = world.ports.timers;
    world.ports.timers.arm = () => Promise.reject(new Error('SQS can not be reached.'));
    const failed = await world.drain();
    expect(failed).toEqual(
      world
        .records()
        .slice(1)
        .map(({ dynamodb }) => dynamodb?.SequenceNumber),
    );
    world.ports.timers.arm = arm.bind(world.timers);
    await world.deliver(world.records().slice(1));
    expect(world.timers.size).toBe(1);
  });

  it('reports a task that could not be failed, because nothing else would end it', async () => {
    const world = await heldWorld(token('token-1'));
    await world.release(waiter);
    world.ways.task = () => Promise.reject(new Error('Step Functions can not be reached.'));
    expect(await world.drain()).toHaveLength(1);
  });

  it('makes no event for an item that TTL deleted', async () => {
    const world = createWorld();
    await world.acquire(holder);
    await world.drain();
    const { NewImage, ...rest } = world.records()[0]?.dynamodb ?? {};
    const collected = { ...rest, SequenceNumber: '9', ...(NewImage ? { OldImage: NewImage } : {}) };
    await world.deliver([{ eventID: 'ttl', eventName: 'REMOVE', dynamodb: collected }]);
    expect(world.published.map(({ detailType }) => detailType)).toEqual(['granted']);
  });

  it('leaves a renewal out of history, bus and watch', async () => {
    const world = createWorld();
    await world.watch('watcher');
    await world.acquire(holder);
    await world.clock.advance(100);
    await world.do({ kind: 'renew', leaseId: holder });
    await world.drain();
    expect(world.records()).toHaveLength(2);
    expect([await world.historyTypes(), world.published.length, world.posted.length]).toEqual([['granted'], 1, 1]);
  });

  it('never shows a lease, a token or a connection to other readers', async () => {
    const world = await heldWorld(token('secret-token'), socket('secret-connection'), event('ref'));
    await world.watch('watcher');
    await world.release(holder);
    await world.drain();
    await world.release(waiter);
    await world.release(nextWaiter);
    await world.drain();
    const history = await world.ports.history.page(lockKey, { limit: 100, standing: [] });
    const watched = world.posted.filter(({ connectionId }) => connectionId === 'watcher');
    const seen = JSON.stringify([world.published, history, watched, world.measured, world.logged]);
    expect(watched.length).toBeGreaterThan(4);
    // Here owners are named after their leases, and owners are public.
    for (const secret of [holder, waiter, nextWaiter])
      expect(seen.replaceAll(`owner of ${secret}`, '')).not.toContain(secret);
    for (const secret of ['secret-token', 'secret-connection']) expect(seen).not.toContain(secret);
  });

  it('gives the same history and one delivery per waiter, in any order and number of records', async () => {
    await fc.assert(
      fc.asyncProperty(fc.infiniteStream(fc.nat()), async (numbers) => {
        const world = createWorld();
        const keys = ['a', 'b', 'c'].map((name) => ({ namespace: 'test', name }));
        for (const key of keys) {
          await world.acquire(holder, {}, key);
          await world.park(waiter, event(`first of ${key.name}`), {}, key);
          await world.park(nextWaiter, event(`second of ${key.name}`), {}, key);
          await world.release(holder, key);
        }
        // Records of one lock stay in order, as in a shard. Records of different locks do not.
        const queues = keys.map(({ name }) =>
          world.records().filter(({ dynamodb }) => dynamodb?.Keys?.pk?.S === `test/lock/${name}`),
        );
        const draw = (below: number) => (numbers.next().value as number) % below;
        const shuffled = [];
        while (queues.some((queue) => queue.length > 0)) {
          const queue = queues[draw(queues.length)] ?? [];
          const record = queue[0];
          if (record === undefined) continue;
          shuffled.push(record);
          if (draw(3) > 0) queue.shift();
        }
        for (let start = 0; start < shuffled.length; ) {
          const size = 1 + draw(4);
          await world.deliver(shuffled.slice(start, start + size));
          if (draw(4) === 0) world.restart();
          start += size;
        }
        for (const key of keys) {
          expect(await world.historyTypes(key)).toEqual(['granted', 'queued', 'queued', 'released', 'granted']);
        }
        expect(world.toldRefs().sort()).toEqual(keys.map(({ name }) => `first of ${name}`));
      }),
      { numRuns: 50 },
    );
  });
});
