import { dollars, figure, table } from '../../bench/report/format.ts';
import { facts } from '../facts.ts';
import type { Results } from '../results.ts';

/** The figures in docs/scale.md are between these marks. The rest of the page is written by hand. */
const marks = { begin: '<!-- figures: begin -->', end: '<!-- figures: end -->' };

const whole = (value: number): string => Math.round(value).toLocaleString('en-US');

/** The page with the figures of a run in it. */
export function reportOf(page: string, results: Results): string {
  const [head, , tail] = split(page);
  return `${head}${marks.begin}\n\n${figuresOf(results)}\n\n${marks.end}${tail}`;
}

function split(page: string): [string, string, string] {
  const [from, to] = [page.indexOf(marks.begin), page.indexOf(marks.end)];
  if (from < 0 || to < from) throw new Error(`docs/scale.md needs the lines ${marks.begin} and ${marks.end}.`);
  return [page.slice(0, from), page.slice(from, to), page.slice(to + marks.end.length)];
}

const figuresOf = (results: Results): string =>
  [hotLockPart(results), longWaitPart(results), manyLocksPart(results), troublePart(results), factsPart()].join('\n\n');

function hotLockPart({ hotLock, seed }: Results): string {
  const head = [
    'waiting',
    'waiters',
    'hand-offs/s',
    'p50 ms',
    'p99 ms',
    'write units',
    'read units',
    'requests',
    'throttled',
    'executions',
    '$ per million',
  ];
  const rows = hotLock.map((row) => [
    row.waiting,
    whole(row.waiters),
    figure(row.handOffsPerSecond),
    figure(row.p50Ms),
    figure(row.p99Ms),
    row.handOffs === 0 ? '' : figure(row.writeUnits),
    row.handOffs === 0 ? '' : figure(row.readUnits),
    row.handOffs === 0 ? '' : figure(row.storeRequests),
    whole(row.throttled),
    whole(row.mostExecutions),
    row.handOffs === 0 ? '' : dollars(row.dollarsPerMillion),
  ]);
  return `## One hot lock

Every client takes one lock, holds it for 50 ms and joins the queue again. The times are from the call of release
until the next holder knows of its grant. Units and requests are for one hand-off and one join (seed ${seed}).

![write units](scale/units.svg)

![hand-off](scale/hand-off.svg)

![dollars](scale/dollars.svg)

${table(head, rows)}`;
}

function longWaitPart({ longWait }: Results): string {
  const head = ['waiting', 'waiters', '$', 'write units', 'read units', 'HTTP requests', 'executions'];
  const rows = longWait.map((row) => [
    row.waiting,
    whole(row.waiters),
    dollars(row.dollars),
    whole(row.writeUnits),
    whole(row.readUnits),
    whole(row.requests),
    whole(row.mostExecutions),
  ]);
  return `## Waiting for an hour

A lock is held all the time while clients wait. Only a part of the hour was run, and its figures are multiplied by ${longWait[0]?.scaledBy ?? 1}.

${table(head, rows)}`;
}

function manyLocksPart({ manyLocks: row }: Results): string {
  const rows = row.demands.map(({ what, needed, quota }) => [
    what,
    whole(needed),
    whole(quota),
    `${figure(needed / quota)} ×`,
  ]);
  return `## Many locks

${whole(row.operationsPerSecond)} operations a second over ${whole(row.locks)} locks. The run had ${row.scaledBy} times fewer of both. An acquire
took ${figure(row.p50Ms)} ms at p50 and ${figure(row.p99Ms)} ms at p99. At the full rate it costs ${whole(row.dollarsPerDay)} dollars a day, and
takes this much of each quota:

${table(['what', 'needed', 'default quota', 'share'], rows)}`;
}

function troublePart({ stampede, deadHolder, trouble }: Results): string {
  const stampedes = stampede.map((row) => [
    row.tier,
    ...[row.callers, row.granted, row.held, row.failed, row.writeUnits, row.throttled, row.coldStarts].map(whole),
  ]);
  const deaths = deadHolder.map((row) => [
    row.waiting,
    whole(row.waiters),
    figure(row.grantedAfterMs),
    whole(row.grantsInTenSeconds),
    whole(row.throttled),
  ]);
  const troubles = trouble.map((row) => [
    row.what,
    row.waiting,
    whole(row.waiters),
    ...row.rates.map(figure),
    figure(row.recoveredAfterMs),
    figure(row.p99AfterMs),
  ]);
  return `## Trouble

A stampede: many callers try one lock within a second. Exactly one may get it.

${table(['tier', 'callers', 'granted', 'held', 'failed', 'write units', 'throttled', 'cold starts'], stampedes)}

A holder dies while others wait. The next waiter is granted at the end of the lease plus the grace.

${table(['waiting', 'waiters', 'granted after ms', 'grants in the next 10 s', 'throttled'], deaths)}

A busy lock before, during and after a minute with a fault. In every run each fence was granted once, and no two
clients held the lock at the same time.

${table(['what', 'waiting', 'waiters', 'hand-offs/s before', 'during', 'after', 'first grant after ms', 'p99 ms after'], troubles)}`;
}

function factsPart(): string {
  const rows = Object.values(facts).map(({ value, unit, source }, index) => [
    Object.keys(facts)[index] ?? '',
    String(Number(value.toPrecision(6))),
    unit,
    source,
  ]);
  return `## The numbers of the model

${table(['fact', 'value', 'unit', 'source'], rows)}`;
}
