import { once } from 'node:events';
import { availableParallelism } from 'node:os';
import { Worker } from 'node:worker_threads';
import { type Job, type Row, type ScenarioName, troubleNames } from './jobs.ts';
import type { Results } from './results.ts';
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

export const fullPlan: Plan = {
  waiters: [2, 10, 50, 200, 1_000, 5_000],
  handOffs: 100,
  longWaiters: 1_000,
  longRunMs: 30_000,
  scaledBy: 200,
  callers: 5_000,
  orphans: 1_000,
  busy: 30,
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

/** The same in every run, so different figures come from different code. */
const seed = 2031;
/** More threads than this would need more memory than they save time. */
const threadsMax = 4;

function jobsOf(plan: Plan): Job[] {
  const { waiters, handOffs, longWaiters, longRunMs: runMs, scaledBy, callers, orphans, busy } = plan;
  const locks = { operationsPerSecond: 50_000, locks: 500_000, scaledBy, runMs: 10_000, seed };
  return [
    ...ways.flatMap((waiting) =>
      waiters.map(
        (count): Job => ({
          scenario: 'hotLock',
          input: [waiting, count, { handOffs, withinMs: count > 1_000 ? 10_000 : 30_000, seed }],
        }),
      ),
    ),
    ...ways.map((waiting): Job => ({ scenario: 'longWait', input: [waiting, longWaiters, { runMs, seed }] })),
    { scenario: 'manyLocks', input: [locks] },
    ...(['correctness', 'efficiency'] as const).map(
      (tier): Job => ({ scenario: 'stampede', input: [tier, callers, seed] }),
    ),
    ...ways.map((waiting): Job => ({ scenario: 'deadHolder', input: [waiting, orphans, seed] })),
    ...(['long poll', 'push'] as const).flatMap((waiting) =>
      troubleNames
        .filter((name) => waiting === 'push' || name !== 'connections')
        .map((name): Job => ({ scenario: 'trouble', input: [name, waiting, busy, seed] })),
    ),
  ];
}

/** The smallest jobs come first, so most of the figures are ready soon. */
const weightOf = ({ input: [, size] }: Job): number => (typeof size === 'number' ? size : 0);

/** Runs the jobs on as many threads as there are cores. The rows come in the order of the jobs. */
async function runJobs(jobs: readonly Job[], tell: (line: string) => void): Promise<unknown[]> {
  const rows: unknown[] = [];
  const left = jobs.map((job, index) => ({ job, index })).sort((one, other) => weightOf(one.job) - weightOf(other.job));
  const work = async () => {
    const worker = new Worker(new URL('./worker.ts', import.meta.url));
    for (let next = left.shift(); next !== undefined; next = left.shift()) {
      worker.postMessage(next.job);
      const [{ row, seconds }] = await once(worker, 'message');
      rows[next.index] = row;
      tell(`${next.job.scenario} ${seconds.toFixed(0)} s ${JSON.stringify(row)}`);
    }
    await worker.terminate();
  };
  const threads = Math.min(threadsMax, availableParallelism(), jobs.length);
  await Promise.all(Array.from({ length: threads }, work));
  return rows;
}

export async function runAll(plan: Plan, tell: (line: string) => void): Promise<Results> {
  const jobs = jobsOf(plan);
  const rows = await runJobs(jobs, tell);
  const of = <Name extends ScenarioName>(name: Name): Row<Name>[] =>
    rows.filter((_, index) => jobs[index]?.scenario === name) as Row<Name>[];
  return {
    seed,
    hotLock: of('hotLock'),
    longWait: of('longWait'),
    manyLocks: of('manyLocks')[0] as Row<'manyLocks'>,
    stampede: of('stampede'),
    deadHolder: of('deadHolder'),
    trouble: of('trouble'),
  };
}
