import { describe, expect, it } from 'vitest';
import { EmbeddedMeter } from '../../../src/notify/aws/meter.ts';
import type { Measure } from '../../../src/notify/measures.ts';
import { queueSizes } from '../../../src/queue/pages.ts';
import { epochMs } from '../../../src/time/clock.ts';
import { createWorld, type World } from './world.ts';

const holder = 'lease-holder-00001';
const waiter = 'lease-waiter-00001';
const valuesOf = (world: World, name: string) =>
  world.measured.filter((measure) => measure.name === name).map(({ value }) => value);

describe('measuring what the stream shows', () => {
  it('counts grants and expiries, and measures waits, holds and hand-offs', async () => {
    const world = createWorld();
    await world.acquire(holder, { leaseMs: 1_000 });
    await world.clock.advance(100);
    await world.park(waiter, { type: 'event', ref: 'first' });
    await world.drain();
    await world.clock.advance(1_150);
    await world.drain();
    await world.release(waiter);
    await world.drain();
    expect(valuesOf(world, 'Grants')).toEqual([1, 1]);
    expect(valuesOf(world, 'Expiries')).toEqual([1]);
    expect(valuesOf(world, 'WaitTime')).toEqual([0, 1_150]);
    expect(valuesOf(world, 'HoldTime')).toEqual([1_250, 0]);
    expect(valuesOf(world, 'HandOffLatency')).toEqual([250]);
    expect(valuesOf(world, 'QueueDepth')).toEqual([1, 0]);
  });

  it('counts a lease that was lost with its session as an expiry', async () => {
    const world = createWorld();
    const { sessionStore } = world.locks;
    const [sessionId, now] = ['session-0000001', world.clock.now()];
    const state = { sessionId, owner: 'me', ttlMs: 60_000, createdAt: now, waits: [] };
    await sessionStore.create('test', { ...state, expiresAt: epochMs(now + 60_000) });
    await world.acquire(holder, { leaseMs: null, sessionId });
    await sessionStore.end({ namespace: 'test', sessionId }, now);
    await world.acquire(waiter);
    await world.drain();
    expect(valuesOf(world, 'Expiries')).toEqual([1]);
  });

  it('counts the time since the last of several leases ended, because the waiter needed all of them', async () => {
    const world = createWorld();
    await world.acquire(holder, { limit: 2, leaseMs: 1_000 });
    await world.acquire('lease-holder-00002', { limit: 2, leaseMs: 3_000 });
    await world.park(waiter, { type: 'event', ref: 'first' }, { limit: 2, permits: 2 });
    await world.drain();
    await world.clock.advance(3_250);
    await world.drain();
    expect(valuesOf(world, 'HandOffLatency')).toEqual([250]);
  });

  it('counts a hand-off in the same write as no delay', async () => {
    const world = createWorld();
    await world.acquire(holder, { leaseMs: 60_000 });
    await world.park(waiter, { type: 'event', ref: 'first' });
    await world.clock.advance(500);
    await world.release(holder);
    await world.drain();
    expect(valuesOf(world, 'HandOffLatency')).toEqual([0]);
  });
});

describe('the measures of one change', () => {
  const opened = async (world: World, sessionId: string) => {
    const now = world.clock.now();
    const state = { sessionId, owner: 'me', ttlMs: 60_000, createdAt: now, waits: [] };
    await world.locks.sessionStore.create('test', { ...state, expiresAt: epochMs(now + 60_000) });
    return { leaseMs: null, sessionId };
  };

  it('have the namespace of the lock and a unit, and there are no others', async () => {
    const world = createWorld();
    await world.acquire(holder, { leaseMs: 60_000 });
    await world.park(waiter, { type: 'event', ref: 'first' });
    await world.drain();
    expect(world.measured).toEqual([
      { namespace: 'test', name: 'Grants', unit: 'Count', value: 1 },
      { namespace: 'test', name: 'WaitTime', unit: 'Milliseconds', value: 0 },
      { namespace: 'test', name: 'QueueDepth', unit: 'Count', value: 1 },
    ]);
  });

  it('count a hand-off once, and from the end of the lease that was taken over, not of one that stays', async () => {
    const world = createWorld();
    const part = { limit: 2, permits: 1 };
    await world.acquire(holder, { ...part, leaseMs: 1_000 });
    await world.acquire('lease-holder-00002', { ...part, leaseMs: 600_000 });
    await world.park(waiter, { type: 'event', ref: 'first' }, { ...part, leaseMs: 600_000 });
    await world.park('lease-waiter-00002', { type: 'event', ref: 'second' }, { ...part, leaseMs: 600_000 });
    await world.drain();
    await world.clock.advance(1_250);
    await world.drain();
    expect(valuesOf(world, 'HandOffLatency')).toEqual([250]);
    await world.release('lease-holder-00002');
    await world.drain();
    expect(valuesOf(world, 'HandOffLatency')).toEqual([250, 0]);
  });

  it('count no delay after a lease that ended with a session', async () => {
    const world = createWorld();
    await world.acquire(holder, await opened(world, 'session-0000001'));
    await world.park(waiter, { type: 'event', ref: 'first' });
    await world.clock.advance(500);
    await world.release(holder);
    await world.drain();
    expect(valuesOf(world, 'HandOffLatency')).toEqual([0]);
  });

  it('count every page of the queue as full', async () => {
    const world = createWorld({ sizes: { front: 1, page: 2 } });
    await world.acquire(holder, { leaseMs: 600_000 });
    for (let index = 0; index < 2; index++) await world.park(`lease-waiter-0000${index}`, { type: 'event', ref: 'r' });
    await world.drain();
    expect(valuesOf(world, 'QueueDepth').at(-1)).toBe(1 + queueSizes.page);
  });
});

describe('the embedded meter', () => {
  const grant = (namespace: string) => ({ namespace, name: 'Grants', unit: 'Count', value: 1 }) as const;
  // biome-ignore lint/suspicious/noExplicitAny: a line is whatever CloudWatch reads.
  const linesOf = (measures: readonly Measure[], namespaces: readonly string[] = []): any[] => {
    const lines: unknown[] = [];
    const write = (line: string) => void lines.push(JSON.parse(line));
    const meter = new EmbeddedMeter({ serviceName: 'publisher', namespaces, write, now: () => 1_800_000_000_000 });
    meter.record(measures);
    meter.flush();
    meter.flush();
    return lines;
  };

  it('writes a line in the embedded format, without a dimension that callers control', () => {
    const wait = { namespace: 'a', name: 'WaitTime', unit: 'Milliseconds', value: 7 } as const;
    expect(linesOf([grant('a'), grant('b'), grant('a'), wait])).toEqual([
      {
        _aws: {
          Timestamp: 1_800_000_000_000,
          CloudWatchMetrics: [
            {
              Namespace: 'Holdfast',
              Dimensions: [['service']],
              Metrics: [
                { Name: 'Grants', Unit: 'Count' },
                { Name: 'WaitTime', Unit: 'Milliseconds' },
              ],
            },
          ],
        },
        service: 'publisher',
        Grants: [1, 1, 1],
        WaitTime: [7],
      },
    ]);
  });

  it('counts a named namespace separately too, and no other', () => {
    const lines = linesOf([grant('orders'), grant('invented')], ['orders']);
    const dimensionsOf = (line: (typeof lines)[number]) => line._aws.CloudWatchMetrics[0].Dimensions;
    expect(lines.map((line) => [line.namespace, dimensionsOf(line)])).toEqual([
      ['orders', [['service'], ['service', 'namespace']]],
      [undefined, [['service']]],
    ]);
  });

  it('writes no empty metric after 100 values, and no empty line', () => {
    const wait = { namespace: 'a', name: 'WaitTime', unit: 'Milliseconds', value: 7 } as const;
    const lines = linesOf([wait, ...Array.from({ length: 200 }, () => grant('a'))]);
    expect(lines.map(({ Grants, WaitTime }) => [Grants.length, WaitTime])).toEqual([
      [100, [7]],
      [100, undefined],
    ]);
    expect(lines[1]._aws.CloudWatchMetrics[0].Metrics).toEqual([{ Name: 'Grants', Unit: 'Count' }]);
  });

  it('keeps the namespace after 100 values, the most that one line takes', () => {
    const lines = linesOf(
      Array.from({ length: 250 }, () => grant('orders')),
      ['orders'],
    );
    expect(lines.map(({ namespace, Grants }) => [namespace, Grants.length])).toEqual([
      ['orders', 100],
      ['orders', 100],
      ['orders', 50],
    ]);
  });
});
