import { amountOf } from '../facts.ts';
import { percentile } from '../percentiles.ts';
import { ScaleWorld } from '../world.ts';

export interface Demand {
  readonly what: string;
  readonly needed: number;
  readonly quota: number;
}

export interface ManyLocksRow {
  readonly operationsPerSecond: number;
  readonly locks: number;
  /** The run had this many times fewer operations and locks. */
  readonly scaledBy: number;
  readonly failed: number;
  readonly p50Ms: number | null;
  readonly p99Ms: number | null;
  readonly dollarsPerDay: number;
  /** How much of each quota the full rate needs, the largest share first. */
  readonly demands: readonly Demand[];
}

/** Acquire and release on many locks, each by one client at a time: half of the operations are acquires, half releases. */
export async function manyLocks({
  operationsPerSecond,
  locks,
  scaledBy,
  runMs,
  seed,
}: {
  operationsPerSecond: number;
  locks: number;
  scaledBy: number;
  runMs: number;
  seed: number;
}): Promise<ManyLocksRow> {
  const world = new ScaleWorld(seed);
  const { time, bill, chance } = world;
  const client = world.client('long poll');
  const delays: number[] = [];
  let failed = 0;
  const cycle = async () => {
    const startedAt = time.now();
    const name = `lock-${Math.floor(chance.next() * (locks / scaledBy))}`;
    try {
      const held = await client.acquire(name, { leaseMs: 30_000, waitMs: 0 });
      delays.push(time.now() - startedAt);
      await held.release();
    } catch {
      failed += 1;
    }
  };
  const everyMs = (2 * 1000 * scaledBy) / operationsPerSecond;
  const begin = () => {
    void cycle();
    world.time.after(-Math.log(1 - chance.next()) * everyMs, begin);
  };
  begin();
  await time.advance(5_000);
  const before = bill.copy();
  await time.advance(runMs);
  const used = bill.since(before);
  const perSecond = (amount: number): number => (amount * scaledBy * 1000) / runMs;
  const busy = (used.gigabyteSeconds * 1024) / amountOf('memoryMb');
  const demands: Demand[] = [
    { what: 'requests a second on one route', needed: perSecond(used.requests) / 2, quota: amountOf('gatewayRate') },
    {
      what: 'write units a second of the table',
      needed: perSecond(used.writeUnits),
      quota: amountOf('tableWriteUnits'),
    },
    { what: 'executions at once', needed: perSecond(busy), quota: amountOf('concurrencyPerAccount') },
  ];
  return {
    operationsPerSecond,
    locks,
    scaledBy,
    failed,
    p50Ms: percentile(delays, 0.5),
    p99Ms: percentile(delays, 0.99),
    dollarsPerDay: perSecond(used.dollars) * 86_400,
    demands: demands.toSorted((one, other) => other.needed / other.quota - one.needed / one.quota),
  };
}
