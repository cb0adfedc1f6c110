import type { Results } from './results.ts';
import { hotLock } from './scenarios/hot-lock.ts';
import { longWait } from './scenarios/long-wait.ts';
import { manyLocks } from './scenarios/many-locks.ts';
import { deadHolder, meetTrouble, stampede, troubles } from './scenarios/trouble.ts';
import { ways } from './world.ts';

/** How much of everything is run. */
export interface Plan {
  readonly waiters: readonly number[];
  readonly handOffs: number;
  readonly longWaiters: number;
  readonly longRunMs: number;
  readonly scaledBy: number;
  readonly callers: number;
  readonly orphans: number;
  readonly busy: number;
}

/** About ten minutes of real time. */
export const fullPlan: Plan = {
  waiters: [2, 10, 50, 200, 1_000, 5_000],
  handOffs: 400,
  longWaiters: 1_000,
  longRunMs: 60_000,
  scaledBy: 100,
  callers: 5_000,
  orphans: 1_000,
  busy: 50,
};

export const quickPlan: Plan = {
  waiters: [2, 10],
  handOffs: 50,
  longWaiters: 20,
  longRunMs: 30_000,
  scaledBy: 1_000,
  callers: 100,
  orphans: 20,
  busy: 5,
};

/** The same in every run, so that a change of figures comes from a change of code. */
const seed = 2031;

export async function runAll(plan: Plan, tell: (line: string) => void): Promise<Results> {
  const each = async <T, R>(list: readonly T[], run: (one: T) => Promise<R>): Promise<R[]> => {
    const rows: R[] = [];
    for (const one of list) {
      const row = await run(one);
      tell(JSON.stringify(row));
      rows.push(row);
    }
    return rows;
  };
  const pairs = ways.flatMap((waiting) => plan.waiters.map((waiters) => ({ waiting, waiters })));
  const { handOffs, longWaiters, longRunMs: runMs, scaledBy, callers, orphans, busy } = plan;
  return {
    seed,
    hotLock: await each(pairs, ({ waiting, waiters }) =>
      hotLock(waiting, waiters, { handOffs, withinMs: 60_000, seed }),
    ),
    longWait: await each(ways, (waiting) => longWait(waiting, longWaiters, { runMs, seed })),
    manyLocks: await manyLocks({ operationsPerSecond: 50_000, locks: 500_000, scaledBy, runMs: 20_000, seed }),
    stampede: await each(['correctness', 'efficiency'] as const, (tier) => stampede(tier, callers, seed)),
    deadHolder: await each(ways, (waiting) => deadHolder(waiting, orphans, seed)),
    trouble: await each(troubles, (trouble) => meetTrouble(trouble, 'long poll', busy, seed)),
  };
}
