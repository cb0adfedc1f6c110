/**
 * Runs the contract and integration suites through the harsh table, once for each of as many new seeds as asked:
 * `node test/support/harsh/run.ts 5`. A seed that fails is printed with the command that runs it again, and the next
 * seed follows, so one night can find several.
 */
import { spawnSync } from 'node:child_process';
import { parseArgs } from 'node:util';

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: { first: { type: 'string' }, engine: { type: 'string', default: 'memory' } },
});
const seeds = Number(positionals[0] ?? 3);
if (!Number.isInteger(seeds) || seeds <= 0)
  throw new Error(`The number of seeds must be a positive integer, got ${positionals[0]}.`);
const first = Number(values.first ?? Date.now() % 1_000_000_000);
const { engine } = values;

const suites = ['--project', 'contract', '--project', 'integration'];
const failed: number[] = [];
for (let seed = first; seed < first + seeds; seed++) {
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    ['node_modules/vitest/vitest.mjs', 'run', '--config', 'test/vitest.config.ts', ...suites],
    {
      encoding: 'utf8',
      env: { ...process.env, NO_COLOR: '1', HOLDFAST_TEST_HARSH: String(seed), HOLDFAST_TEST_ENGINE: engine },
      maxBuffer: 256 * 1024 * 1024,
    },
  );
  const met = stdout.split('\n').filter((line) => line.startsWith('Harsh by seed'));
  process.stdout.write(`Seed ${seed}: ${status === 0 ? 'passed' : 'failed'}\n${met.join('\n')}\n`);
  if (status === 0) continue;
  failed.push(seed);
  const told = `${stdout}\n${stderr}`.split('\n').filter((line) => /^\s*FAIL /.test(line));
  process.stdout.write(`${[...new Set(told)].join('\n')}\n`);
  const again = `HOLDFAST_TEST_HARSH=${seed} HOLDFAST_TEST_ENGINE=${engine}`;
  process.stdout.write(`${again} npm test -- ${suites.join(' ')}\n`);
}
process.stdout.write(`${seeds - failed.length} of ${seeds} seeds passed.\n`);
process.exitCode = failed.length > 0 ? 1 : 0;
