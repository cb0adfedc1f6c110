/**
 * Plants each mutant in a copy of the tree, one at a time, and runs the tests that can notice it until one fails. If a
 * mutant survives, a test is missing, and the exit code is 1.
 *
 *     npm run mutants                           every mutant of list.ts
 *     npm run mutants -- --file src/lock        those of a file or a folder
 *     npm run mutants -- --name grace           those with this text in their name
 *     npm run mutants -- --since main           those whose file or nearest tests changed, and new ones
 *     npm run mutants -- --resume               without those that the last run noticed
 *     npm run mutants -- --all src/time/x.ts    every operator of these files, by their nearest tests
 *
 * Verdicts are printed, and added to .mutants/verdicts.jsonl. The output of the last suite is beside it.
 */
import { execFileSync, spawn } from 'node:child_process';
import {
  appendFileSync,
  closeSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { mutants } from './list.ts';
import { type Planted, plant, plantAll } from './planting.ts';
import { nearSuites, type Suite, suitesFor } from './suites.ts';

interface Verdict {
  readonly name: string;
  readonly file: string;
  readonly outcome: 'noticed' | 'survived' | 'not judged';
  /** The test that noticed it, or why there is no verdict. */
  readonly by?: string;
  readonly seconds: number;
}

/** What a suite does without a mutant. */
interface Baseline {
  readonly failure: string | undefined;
  /** A mutant may make something wait for ever. If the suite takes this long, it counts as having noticed. */
  readonly msMax: number;
}

const root = fileURLToPath(new URL('../../', import.meta.url));
const output = join(root, '.mutants');
const reportPath = join(output, 'verdicts.jsonl');

/** The wide suites take up to two minutes on a quiet machine. */
const baselineMsMax = 900_000;
/** On a machine that others use, a suite that takes a second may take twenty. */
const limitMsMin = 60_000;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    file: { type: 'string', default: '' },
    name: { type: 'string', default: '' },
    since: { type: 'string' },
    resume: { type: 'boolean', default: false },
    all: { type: 'boolean', default: false },
  },
});
if (values.all === (positionals.length === 0))
  throw new Error('Name the files to mutate after --all. Without --all, choose with --file, --name or --since.');

const noticedBefore = values.resume ? readNoticed() : new Set<string>();
if (!values.resume) rmSync(reportPath, { force: true });
mkdirSync(output, { recursive: true });

const copy = copyTree();
let running: number | undefined;
process.on('exit', () => rmSync(copy, { recursive: true, force: true }));
process.on('SIGINT', () => {
  // The suites run in a group of their own, which the terminal does not interrupt.
  if (running !== undefined) process.kill(-running, 'SIGKILL');
  process.exit(130);
});

const baselines = new Map<string, Promise<Baseline>>();
const count = { noticed: 0, survived: 0, 'not judged': 0 };
for (const mutant of chosen()) {
  const from = performance.now();
  const found = typeof mutant === 'string' ? ({ outcome: 'not judged', by: mutant } as const) : await judge(mutant);
  const { name, file } = typeof mutant === 'string' ? { name: mutant, file: '' } : mutant;
  report({ name, file, ...found, seconds: Math.round((performance.now() - from) / 100) / 10 });
}
process.stdout.write(`${count.noticed} noticed, ${count.survived} survived, ${count['not judged']} not judged.\n`);
process.exitCode = count.survived + count['not judged'] > 0 ? 1 : 0;

/** A string is a mutant of the list that can't be planted, with the reason. */
function chosen(): (Planted | string)[] {
  const fits = ({ name, file }: { name: string; file: string }) =>
    name.includes(values.name) && file.startsWith(values.file) && !noticedBefore.has(name);
  if (values.all) {
    const files = positionals.map((path) => relative(root, resolve(path)));
    const untested = files.filter((file) => nearSuites(file).length === 0);
    if (untested.length > 0) throw new Error(`suites.ts knows no tests that were written for ${untested.join(', ')}.`);
    return files.flatMap((file) => plantAll(file, readFileSync(join(root, file), 'utf8'))).filter(fits);
  }
  const isChanged = values.since === undefined ? () => true : changedSince(values.since);
  return mutants.filter((mutant) => fits(mutant) && isChanged(mutant)).map((mutant) => plant(mutant));
}

function changedSince(commit: string): (mutant: { name: string; file: string }) => boolean {
  const git = (...args: string[]) => execFileSync('git', args, { cwd: root, encoding: 'utf8' });
  const changed = git('diff', '--name-only', commit).split('\n');
  const before = git('show', `${commit}:test/mutants/list.ts`);
  return ({ name, file }) =>
    !before.includes(name) ||
    changed.includes(file) ||
    nearSuites(file).some(({ paths }) => paths.some((path) => changed.some((other) => other.startsWith(path))));
}

async function judge({ file, source }: Planted): Promise<Pick<Verdict, 'outcome' | 'by'>> {
  const path = join(copy, file);
  const untouched = readFileSync(path, 'utf8');
  for (const suite of values.all ? nearSuites(file) : suitesFor(file)) {
    const { failure, msMax } = await baselineOf(suite);
    if (failure !== undefined) return { outcome: 'not judged', by: `without a mutant too: ${failure}` };
    writeFileSync(path, source);
    const by = await runSuite(suite, msMax);
    writeFileSync(path, untouched);
    if (by !== undefined) return { outcome: 'noticed', by };
  }
  return { outcome: 'survived' };
}

/** A suite that fails without a mutant would seem to notice every mutant. So each is run once without one. */
function baselineOf(suite: Suite): Promise<Baseline> {
  const key = JSON.stringify(suite);
  const known = baselines.get(key) ?? measure(suite);
  baselines.set(key, known);
  return known;
}

async function measure(suite: Suite): Promise<Baseline> {
  const from = performance.now();
  const failure = await runSuite(suite, baselineMsMax);
  return { failure, msMax: Math.max(limitMsMin, 5 * (performance.now() - from)) };
}

/** Runs a suite in the copy until a test fails. Resolves with that test, or with undefined if none does. */
function runSuite({ project, paths }: Suite, msMax: number): Promise<string | undefined> {
  const results = join(copy, 'results.json');
  rmSync(results, { force: true });
  const args = ['run', '--config', 'test/vitest.config.ts', '--project', project, '--bail', '1', ...paths];
  const vitest = [join(root, 'node_modules/vitest/vitest.mjs'), ...args, '--reporter', 'json', '--outputFile', results];
  const log = openSync(join(output, 'last-suite.log'), 'w');
  const child = spawn(process.execPath, vitest, {
    cwd: copy,
    detached: true,
    stdio: ['ignore', log, log],
    env: {
      ...process.env,
      // Most mutants that the simulation notices are noticed in its first ten worlds.
      HOLDFAST_SIMULATION_WORLDS: '40',
      // The same worlds for every mutant.
      HOLDFAST_FIRST_SEED: '1',
      // A test that waits for ever is ended before its suite, so that it can be named.
      HOLDFAST_TEST_NET_MS: String(Math.round(msMax / 2)),
    },
  });
  closeSync(log);
  running = child.pid;
  const timer = setTimeout(() => process.kill(-(child.pid as number), 'SIGKILL'), msMax);
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code) => {
      clearTimeout(timer);
      running = undefined;
      if (code === 0) resolve(undefined);
      else
        resolve(
          firstFailure(results) ?? `the ${project} suite ${code === null ? 'did not end' : `ended with ${code}`}`,
        );
    });
  });
}

function firstFailure(path: string): string | undefined {
  if (!existsSync(path)) return undefined;
  const { testResults } = JSON.parse(readFileSync(path, 'utf8')) as {
    testResults: {
      name: string;
      status: string;
      assertionResults: { status: string; fullName: string; failureMessages?: string[] }[];
    }[];
  };
  const failed = testResults.find(({ status }) => status === 'failed');
  if (failed === undefined) return undefined;
  const file = relative(copy, failed.name);
  const test = failed.assertionResults.find(({ status }) => status === 'failed');
  const world = /Seed \d+ breaks the promise "[^"]+"/.exec(test?.failureMessages?.join() ?? '')?.[0];
  return `${file} > ${world ?? test?.fullName ?? 'could not be loaded'}`;
}

function report(verdict: Verdict): void {
  count[verdict.outcome] += 1;
  appendFileSync(reportPath, `${JSON.stringify(verdict)}\n`);
  const { name, outcome, by, seconds } = verdict;
  const shown = outcome === 'noticed' ? outcome : outcome.toUpperCase();
  process.stdout.write(`${shown} (${seconds} s): ${name}${by === undefined ? '' : `\n    ${by}`}\n`);
}

function readNoticed(): Set<string> {
  if (!existsSync(reportPath)) return new Set();
  const verdicts = readFileSync(reportPath, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Verdict);
  return new Set(verdicts.filter(({ outcome }) => outcome === 'noticed').map(({ name }) => name));
}

function copyTree(): string {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-mutants-'));
  // Some tests read the pages, and compare what they say with the sources.
  const pages = ['docs', 'README.md', 'CONTRIBUTING.md'];
  for (const part of ['src', 'test', 'infra', 'functions', ...pages, 'package.json', 'tsconfig.json', 'cdk.json'])
    cpSync(join(root, part), join(folder, part), {
      recursive: true,
      filter: (path) => !path.includes('node_modules'),
    });
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
  return folder;
}
