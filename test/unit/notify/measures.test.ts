import { afterEach, describe, expect, it, vi } from 'vitest';
import { EmbeddedMeter } from '../../../src/notify/aws/meter.ts';
import { createWorld, type World } from './world.ts';

const holder = 'lease-holder-00001';
const waiter = 'lease-waiter-00001';
const valuesOf = (world: World, name: string) =>
  world.measured.filter((measure) => measure.name === name).map(({ value }) => value);

describe('measuring what the stream shows', () => {
  it('counts grants and expiries and takes the times of waits, holds and hand-overs', async () => {
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

  it('takes a release that hands the lock over in the same write for no delay at all', async () => {
    const world = createWorld();
    await world.acquire(holder, { leaseMs: 60_000 });
    await world.park(waiter, { type: 'event', ref: 'first' });
    await world.clock.advance(500);
    await world.release(holder);
    await world.drain();
    expect(valuesOf(world, 'HandOffLatency')).toEqual([0]);
  });
});

describe('the embedded meter', () => {
  afterEach(() => {
    vi.restoreAllMocks();
    vi.unstubAllEnvs();
  });

  it('writes one line for each namespace, with its values', () => {
    // With the first one set, Powertools writes through the console that can be listened to; alone, it would write nothing.
    vi.stubEnv('POWERTOOLS_DEV', 'true');
    vi.stubEnv('POWERTOOLS_METRICS_DISABLED', 'false');
    const lines: Record<string, unknown>[] = [];
    vi.spyOn(console, 'log').mockImplementation((line: string) => void lines.push(JSON.parse(line)));
    const meter = new EmbeddedMeter({ serviceName: 'notifier' });
    const grant = (namespace: string) => ({ namespace, name: 'Grants', unit: 'Count', value: 1 }) as const;
    const wait = { namespace: 'a', name: 'WaitTime', unit: 'Milliseconds', value: 7 } as const;
    meter.record([grant('a'), grant('b'), grant('a'), wait]);
    meter.flush();
    meter.flush();
    expect(lines).toEqual([
      expect.objectContaining({ namespace: 'a', Grants: [1, 1], WaitTime: 7 }),
      expect.objectContaining({ namespace: 'b', Grants: 1 }),
    ]);
  });
});
