import { arch, cpus, platform, totalmem } from 'node:os';
import { StartError } from '../../src/local/start-error.ts';
import type { Contestant } from './contestant.ts';
import type { Field } from './field.ts';
import { peerVersion } from './peers.ts';
import type { Plan } from './plan.ts';
import type { Absence, ContestantEntry, HandOffRequestsRow, HandOffRow, Results } from './results.ts';
import { run } from './server-process.ts';
import { benchCrash } from './workloads/crash.ts';
import { benchCycle, benchThroughput, countCycles } from './workloads/cycle.ts';
import { benchHandOffs, countHandOffs } from './workloads/hand-off.ts';
import { benchImport } from './workloads/import.ts';
import { benchIncrement } from './workloads/increment.ts';
import { benchMemory } from './workloads/memory.ts';
import { benchMultiLocks } from './workloads/multi-lock.ts';
import { benchPush } from './workloads/push.ts';
import { countRenewals } from './workloads/renewals.ts';
import { benchStampede } from './workloads/stampede.ts';

/** The package of a contestant, if it has one. */
const packages: Readonly<Record<string, string>> = {
  'lock-client-open': 'dynamodb-lock-client',
  'lock-client-closed': 'dynamodb-lock-client',
  deliveryhero: '@deliveryhero/dynamodb-lock',
  redlock: 'redlock',
  'redis-set': 'ioredis',
  'etcd3-lock': 'etcd3',
  'etcd-lock-service': '@grpc/grpc-js',
  zookeeper: 'node-zookeeper-client',
  postgres: 'pg',
};

function entryOf({ id, name, store, ours, how }: Contestant): ContestantEntry {
  const packageName = packages[id];
  const version = packageName === undefined ? null : `${packageName} ${peerVersion(packageName)}`;
  return { id, name, store, ours, how, version };
}

async function commit(): Promise<string> {
  try {
    const { stdout } = await run('git', ['describe', '--always', '--dirty', '--exclude', '*']);
    return stdout.trim();
  } catch {
    return 'unknown';
  }
}

const onProgress = (what: string) => console.error(`… ${what}`);

/** Runs a workload. If it fails, the report says so, and the other results are kept. */
type Step = <Result>(what: string, work: () => Promise<Result>, without: Result) => Promise<Result>;

const stepOf =
  (absent: Absence[]): Step =>
  async (what, work, without) => {
    onProgress(what);
    try {
      return await work();
    } catch (error) {
      console.error(error);
      absent.push({ why: `The workload "${what}" failed.` });
      return without;
    }
  };

/** Short queues are measured together. A long one has its own engine, because its items make the engine slow. */
const partsOf = (waiters: readonly number[]): number[][] =>
  [waiters.filter((count) => count < 100), waiters.filter((count) => count >= 100)].filter((part) => part.length > 0);

async function contended(field: Field, plan: Plan): Promise<Pick<Results, 'handOff' | 'handOffRequests'>> {
  const boundsOf = ({ ours }: Contestant) => (ours ? plan.ownHandOff : plan.handOff);
  const handOff: HandOffRow[] = [];
  const requests: HandOffRequestsRow[] = [];
  for (const part of partsOf(plan.waiters)) {
    await field.refresh({ counting: false });
    const timed = await benchHandOffs(field, part, boundsOf, onProgress);
    handOff.push(...timed.rows);
    requests.push(...timed.requests);
  }
  for (const part of partsOf(plan.waiters)) {
    await field.refresh({ counting: true });
    requests.push(...(await countHandOffs(field.counted, part, plan.countedRunMs, onProgress)));
  }
  return { handOff, handOffRequests: requests.toSorted((one, other) => one.waiters - other.waiters) };
}

/** Only waiting by push, with its own date and commit. The rest of a report may be older. */
export const runPush = async (field: Field, plan: Plan): Promise<NonNullable<Results['push']>> => ({
  date: today(),
  commit: await commit(),
  ...(await benchPush(field, plan.push, onProgress)),
});

/** Only the hand-offs of one contestant. The rest of a report may be older. */
export async function runHandOffsOf(field: Field, plan: Plan, only: string, before: Results): Promise<Results> {
  const contestants = field.contestants.filter(({ id }) => id === only);
  if (contestants.length === 0) throw new StartError(`There is no ${only} in this run. ${field.absent.join(' ')}`);
  const some = { contestants, storeOf: field.storeOf.bind(field) };
  const bounds = contestants.some(({ ours }) => ours) ? plan.ownHandOff : plan.handOff;
  const { rows, requests } = await benchHandOffs(some, plan.waiters, () => bounds, onProgress);
  await field.refresh({ counting: true });
  // Contestants on DynamoDB are counted by a proxy, and the others count themselves.
  const counted = field.counted.filter(({ contestant }) => contestant.id === only);
  requests.push(...(await countHandOffs(counted, plan.waiters, plan.countedRunMs, onProgress)));
  const others = <Row extends { readonly contestant: string }>(known: readonly Row[]) =>
    known.filter(({ contestant }) => contestant !== only);
  const byWaiters = (one: { readonly waiters: number }, other: { readonly waiters: number }) =>
    one.waiters - other.waiters;
  return {
    ...before,
    handOff: [...others(before.handOff), ...rows].toSorted(byWaiters),
    handOffRequests: [...others(before.handOffRequests), ...requests].toSorted(byWaiters),
    measuredAgain: [...others(before.measuredAgain ?? []), { contestant: only, date: today(), commit: await commit() }],
  };
}

const today = () => new Date().toISOString().slice(0, 10);

/** Every workload in turn. Nothing else runs while something is timed. */
export async function runAll(field: Field, plan: Plan, { quick }: { quick: boolean }): Promise<Results> {
  const absent = field.absent.map((why): Absence => ({ why }));
  const step = stepOf(absent);
  const { throughput, multiLock, increment } = plan;
  const uncontended = {
    cycle: await step('cycle', () => benchCycle(field, plan.cycle), []),
    throughput: await step('throughput', () => benchThroughput(field, throughput.clients, throughput), []),
    memory: await step('memory', () => benchMemory(field, plan.memoryMs), null),
    imports: await step('import', () => benchImport(plan.importRounds), null),
  };
  await field.refresh({ counting: true });
  const counted = {
    cycleRequests: await step('requests of a cycle', () => countCycles(field.counted), []),
    crash: await step('crash', () => benchCrash(field, plan.crashSamples), []),
    renewals: await step('renewals', () => countRenewals(field, plan.renewalIntervals), []),
    stampede: await step('stampede', () => benchStampede(field, onProgress), []),
    multiLock: await step('several locks', () => benchMultiLocks(field, multiLock.sizes, multiLock.bounds), []),
    increment: await step('increment', () => benchIncrement(field, increment.clients, increment.sliceMs), []),
  };
  const handOffs = await step('hand-offs', () => contended(field, plan), { handOff: [], handOffRequests: [] });
  await field.refresh({ counting: false });
  const push = await step('push', () => runPush(field, plan), null);
  return {
    date: today(),
    commit: await commit(),
    quick,
    machine: {
      cores: cpus().length,
      memoryGb: Math.round(totalmem() / 2 ** 30),
      os: `${platform()} ${arch()}`,
      node: process.version,
    },
    stores: field.stores.map(({ id, name, durability }) => ({ id, name, durability })),
    contestants: field.contestants.map(entryOf),
    absent,
    ...uncontended,
    ...handOffs,
    ...counted,
    push,
  };
}
