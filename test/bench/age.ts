/**
 * `npm run bench:age`: does an engine slow down with its age? Runs acquire-release cycles against the whole local service and tells
 * how many a second it does as its table and its stream grow, for each engine that can run here. Writes docs/benchmarks/engine-age.md.
 *
 * `--cycles 2000` runs fewer. `--engine dynoxide` runs one engine alone. `--out file` writes elsewhere.
 */
import { writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { Holdfast } from '../../src/client/index.ts';
import { findDynoxide } from '../../src/local/engine/dynoxide.ts';
import { findJava } from '../../src/local/engine/java.ts';
import { defaultOptions } from '../../src/local/options.ts';
import { serve } from '../../src/local/serve.ts';
import { forEachAtMost } from '../../src/tools/pool.ts';

const { values } = parseArgs({
  options: {
    cycles: { type: 'string', default: '10000' },
    engine: { type: 'string' },
    out: { type: 'string', default: fileURLToPath(new URL('../../docs/benchmarks/engine-age.md', import.meta.url)) },
  },
});

/** As many as two cores keep busy. */
const clients = 8;
const cyclesMax = Number(values.cycles);
/** Each figure is of the cycles just before its age. */
const windowCycles = Math.max(50, Math.floor(cyclesMax / 10));
const silent = { info: () => {}, warn: () => {}, error: () => {} };

const installed = [
  ...((await findJava()) === undefined ? [] : (['dynamodb-local'] as const)),
  ...(findDynoxide() === undefined ? [] : (['dynoxide'] as const)),
  'memory' as const,
].filter((name) => values.engine === undefined || name === values.engine);

/** Cycles a second in each window, youngest first. */
async function measure(engine: (typeof installed)[number]): Promise<number[]> {
  const service = await serve({ ...defaultOptions, engine, memory: true, port: 0 }, silent);
  const locks = new Holdfast({ url: service.url, namespace: 'age' });
  const rates: number[] = [];
  try {
    for (let age = 0; age < cyclesMax; age += windowCycles) {
      const beganMs = performance.now();
      const names = Array.from({ length: windowCycles }, (_, index) => `lock-${age + index}`);
      await forEachAtMost(names, clients, async (name) => {
        const lock = await locks.acquire(name, { autoRenew: false });
        await lock.release();
      });
      rates.push((windowCycles * 1_000) / (performance.now() - beganMs));
    }
  } finally {
    await locks.close();
    await service.stop();
  }
  return rates;
}

const results = new Map<string, number[]>();
for (const engine of installed) {
  results.set(engine, await measure(engine));
  process.stdout.write(`${engine}: ${results.get(engine)?.map(Math.round).join(' ')}\n`);
}

const ages = Array.from({ length: Math.ceil(cyclesMax / windowCycles) }, (_, index) => (index + 1) * windowCycles);
const first = (rates: readonly number[]): number => rates[0] ?? Number.NaN;
const relative = (rates: readonly number[], index: number): string =>
  `${Math.round((100 * (rates[index] ?? Number.NaN)) / first(rates))} %`;
const page = `# Engines by age

Written by \`npm run bench:age\`. ${clients} clients take and release locks of ever new names through the whole local service. Each
cell is the number of cycles a second just before that age, as a part of the same engine's first ${windowCycles} cycles. A local
engine is the bottleneck of any local figure, so only the ratios mean something.

| cycles so far | ${[...results.keys()].join(' | ')} |
|---|${[...results.keys()].map(() => '---|').join('')}
${ages.map((age, index) => `| ${age} | ${[...results.values()].map((rates) => relative(rates, index)).join(' | ')} |`).join('\n')}

The first ${windowCycles} cycles, with dynoxide's or else the slowest engine's as 1: ${[...results]
  .map(([name, rates]) => `${name} ${(first(rates) / Math.min(...[...results.values()].map(first))).toFixed(1)}`)
  .join(', ')}.
`;
await writeFile(values.out, page);
