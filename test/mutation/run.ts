/**
 * Mutation testing by a tool: `npm run mutate -- src/lock` changes every expression of a folder or a file in every way
 * that StrykerJS knows, one at a time, and runs the suites of that folder. If a mutant survives, a test is missing, or
 * the change makes no difference. The tool is a separate package beside this file, and the first run installs it.
 * Scores go to scores.json, and from there into docs/mutants.md.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { writePage } from '../mutants/verdicts.ts';
import { folderOf, suitesOf } from './folders.ts';
import type { Score } from './scores.ts';

const here = fileURLToPath(new URL('.', import.meta.url));
const tool = join(here, 'stryker');
const root = fileURLToPath(new URL('../../', import.meta.url));
const target = process.argv[2];
const folder = target === undefined ? undefined : folderOf(target);
if (target === undefined || folder === undefined) {
  process.stdout.write(`Say what to mutate: a path in one of ${Object.keys(suitesOf).join(', ')}.\n`);
  process.exit(1);
}

function run(file: string, args: readonly string[], cwd: string, env: NodeJS.ProcessEnv = {}): void {
  const { status } = spawnSync(file, args, { cwd, stdio: 'inherit', env: { ...process.env, ...env } });
  if (status !== 0) throw new Error(`${file} ${args[0]} ended with ${status}.`);
}

const stryker = join(tool, 'node_modules/@stryker-mutator/core/bin/stryker.js');
// Without its peers, so that the runner finds the vitest of this repository.
if (!existsSync(stryker)) run('npm', ['ci', '--ignore-scripts', '--legacy-peer-deps', '--no-audit', '--no-fund'], tool);

const scratch = mkdtempSync(join(tmpdir(), 'holdfast-mutation-'));
const report = join(scratch, 'report.json');
const configPath = join(scratch, 'stryker.config.json');
writeFileSync(
  configPath,
  JSON.stringify({
    mutate: [target.endsWith('.ts') || target.includes('.ts:') ? target : `${target}/**/*.ts`],
    testRunner: 'vitest',
    vitest: { configFile: 'test/mutation/vitest.config.ts', related: false },
    // The tool would rewrite a tsconfig with TypeScript's compiler API, which TypeScript 7 does not have. Nothing needs
    // to be rewritten.
    tsconfigFile: 'there-is-none.json',
    disableTypeChecks: false,
    coverageAnalysis: 'perTest',
    concurrency: Number(process.env.HOLDFAST_MUTATION_JOBS ?? 1),
    // Ends a mutant with an endless loop. The slowest single test takes a few seconds on a busy machine.
    timeoutMS: 15_000,
    reporters: ['json', 'progress-append-only'],
    jsonReporter: { fileName: report },
    tempDirName: join(scratch, 'sandbox'),
    // The tests read the whole repository. Large files that no test reads are left out.
    ignorePatterns: ['.git', 'cdk.out', 'dist', 'test/mutation/stryker/node_modules', 'test/bench/peers/node_modules'],
  }),
);

interface Report {
  readonly files: Readonly<Record<string, { readonly mutants: readonly ReportedMutant[] }>>;
}

interface ReportedMutant {
  readonly mutatorName: string;
  readonly replacement?: string;
  readonly status: string;
  readonly location: { readonly start: { readonly line: number } };
}

try {
  run(process.execPath, [stryker, 'run', configPath], root, {
    HOLDFAST_MUTATION_SUITES: (suitesOf[folder] ?? []).join(','),
  });
  const { files } = JSON.parse(readFileSync(report, 'utf8')) as Report;
  for (const [file, { mutants }] of Object.entries(files)) {
    for (const { status, mutatorName, replacement = '', location } of mutants)
      if (status === 'Survived' || status === 'NoCoverage')
        process.stdout.write(`${status} ${file}:${location.start.line} ${mutatorName}: ${oneLine(replacement)}\n`);
  }
  keepScores(files, target);
} finally {
  rmSync(scratch, { recursive: true, force: true });
}

/** Files that were not mutated in this run keep their earlier scores. */
function keepScores(files: Report['files'], mutated: string): void {
  // A few lines of a file say nothing about the whole file.
  if (mutated.includes('.ts:')) return;
  const path = join(here, 'scores.json');
  const scores = (existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')) : {}) as Record<string, Score>;
  for (const [file, { mutants }] of Object.entries(files)) {
    const count = (...statuses: string[]) => mutants.filter(({ status }) => statuses.includes(status)).length;
    scores[file] = { noticed: count('Killed', 'Timeout'), missed: count('Survived', 'NoCoverage') };
  }
  const sorted = Object.fromEntries(Object.entries(scores).sort(([one], [other]) => (one < other ? -1 : 1)));
  writeFileSync(path, `${JSON.stringify(sorted, null, 2)}\n`);
  writePage();
}

function oneLine(text: string): string {
  return text.replaceAll(/\s+/g, ' ').slice(0, 120);
}
