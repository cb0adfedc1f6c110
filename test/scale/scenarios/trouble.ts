import { Fleet } from '../fleet.ts';
import { percentile } from '../percentiles.ts';
import { ScaleWorld, type Waiting } from '../world.ts';

export interface TroubleRow {
  readonly what: string;
  readonly waiting: Waiting;
  readonly waiters: number;
  /** From the end of the fault to the next grant. */
  readonly recoveredAfterMs: number | null;
  /** Hand-offs a second before, during and after. */
  readonly rates: readonly [before: number, during: number, after: number];
  readonly p99AfterMs: number | null;
  readonly throttled: number;
}

/** The fault lasts a minute. Before and after it, the rate is measured for a shorter time. */
const troubleMs = 60_000;
const lookMs = 15_000;
/** If a release was lost, the lease expires within this time. */
const calmMs = 60_000;

interface Trouble {
  readonly what: string;
  begin(world: ScaleWorld): void;
  end(world: ScaleWorld): void;
}

export const troubles = {
  deployment: {
    what: 'a deployment: every execution is replaced',
    begin: ({ functions }) => {
      for (const one of functions) one.replaceAll();
    },
    end: () => {},
  },
  connections: {
    what: 'every WebSocket connection breaks at once',
    begin: ({ sockets }) => sockets.breakAll(),
    end: () => {},
  },
  throttled: {
    what: "the lock's partition is throttled for a minute",
    begin: ({ table }) => {
      table.throttledKey = 'scale/lock/hot';
    },
    end: ({ table }) => {
      table.throttledKey = undefined;
    },
  },
  away: {
    what: 'the store is unavailable for a minute',
    begin: ({ table }) => {
      table.isAway = true;
    },
    end: ({ table }) => {
      table.isAway = false;
    },
  },
} as const satisfies Record<string, Trouble>;

/** A busy lock before, during and after a fault. Nothing may be granted twice, and no waiter may be forgotten. */
export async function meetTrouble(
  name: keyof typeof troubles,
  waiting: Waiting,
  waiters: number,
  seed: number,
): Promise<TroubleRow> {
  const { what, begin, end }: Trouble = troubles[name];
  const world = new ScaleWorld(seed, { tableOnly: waiting === 'direct' });
  const { time, bill } = world;
  const fleet = new Fleet(world, 'hot');
  fleet.start(
    Array.from({ length: waiters + 1 }, () => world.client(waiting)),
    5_000,
  );
  await time.advance(lookMs);
  const rateOver = async (ms: number): Promise<number> => {
    const startedAt = time.now();
    await time.advance(ms);
    return (fleet.grantsSince(startedAt) * 1000) / ms;
  };
  const before = await rateOver(lookMs);
  begin(world);
  const during = await rateOver(troubleMs);
  end(world);
  const endedAt = time.now();
  await time.advance(calmMs);
  const calmAt = time.now();
  const after = await rateOver(lookMs);
  fleet.isOver = true;
  fleet.check();
  const first = fleet.grants.find(({ grantedAt }) => grantedAt >= endedAt);
  return {
    what,
    waiting,
    waiters,
    recoveredAfterMs: first === undefined ? null : first.grantedAt - endedAt,
    rates: [before, during, after],
    p99AfterMs: percentile(fleet.handOffMs(calmAt), 0.99),
    throttled: bill.throttled,
  };
}

export interface StampedeRow {
  readonly tier: 'correctness' | 'efficiency';
  readonly callers: number;
  readonly granted: number;
  readonly held: number;
  readonly failed: number;
  readonly writeUnits: number;
  readonly throttled: number;
  readonly coldStarts: number;
}

/** Many callers try one lock in the same second. Exactly one may get it. */
export async function stampede(tier: StampedeRow['tier'], callers: number, seed: number): Promise<StampedeRow> {
  const world = new ScaleWorld(seed);
  const { time, bill } = world;
  const outcomes = { granted: 0, held: 0, failed: 0 };
  for (let caller = 0; caller < callers; caller++) {
    const client = world.client('long poll');
    const ask = async () => {
      try {
        const { ok } = await client.tryAcquire('stampede', { leaseMs: 60_000, tier, autoRenew: false });
        outcomes[ok ? 'granted' : 'held'] += 1;
      } catch {
        outcomes.failed += 1;
      }
    };
    void world.pause(world.chance.next() * 1_000).then(ask);
  }
  await time.advance(50_000);
  if (outcomes.granted > 1) throw new Error(`${outcomes.granted} were granted one lock.`);
  const { writeUnits, throttled } = bill;
  const coldStarts = world.functions.reduce((sum, one) => sum + one.coldStarts, 0);
  return { tier, callers, ...outcomes, writeUnits, throttled, coldStarts };
}

export interface DeadHolderRow {
  readonly waiting: Waiting;
  readonly waiters: number;
  /** From the end of the dead holder's lease to the first grant after it. */
  readonly grantedAfterMs: number | null;
  readonly grantsInTenSeconds: number;
  readonly throttled: number;
}

/** A holder dies while many wait. The next waiter is granted at the end of the lease plus the grace. */
export async function deadHolder(waiting: Waiting, waiters: number, seed: number): Promise<DeadHolderRow> {
  const world = new ScaleWorld(seed, { tableOnly: waiting === 'direct' });
  const { time, bill } = world;
  const leaseMs = 45_000;
  const dead = world.client('direct');
  void dead.acquire('hot', { leaseMs, autoRenew: false });
  await time.advance(1_000);
  const endsAt = time.now() - 1_000 + leaseMs;
  const fleet = new Fleet(world, 'hot');
  fleet.start(
    Array.from({ length: waiters }, () => world.client(waiting)),
    5_000,
  );
  await time.advance(endsAt - time.now());
  const throttledBefore = bill.throttled;
  await time.advance(15_000);
  fleet.isOver = true;
  fleet.check();
  const first = fleet.grants[0];
  const grantsInTenSeconds =
    first === undefined ? 0 : fleet.grants.filter(({ grantedAt }) => grantedAt < first.grantedAt + 10_000).length;
  return {
    waiting,
    waiters,
    grantedAfterMs: first === undefined ? null : first.grantedAt - endsAt,
    grantsInTenSeconds,
    throttled: bill.throttled - throttledBefore,
  };
}
