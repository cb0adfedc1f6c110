/**
 * Plants each mutant in a copy of the tree, one at a time, and runs the fast suites until one of them notices:
 * `node test/mutants/run.ts [--only text] [--unjudged] [--suite simulation] [--jobs 1]`. If a mutant survives, a test is
 * missing. Each verdict is kept in verdicts.json with its day, and docs/mutants.md is written anew, so that a run may be
 * interrupted, or do a few mutants at a time. A run of one suite alone keeps nothing.
 */
import { spawn } from 'node:child_process';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { copyTree, root } from './copy-tree.ts';
import { type Mutant, mutants } from './list.ts';
import { keepVerdict, readVerdicts, type Verdict, writePage } from './verdicts.ts';

const { values } = parseArgs({
  options: {
    only: { type: 'string' },
    suite: { type: 'string' },
    // One at a time: suites that wait for an engine or for real time would slow each other down, and then fail at
    // random.
    jobs: { type: 'string', default: '1' },
    // Only those of which there is no verdict yet.
    unjudged: { type: 'boolean', default: false },
  },
});

interface Suite {
  readonly name: string;
  /** Arguments for vitest besides the project. */
  readonly paths: readonly string[];
  /** The suites run on dynoxide if this does not name another engine. */
  readonly engine?: 'memory' | 'dynoxide';
}

/**
 * Without the tests of the house, the docs, the benchmarks and this list: they read the sources, and would notice any
 * change of text.
 */
const unitParts = [
  ...['lock', 'record', 'session', 'multi', 'store', 'service', 'client', 'notify'],
  ...['http', 'contract', 'local', 'cli', 'guards', 'tools', 'opentelemetry', 'server', 'durable', 'engine'],
  ...['process', 'websocket', 'console'],
  'linearizability.test.ts',
];

const suites: readonly Suite[] = [
  { name: 'unit', paths: unitParts.map((part) => `test/unit/${part}`) },
  { name: 'property', paths: [] },
  { name: 'contract', paths: [] },
  { name: 'infra', paths: [] },
  { name: 'integration', paths: [] },
  { name: 'e2e', paths: ['test/e2e/cli', 'test/e2e/client-process.test.ts', 'test/e2e/faults.test.ts'] },
  { name: 'simulation', paths: [] },
];

const filesOf =
  (name: string) =>
  (...files: string[]): Suite => ({
    name,
    paths: files.map((file) => `test/${name}/${file}.test.ts`),
    engine: 'memory',
  });
const unit = filesOf('unit');
const contract = filesOf('contract');
const integration = filesOf('integration');
const infra = filesOf('infra');
const e2e = filesOf('e2e');

/**
 * The tests that are written for a folder or a file come first: they notice most faults, and take a fraction of the
 * time. All entries that fit a file count, in this order.
 */
const nearest: readonly (readonly [start: string, suite: Suite])[] = [
  ['src/store/history-rules', contract('history')],
  ['src/store/dynamodb/notifier-items', contract('connections')],
  ['src/store/dynamodb/lock-', unit('store/lock-writes', 'store/lock-item', 'store/lock-store')],
  ['src/store/dynamodb/page-item', unit('store/page-item')],
  ...unitParts
    .filter((part) => !part.endsWith('.ts'))
    .map((part) => [`src/${part}/`, { name: 'unit', paths: [`test/unit/${part}`] }] as const),
  ['functions/', { name: 'integration', paths: ['test/integration/notify/functions.test.ts'] }],
  ['src/middleware/', { name: 'unit', paths: ['test/unit/client'] }],
  ['src/session/', contract('session-store')],
  ['src/store/dynamodb/lock-', contract('lock-writes', 'late-writes', 'lock-store', 'layout')],
  ['src/store/dynamodb/lock-', contract('pages')],
  ['src/store/dynamodb/page-item', contract('pages', 'connections')],
  ['src/store/dynamodb/connection-items', contract('connections')],
  ['src/store/dynamodb/socket-items', contract('connections')],
  ['src/store/dynamodb/record-', contract('records')],
  ['src/store/dynamodb/session-', contract('session-store')],
  ['src/store/dynamodb/history-', contract('history')],
  ['src/store/dynamodb/item-table', contract('requests', 'harsh')],
  ['src/store/', { name: 'contract', paths: [], engine: 'memory' }],
  ['src/local/pump', integration('pump')],
  ['src/local/gateway', integration('gateway')],
  ['src/local/access', integration('gateway')],
  ['src/local/connections', integration('websocket')],
  ['src/websocket/', integration('websocket')],
  ['src/guards/dynamodb', integration('guards/dynamodb')],
  ['src/guards/redis', integration('guards/redis')],
  ['src/guards/s3', integration('guards/s3')],
  ['src/guards/sql', integration('guards/sqlite', 'guards/postgres', 'guards/mysql')],
  ['src/cli/commands/once', e2e('cli-once')],
  ['src/cli/hold', e2e('cli-run')],
  ['infra/table.ts', infra('table')],
  ['infra/table-access', infra('grants')],
  ['infra/access', infra('grants')],
  ['infra/http-api', infra('http-api')],
  ['infra/notifications', infra('notifications')],
  ['infra/expiry', infra('notifications')],
  ['infra/locked-section', infra('locked-section')],
  ['infra/callbacks', infra('locked-section')],
  ['infra/', infra('stack')],
];

/** If only a few suites can notice a fault, only these run, in this order. */
const suitesOfFolder: readonly (readonly [folder: string, suites: readonly string[]])[] = [
  ['infra/', ['infra']],
  ['functions/', ['integration']],
  ['src/cli/', ['unit', 'e2e']],
  ['src/local/', ['unit', 'integration', 'e2e']],
  ['src/guards/', ['unit', 'property', 'integration']],
  ['src/middleware/', ['unit']],
  ['src/process/', ['unit', 'integration']],
  ['src/console/', ['unit']],
  ['src/http/', ['unit', 'integration']],
  ['src/websocket/', ['unit', 'integration', 'simulation']],
];
/** The simulation comes last: it takes the longest, and names a world, where a test names what is wrong. */
const suitesOfOthers = ['unit', 'property', 'contract', 'integration', 'simulation'];

/** Most mutants are noticed in the first ten worlds. */
const simulationWorlds = 40;
/** A mutant may make something wait without end. Then the test, or at last the suite, counts as having noticed. */
const testMsMax = 120_000;
const suiteMsMax = 480_000;

/** Runs a suite. Resolves with the first failure, or undefined if everything passed. */
function runSuite(folder: string, suite: Suite): Promise<string | undefined> {
  const { name, paths, engine = 'dynoxide' } = suite;
  return new Promise((resolve, reject) => {
    const args = ['run', '--config', 'test/vitest.config.ts', '--project', name, '--bail', '1', ...paths];
    const child = spawn(join(root, 'node_modules/.bin/node'), [join(root, 'node_modules/vitest/vitest.mjs'), ...args], {
      cwd: folder,
      detached: true,
      env: {
        ...process.env,
        NO_COLOR: '1',
        HOLDFAST_TEST_ENGINE: engine,
        HOLDFAST_SIMULATION_WORLDS: String(simulationWorlds),
        HOLDFAST_TEST_NET_MS: String(testMsMax),
        // The same worlds for every mutant, so that reports can be compared.
        HOLDFAST_FIRST_SEED: '1',
      },
    });
    let output = '';
    const read = (chunk: Buffer) => {
      output += chunk.toString();
    };
    child.stdout.on('data', read);
    child.stderr.on('data', read);
    const timer = setTimeout(() => process.kill(-(child.pid as number), 'SIGKILL'), suiteMsMax);
    child.on('error', reject);
    child.on('close', (code, signal) => {
      clearTimeout(timer);
      if (signal !== null) resolve('it did not come to an end');
      else if (code === 0) resolve(undefined);
      else resolve(firstFailure(output) ?? runSuite(folder, suite));
    });
  });
}

/** Undefined if no test failed: on a very busy machine, the tests may not even have started. */
function firstFailure(output: string): string | undefined {
  const world = /Seed (\d+) breaks the promise "([^"]+)"/.exec(output);
  if (world !== null) return `seed ${world[1]}, promise "${world[2]}"`;
  // Vitest names the project first, between bars, which would become columns of the report.
  const test = /FAIL\s+(?:\|\w+\|\s+)?(.+)/.exec(output)?.[1];
  if (test !== undefined) return test.replaceAll('|', '/').trim();
  if (output.includes('Failed to start')) return undefined;
  throw new Error(`The suite failed without naming a test:\n${output.slice(-2_000)}`);
}

async function plant(folder: string, { file, text, instead }: Mutant): Promise<() => Promise<void>> {
  const path = join(folder, file);
  const source = await readFile(path, 'utf8');
  if (source.split(text).length !== 2) throw new Error(`${file} no longer holds exactly once:\n${text}`);
  await writeFile(
    path,
    source.replace(text, () => instead),
  );
  return () => writeFile(path, source);
}

const suitesAsked = suites.filter(({ name }) => values.suite === undefined || name === values.suite);

const judged = values.unjudged ? readVerdicts() : {};
const chosen = mutants.filter(
  ({ name, file }) => !(name in judged) && (values.only === undefined || `${file} ${name}`.includes(values.only)),
);

const sound = new Map<string, Promise<string | undefined>>();

/**
 * A test that fails without a mutant would seem to notice every mutant. So the file that failed is run without one,
 * once, before it is believed.
 */
async function isSound(suite: Suite, failure: string): Promise<boolean> {
  const file = /^(test\/\S+\.ts) > /.exec(failure)?.[1];
  const tried: Suite = file === undefined ? suite : { ...suite, paths: [file] };
  const key = JSON.stringify(tried);
  const found = sound.get(key) ?? runUntouched(tried);
  sound.set(key, found);
  const untouched = await found;
  if (untouched !== undefined) process.stdout.write(`The ${suite.name} suite fails without a mutant: ${untouched}\n`);
  return untouched === undefined;
}

async function runUntouched(suite: Suite): Promise<string | undefined> {
  const folder = await copyTree();
  try {
    return await runSuite(folder, suite);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

function inOrderFor({ file }: Mutant): Suite[] {
  const names = suitesOfFolder.find(([folder]) => file.startsWith(folder))?.[1] ?? suitesOfOthers;
  const inOrder = names.flatMap((name) => suitesAsked.filter((suite) => suite.name === name));
  const near = nearest.flatMap(([start, suite]) => (file.startsWith(start) ? [suite] : []));
  return [...near.filter(({ name }) => inOrder.some((suite) => suite.name === name)), ...inOrder];
}

/** Undefined if a suite failed that also fails without the mutant. */
async function judge(folder: string, mutant: Mutant): Promise<Verdict | undefined> {
  const uproot = await plant(folder, mutant);
  const from = performance.now();
  try {
    for (const suite of inOrderFor(mutant)) {
      const noticedBy = await runSuite(folder, suite);
      if (noticedBy === undefined) continue;
      const verdict = { suite: suite.name, where: noticedBy, ...effort(from) };
      return (await isSound(suite, noticedBy)) ? verdict : undefined;
    }
    return { suite: null, where: '', ...effort(from) };
  } finally {
    await uproot();
  }
}

const effort = (from: number) => ({
  seconds: Math.round((performance.now() - from) / 100) / 10,
  day: new Date().toISOString().slice(0, 10),
});

async function judgeAll(chosen: readonly Mutant[], jobs: number): Promise<Verdict[]> {
  const verdicts: Verdict[] = [];
  const waiting = chosen.values();
  const work = async () => {
    const folder = await copyTree();
    try {
      // All jobs share one iterator: each takes the next mutant when it is done with one.
      for (const mutant of waiting) {
        const verdict = await judge(folder, mutant);
        if (verdict === undefined) continue;
        verdicts.push(verdict);
        const found = verdict.suite === null ? 'SURVIVED' : `${verdict.suite}: ${verdict.where}`;
        process.stdout.write(`${mutant.name}: ${found} (${verdict.seconds} s)\n`);
        if (values.suite === undefined) keepVerdict(mutant, verdict);
      }
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  };
  await Promise.all(Array.from({ length: jobs }, work));
  return verdicts;
}

const jobs = Number(values.jobs);
if (!Number.isInteger(jobs) || jobs < 1) throw new Error(`Jobs must be a positive integer, got ${values.jobs}.`);
const verdicts = await judgeAll(chosen, jobs);
writePage();
const survivors = verdicts.filter(({ suite }) => suite === null);
process.stdout.write(
  `${verdicts.length - survivors.length} of ${verdicts.length} were noticed, ${chosen.length - verdicts.length} have no verdict.\n`,
);
process.exitCode = survivors.length > 0 || verdicts.length < chosen.length ? 1 : 0;
