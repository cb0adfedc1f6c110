/**
 * Runs new worlds for as many minutes as asked and writes a report: `node test/simulation/proof.ts 30`. A breach is written with the
 * command that replays it, and the run goes on, so one night can find several.
 */
import { writeFile } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { type Report, replayCommand, simulate } from './world.ts';

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: { report: { type: 'string', default: 'proof-report.md' }, first: { type: 'string' } },
});
const minutes = Number(positionals[0] ?? 10);
if (!Number.isFinite(minutes) || minutes <= 0)
  throw new Error(`Minutes must be a positive number, got ${positionals[0]}.`);
const first = Number(values.first ?? Date.now() % 1_000_000_000);

const endsAt = performance.now() + minutes * 60_000;
const totals = new Map<string, number>();
const broken: Report[] = [];
let [worlds, steps, overlapping, lostWhenBare, lostWhenFenced] = [0, 0, 0, 0, 0];
for (let seed = first; performance.now() < endsAt; seed++) {
  const report = await simulate(seed);
  worlds += 1;
  steps += report.steps;
  lostWhenBare += report.lost.bare;
  lostWhenFenced += report.lost.fenced;
  if ((report.counts.get('overlaps in time') ?? 0) > 0) overlapping += 1;
  for (const [what, count] of report.counts) totals.set(what, (totals.get(what) ?? 0) + count);
  if (report.breach === undefined) continue;
  broken.push(report);
  process.stdout.write(`${replayCommand(seed)}  # ${report.breach.promise}: ${report.breach.what.slice(0, 200)}\n`);
}

const count = (what: string) => (totals.get(what) ?? 0).toLocaleString('en');
const lines = [
  '# What the simulation saw',
  '',
  `- ${worlds.toLocaleString('en')} worlds from seed ${first} on, ${steps.toLocaleString('en')} steps, ${minutes} minutes`,
  `- ${count('lock writes')} lock writes and ${count('record writes')} record writes, each checked against the promises`,
  `- ${count('operations checked')} operations checked for linearizability, none of their histories left undecided`,
  `- ${count('parked waiters granted')} parked waiters granted and ${count('deliveries')} deliveries, ${count('deliveries repeated')} of them repeats after a failure`,
  `- ${count('events told in order')} events, each found on the bus and in the history, in order and once; ${count('timers lost')} of ${count('timers armed')} timers lost on purpose`,
  `- worlds in which holders overlapped in time: ${overlapping}, all with clocks beyond the grace`,
  `- acknowledged updates lost: ${lostWhenBare} where only the lock protected, ${lostWhenFenced} where the fence was checked`,
  `- broken promises: ${broken.length}`,
  '',
  ...broken.map(
    ({ seed, breach }) => `- \`${replayCommand(seed)}\`: ${breach?.promise}, ${breach?.what.split('\n')[0]}`,
  ),
  '',
  '## What happened in them',
  '',
  ...[...totals].sort().map(([what, number]) => `- ${what}: ${number.toLocaleString('en')}`),
  '',
];
await writeFile(values.report, lines.join('\n'));
process.stdout.write(`${lines.slice(0, 11).join('\n')}\nThe whole report is in ${values.report}.\n`);
process.exitCode = broken.length > 0 ? 1 : 0;
