import type { Command } from '../command.ts';
import { formatMs } from '../duration.ts';
import { UsageError } from '../failure.ts';
import { type Measured, measure as measureService } from '../measurement.ts';
import { right } from '../table.ts';

/** Enough for a p99 of cycles. By the model's figures, all of it takes about two minutes on a deployed service. */
const roundsDefault = 200;
const crowdDefault = 50;
const durationMsDefault = 300_000;
/** A run with all defaults is estimated at less than a cent. */
const dollarsDefault = 0.05;

const exact = (ms: number): string => `${ms.toFixed(1)} ms`;
const modelOf = ({ model }: Measured): string => (model === undefined ? '' : `${model.p50Ms} / ${model.p99Ms} ms`);

export const measure: Command = {
  name: 'measure',
  summary: 'Measure a service from here: cycles, hand-offs, a stampede, a failover; with an estimate of the cost.',
  flags: {
    'rounds <n>': `How many cycles, and in proportion how much of the rest; ${roundsDefault} by default.`,
    'crowd <n>': `How many callers want one lock at once; ${crowdDefault} by default.`,
    'max-duration <duration>': `Begin nothing new after this time; ${formatMs(durationMsDefault)} by default.`,
    'max-dollars <n>': `Begin nothing new after this estimated cost; ${dollarsDefault} by default.`,
  },
  details: `It uses locks of its own, named measure:…, and leaves none held. Times are what a caller here waits, network included.
The model's figures are those of docs/scale.md, for a caller in the same Region. The cost is an estimate from counted requests
and list prices. For a bill, look at Cost Explorer a day later.`,
  examples: [
    'holdfast measure',
    'holdfast measure --url https://abc.execute-api.eu-west-1.amazonaws.com --sigv4 --json',
    'holdfast measure --rounds 20 --crowd 10 --max-duration 1m',
  ],
  async run({ given, terminal, signals, connection }) {
    const { transport, namespace, service } = connection();
    const dollarsMax = Number(given.text('max-dollars') ?? dollarsDefault);
    if (!(dollarsMax > 0)) throw new UsageError('--max-dollars expects a number above 0, such as 0.05.');
    // Says at once if the address or the credentials are wrong.
    await service.health();
    const measured = await measureService({
      transport,
      namespace,
      runtime: service.runtime,
      rounds: given.integer('rounds', 1, 100_000) ?? roundsDefault,
      crowd: given.integer('crowd', 2, 1_000) ?? crowdDefault,
      durationMsMax: given.durationMs('max-duration', 1_000, 3_600_000) ?? durationMsDefault,
      dollarsMax,
      signal: signals.interrupted,
      onPhase: (what) => terminal.note(`measuring ${what}`),
    });
    const { rows, requests, dollars, endedBy } = measured;
    terminal.result(measured, () => {
      terminal.table(
        ['WHAT', right('COUNT'), right('P50'), right('P99'), right('MODEL P50 / P99')],
        rows.map((row) => [row.what, String(row.count), exact(row.p50Ms), exact(row.p99Ms), modelOf(row)]),
      );
      terminal.print('');
      terminal.print(`${requests} requests, about ${dollars.toFixed(4)} dollars on AWS by list prices`);
      if (endedBy !== undefined) terminal.print(`ended early by --max-${endedBy}`);
    });
  },
};
