import { Fleet } from '../fleet.ts';
import { percentile } from '../percentiles.ts';
import { ScaleWorld, type Waiting } from '../world.ts';

export interface HotLockRow {
  readonly waiting: Waiting;
  readonly waiters: number;
  readonly handOffs: number;
  readonly handOffsPerSecond: number;
  /** From the holder's call of release until the next holder knows of its grant. */
  readonly p50Ms: number | null;
  readonly p99Ms: number | null;
  readonly writeUnits: number;
  readonly readUnits: number;
  readonly storeRequests: number;
  readonly throttled: number;
  readonly refusedByGateway: number;
  readonly mostExecutions: number;
  readonly dollarsPerMillion: number;
}

/** After this time all waiters wait, and the first cold starts are over. */
const fillingMs = 20_000;

/**
 * One lock with this many waiters all the time: a client that releases joins again. It counts after the queue has its full length, for the
 * given number of hand-offs or the given time, whichever ends first.
 */
export async function hotLock(
  waiting: Waiting,
  waiters: number,
  { handOffs, withinMs, seed }: { handOffs: number; withinMs: number; seed: number },
): Promise<HotLockRow> {
  const world = new ScaleWorld(seed, { tableOnly: waiting === 'direct' });
  const { time, bill } = world;
  const fleet = new Fleet(world, 'hot');
  fleet.start(
    Array.from({ length: waiters + 1 }, () => world.client(waiting)),
    5_000,
  );
  await time.advance(fillingMs);
  const before = bill.copy();
  const startedAt = time.now();
  while (fleet.grantsSince(startedAt) < handOffs && time.now() < startedAt + withinMs) await time.advance(1_000);
  fleet.isOver = true;
  fleet.check();
  const used = bill.since(before);
  const delays = fleet.handOffMs(startedAt);
  const perHandOff = (amount: number): number => amount / Math.max(1, delays.length);
  return {
    waiting,
    waiters,
    handOffs: delays.length,
    handOffsPerSecond: (delays.length * 1000) / (time.now() - startedAt),
    p50Ms: percentile(delays, 0.5),
    p99Ms: percentile(delays, 0.99),
    writeUnits: perHandOff(used.writeUnits),
    readUnits: perHandOff(used.readUnits),
    storeRequests: perHandOff(used.storeRequests),
    throttled: used.throttled,
    refusedByGateway: world.refusedByGateway,
    mostExecutions: world.account.mostRunning,
    dollarsPerMillion: perHandOff(used.dollars) * 1e6,
  };
}
