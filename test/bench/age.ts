/**
 * `npm run bench:age`: does an engine slow down with its age? Runs acquire-release cycles against the whole local service, and measures
 * how much processor time one takes as the table and its stream grow, for each engine that can run here. Processor time is the same on a
 * busy and on an idle machine. Writes docs/benchmarks/engine-age.md. Needs Linux, which shows the time of an engine's process.
 *
 * `--cycles 2000` runs fewer. `--engine dynoxide` runs one engine alone. `--out file` writes elsewhere.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { Holdfast } from '../../src/client/index.ts';
import { findJava } from '../../src/local/engine/dynamodb-local.ts';
import { findDynoxide } from '../../src/local/engine/dynoxide.ts';
import { defaultOptions } from '../../src/local/options.ts';
import { serve } from '../../src/local/serve.ts';
import { forEachAtMost } from '../../src/tools/pool.ts';

const { values } = parseArgs({
  options: {
    cycles: { type: 'string', default: '6000' },
    engine: { type: 'string' },
    out: { type: 'string', default: fileURLToPath(new URL('../../docs/benchmarks/engine-age.md', import.meta.url)) },
  },
});

/** Enough to keep two cores busy. */
const clients = 8;
const cyclesMax = Number(values.cycles);
/** Each figure is the mean of the cycles just before its age. */
const windowCycles = Math.max(50, Math.floor(cyclesMax / 10));
const silent = { info: () => {}, warn: () => {}, error: () => {} };

const installed = [
  ...((await findJava()) === undefined ? [] : (['dynamodb-local'] as const)),
  ...(findDynoxide() === undefined ? [] : (['dynoxide'] as const)),
  'memory' as const,
].filter((name) => values.engine === undefined || name === values.engine);

/** The processor time of this process and of all processes that it started, in ticks of 10 ms. */
function ticks(): number {
  const all = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      try {
        const fields = readFileSync(`/proc/${name}/stat`, 'utf8')
          .replace(/^.*\) /, '')
          .split(' ')
          .map(Number);
        return [{ id: Number(name), parent: fields[1] ?? 0, used: (fields[11] ?? 0) + (fields[12] ?? 0) }];
      } catch {
        return []; // It ended in the meantime.
      }
    });
  const timeOf = (id: number): number =>
    all.reduce((sum, one) => sum + (one.parent === id ? timeOf(one.id) : one.id === id ? one.used : 0), 0);
  return timeOf(process.pid);
}

/** The processor time of a cycle in each window, youngest first. */
async function measure(engine: (typeof installed)[number]): Promise<number[]> {
  const service = await serve({ ...defaultOptions, engine, memory: true, port: 0 }, silent);
  const locks = new Holdfast({ url: service.url, namespace: 'age', deadlineMs: 60_000 });
  const times: number[] = [];
  const run = (age: number) =>
    forEachAtMost(
      Array.from({ length: windowCycles }, (_, index) => `lock-${age + index}`),
      clients,
      async (name) => {
        const lock = await locks.acquire(name, { autoRenew: false });
        await lock.release();
      },
    );
  try {
    // A virtual machine gets faster during its first cycles, so these are not measured.
    await run(0);
    for (let age = windowCycles; age <= cyclesMax; age += windowCycles) {
      const before = ticks();
      await run(age);
      times.push((ticks() - before) / windowCycles);
      process.stdout.write(`${engine} ${age}: ${((times.at(-1) ?? 0) * 10).toFixed(2)} ms a cycle\n`);
    }
  } finally {
    await locks.close();
    await service.stop();
  }
  return times;
}

const results = new Map<string, number[]>();
for (const engine of installed) results.set(engine, await measure(engine));

const ages = Array.from({ length: Math.ceil(cyclesMax / windowCycles) }, (_, index) => (index + 1) * windowCycles);
const first = (times: readonly number[]): number => times[0] ?? Number.NaN;
const relative = (times: readonly number[], index: number): string =>
  `× ${((times[index] ?? Number.NaN) / first(times)).toFixed(1)}`;
const least = Math.min(...[...results.values()].map(first));
const page = `# Engines by age

Written by \`npm run bench:age\`. ${clients} clients take and release locks of ever new names through the
whole local service. Each cell is the processor time of a cycle at that age, client and service
included, as a multiple of the same engine's first ${windowCycles} cycles.

| cycles so far | ${[...results.keys()].join(' | ')} |
|---|${[...results.keys()].map(() => '---|').join('')}
${ages.map((age, index) => `| ${age.toLocaleString('en')} | ${[...results.values()].map((times) => relative(times, index)).join(' | ')} |`).join('\n')}

At first, with the cheapest engine as 1: ${[...results]
  .map(([name, times]) => `${name} ${(first(times) / least).toFixed(1)}`)
  .join(', ')}.

dynoxide slows down as the stream behind it grows. So \`npm start\` does not choose it by itself: it takes
DynamoDB Local if there is Java, else the built-in engine, \`memory\`, which keeps nothing.
`;
await writeFile(values.out, page);
