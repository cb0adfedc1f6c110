/**
 * Plants each mutant in a copy of the tree, one at a time, and runs the fast suites until one of them notices:
 * `node test/mutants/run.ts [--only text] [--unjudged] [--suite simulation] [--jobs 1]`. If a mutant survives, a test is
 * missing. Each verdict is kept in verdicts.json with its day, and docs/mutants.md is written anew, so that a run may be
 * interrupted, or do a few mutants at a time. A run of one suite alone keeps nothing.
 */
import { spawn } from 'node:child_process';
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { type Mutant, mutants } from './list.ts';
import { keepVerdict, readVerdicts, type Verdict, writePage } from './verdicts.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));
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
}

/**
 * Without the tests of the house, the docs, the benchmarks and this list: they read the sources, and would notice any
 * change of text.
 */
const unitParts = [
  ...['lock', 'record', 'session', 'multi', 'store', 'service', 'client', 'notify'],
  ...['http', 'contract', 'local', 'cli', 'guards', 'tools', 'opentelemetry', 'linearizability.test.ts'],
];

/** In the order in which they run: the fastest first. */
const suites: readonly Suite[] = [
  { name: 'unit', paths: unitParts.map((part) => `test/unit/${part}`) },
  { name: 'property', paths: [] },
  { name: 'simulation', paths: [] },
  { name: 'contract', paths: [] },
  { name: 'infra', paths: [] },
  { name: 'integration', paths: [] },
  { name: 'e2e', paths: ['test/e2e/cli', 'test/e2e/client-process.test.ts', 'test/e2e/faults.test.ts'] },
];

/** The tests of the same folder come first: they notice most faults, and take a fraction of the time. */
const nearest: readonly (readonly [folder: string, suite: Suite])[] = [
  ...unitParts
    .filter((part) => !part.endsWith('.ts'))
    .map((part) => [`src/${part}/`, { name: 'unit', paths: [`test/unit/${part}`] }] as const),
  ['functions/', { name: 'integration', paths: ['test/integration/notify/functions.test.ts'] }],
];

/** If only a few suites can notice a fault, only these run, in this order. */
const suitesOfFolder: readonly (readonly [folder: string, suites: readonly string[]])[] = [
  ['infra/', ['infra']],
  ['functions/', ['integration']],
  ['src/cli/', ['unit', 'e2e']],
  ['src/local/', ['unit', 'integration', 'e2e']],
  ['src/guards/', ['unit', 'property', 'integration']],
  ['src/middleware/', ['unit']],
  ['src/http/', ['unit', 'integration']],
  ['src/websocket/', ['unit', 'simulation', 'integration']],
  // The simulation keeps its locks in memory, so it can't notice faults in the code for the table.
  ['src/store/dynamodb/', ['unit', 'property', 'contract', 'integration', 'simulation']],
];
const suitesOfOthers = ['unit', 'property', 'simulation', 'contract', 'integration'];

/** Enough for forty worlds. Most mutants are noticed in the first ten. */
const simulationMs = 40_000;
/** A mutant may make something wait without end. Then the suite counts as having noticed. */
const suiteMsMax = 240_000;

/** Runs a suite. Resolves with the first failure, or undefined if everything passed. */
function runSuite(folder: string, { name, paths }: Suite): Promise<string | undefined> {
  return new Promise((resolve, reject) => {
    const args = ['run', '--config', 'test/vitest.config.ts', '--project', name, '--bail', '1', ...paths];
    const child = spawn(join(root, 'node_modules/.bin/node'), [join(root, 'node_modules/vitest/vitest.mjs'), ...args], {
      cwd: folder,
      detached: true,
      env: {
        ...process.env,
        NO_COLOR: '1',
        HOLDFAST_TEST_ENGINE: 'dynoxide',
        HOLDFAST_SIMULATION_MS: String(simulationMs),
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
      else resolve(firstFailure(output));
    });
  });
}

function firstFailure(output: string): string {
  const world = /Seed (\d+) breaks the promise "([^"]+)"/.exec(output);
  if (world !== null) return `seed ${world[1]}, promise "${world[2]}"`;
  // Vitest names the project first, between bars, which would become columns of the report.
  const test = /FAIL\s+(?:\|\w+\|\s+)?(.+)/.exec(output)?.[1];
  if (test !== undefined) return test.replaceAll('|', '/').trim();
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

const sound = new Map<Suite, Promise<string | undefined>>();

/** A suite that fails without a mutant would seem to notice every mutant. So each is tried, once, before it is believed. */
async function requireSound(suite: Suite): Promise<void> {
  const tried = sound.get(suite) ?? runUntouched(suite);
  sound.set(suite, tried);
  const failure = await tried;
  if (failure !== undefined) throw new Error(`The ${suite.name} suite fails without a mutant: ${failure}`);
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
  const near = nearest.find(([folder]) => file.startsWith(folder))?.[1];
  return near === undefined || !inOrder.some(({ name }) => name === near.name) ? inOrder : [near, ...inOrder];
}

async function judge(folder: string, mutant: Mutant): Promise<Verdict> {
  const uproot = await plant(folder, mutant);
  const from = performance.now();
  try {
    for (const suite of inOrderFor(mutant)) {
      const noticedBy = await runSuite(folder, suite);
      if (noticedBy === undefined) continue;
      const verdict = { suite: suite.name, where: noticedBy, ...effort(from) };
      await requireSound(suite);
      return verdict;
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

/** A copy of the tree in which mutants are planted. */
async function copyTree(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-mutants-'));
  for (const part of ['src', 'test', 'infra', 'functions', 'docs', 'package.json', 'tsconfig.json', 'cdk.json'])
    await cp(join(root, part), join(folder, part), {
      recursive: true,
      filter: (path) => !path.includes('node_modules'),
    });
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'));
  return folder;
}

async function judgeAll(chosen: readonly Mutant[], jobs: number): Promise<Verdict[]> {
  const verdicts: Verdict[] = [];
  const waiting = chosen.values();
  const work = async () => {
    const folder = await copyTree();
    try {
      // All jobs share one iterator: each takes the next mutant when it is done with one.
      for (const mutant of waiting) {
        const verdict = await judge(folder, mutant);
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
process.stdout.write(`${verdicts.length - survivors.length} of ${verdicts.length} were noticed.\n`);
process.exitCode = survivors.length > 0 ? 1 : 0;
