import { ScaleWorld, type Waiting } from '../world.ts';

export interface LongWaitRow {
  readonly waiting: Waiting;
  readonly waiters: number;
  /** For an hour. */
  readonly dollars: number;
  readonly writeUnits: number;
  readonly readUnits: number;
  readonly requests: number;
  readonly mostExecutions: number;
  /** The hour is this many times longer than the run. */
  readonly scaledBy: number;
}

const hourMs = 3_600_000;

/** Many clients wait for an hour for a lock that is held all the time. */
export async function longWait(
  waiting: Waiting,
  waiters: number,
  { runMs, seed }: { runMs: number; seed: number },
): Promise<LongWaitRow> {
  const world = new ScaleWorld(seed, { concurrency: 2 * waiters, tableOnly: waiting === 'direct' });
  const { time, bill } = world;
  // The holder's renewals must not be measured, so it takes a lease of a day.
  void world.client('direct').acquire('held', { leaseMs: 86_400_000, autoRenew: false });
  await time.advance(1_000);
  for (let waiter = 0; waiter < waiters; waiter++) {
    const client = world.client(waiting);
    const wait = async () => {
      for (;;) await client.acquire('held', { leaseMs: 30_000, waitMs: 900_000 }).catch(() => undefined);
    };
    void world.pause(world.chance.next() * 20_000).then(wait);
  }
  await time.advance(60_000);
  const before = bill.copy();
  await time.advance(runMs);
  const used = bill.since(before);
  const scaledBy = hourMs / runMs;
  return {
    waiting,
    waiters,
    dollars: used.dollars * scaledBy,
    writeUnits: used.writeUnits * scaledBy,
    readUnits: used.readUnits * scaledBy,
    requests: used.requests * scaledBy,
    mostExecutions: world.account.mostRunning,
    scaledBy,
  };
}
