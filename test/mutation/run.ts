/**
 * Mutation testing by a tool: `npm run mutate -- src/lock` changes every expression of a folder or a file in every way
 * that StrykerJS knows, one at a time, and runs the tests that reach it. If a mutant survives, a test is missing, or the
 * change makes no difference. The tool is a separate package beside this file, and the first run installs it.
 * Scores go to scores.json, and from there into docs/mutants.md.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { existsSync, globSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { copyTree, root } from '../mutants/copy-tree.ts';
import { writePage } from '../mutants/verdicts.ts';
import { isEquivalent } from './equivalents.ts';
import { folderOf, suitesFor, suitesOf } from './folders.ts';
import { leftOut } from './left-out.ts';
import { type Note, notesIn } from './notes.ts';
import { keepScores, type Outcome } from './scores.ts';

/** As the tool describes it. Lines and columns count from zero. */
interface ToolMutant {
  readonly id: string;
  readonly fileName: string;
  readonly mutatorName: string;
  readonly replacement: string;
  /** Set if the mutant is not planted. */
  readonly statusReason?: string;
  readonly location: { readonly start: Position; readonly end: Position };
}

interface Position {
  readonly line: number;
  readonly column: number;
}

interface ToolFile {
  readonly name: string;
  readonly content: string;
  readonly mutate: boolean;
}

interface Tool {
  Instrumenter: new (
    logger: object,
  ) => {
    instrument(
      files: readonly ToolFile[],
      options: object,
    ): Promise<{ readonly files: readonly ToolFile[]; readonly mutants: readonly ToolMutant[] }>;
  };
}

/** If nothing new is known for so long, the mutant that is planted hangs the process. */
const silenceMsMax = 90_000;

const target = process.argv[2];
if (target === undefined || folderOf(target) === undefined) {
  process.stdout.write(`Say what to mutate: a path in one of ${Object.keys(suitesOf).join(', ')}.\n`);
  process.exit(1);
}

const sources = target.endsWith('.ts') ? [target] : globSync(`${target}/**/*.ts`, { cwd: root }).sort();
const { Instrumenter } = await loadTool();
for (const source of sources) await mutate(source);
writePage();

async function loadTool(): Promise<Tool> {
  const folder = fileURLToPath(new URL('stryker/', import.meta.url));
  const entry = join(folder, 'node_modules/@stryker-mutator/instrumenter/dist/src/index.js');
  if (!existsSync(entry)) {
    const args = ['ci', '--ignore-scripts', '--no-audit', '--no-fund'];
    const { status } = spawnSync('npm', args, { cwd: folder, stdio: 'inherit' });
    if (status !== 0) throw new Error(`npm ci in ${folder} ended with ${status}.`);
  }
  return (await import(entry)) as Tool;
}

async function mutate(source: string): Promise<void> {
  const content = readFileSync(join(root, source), 'utf8');
  const silent = { debug() {}, info() {}, isDebugEnabled: () => false };
  const instrumented = await new Instrumenter(silent).instrument([{ name: source, content, mutate: true }], {
    plugins: null,
    excludedMutations: [],
    ignorers: leftOut,
  });
  const { files } = instrumented;
  const mutants = instrumented.mutants.filter(({ statusReason }) => statusReason === undefined);
  if (mutants.length === 0) return;
  const folder = await copyTree();
  try {
    for (const file of files) writeFileSync(join(folder, file.name), file.content);
    const from = performance.now();
    const noticed = await judge(folder, source);
    const outcomes = mutants.map((mutant): Outcome => {
      if (noticed.has(mutant.id)) return 'noticed';
      const text = textAt(content, mutant.location);
      if (isEquivalent({ file: source, text, instead: mutant.replacement })) return 'equivalent';
      const { line } = mutant.location.start;
      process.stdout.write(
        `${source}:${line + 1} ${mutant.mutatorName}: ${oneLine(text)}  ->  ${oneLine(mutant.replacement)}\n`,
      );
      return 'missed';
    });
    const missed = outcomes.filter((outcome) => outcome === 'missed').length;
    const seconds = Math.round((performance.now() - from) / 1_000);
    process.stdout.write(`${source}: ${missed} of ${mutants.length} were missed (${seconds} s)\n`);
    keepScores(source, outcomes);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The ids of the mutants that a test noticed, or that never ended. */
async function judge(folder: string, source: string): Promise<Set<string>> {
  const path = join(folder, 'mutation-notes.jsonl');
  writeFileSync(path, '');
  const noticed = new Set<string>();
  let notes: Note[] = [];
  for (let done = false; !done; ) {
    done = await runTogether(folder, source, path);
    notes = notesIn(readFileSync(path, 'utf8'));
    const last = notes.at(-1);
    if (done) break;
    if (last?.kind !== 'planted') throw new Error(`The suites of ${source} hang without a mutant.`);
    // So that the next process leaves it out.
    writeFileSync(path, `${JSON.stringify({ ...last, kind: 'noticed', test: 'it never ended' })}\n`, { flag: 'a' });
  }
  if (!notes.some(({ kind }) => kind === 'loaded')) throw new Error(`The suites of ${source} did not run.`);
  const broken = notes.find(({ kind }) => kind === 'broken');
  if (broken?.kind === 'broken') throw new Error(`A test fails without a mutant: ${broken.test}`);
  // What runs while a module or a suite is loaded shows its mutant only if it is there from the start. A test that calls
  // the same code again may not look at what was made before it.
  const alone = notes.flatMap((note) => (note.kind === 'loaded' ? note.mutants : []));
  for (const note of notes) {
    if (note.kind === 'noticed') noticed.add(note.mutant);
    // Its harm outlived it, or can't be told from that of another.
    if (note.kind === 'damaging') alone.push(note.mutant);
    if (note.kind === 'unjudged') alone.push(...note.mutants);
  }
  for (const id of new Set(alone)) if (!noticed.has(id) && (await isNoticedAlone(folder, source, id))) noticed.add(id);
  return noticed;
}

/** Judges all mutants in one process. Resolves with false if it had to be ended. */
function runTogether(folder: string, source: string, notes: string): Promise<boolean> {
  const child = startSuites(folder, source, { HOLDFAST_MUTATION_NOTES: notes });
  // Read, so that the process is never held up by a full pipe.
  child.stdout?.resume();
  child.stderr?.resume();
  let known = '';
  let isEnded = false;
  const timer = setInterval(() => {
    const now = readFileSync(notes, 'utf8');
    isEnded = now === known;
    known = now;
    if (isEnded) end(child);
  }, silenceMsMax);
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', () => {
      clearInterval(timer);
      resolve(!isEnded);
    });
  });
}

/** Plants one mutant from the start of the process. */
function isNoticedAlone(folder: string, source: string, id: string): Promise<boolean> {
  const child = startSuites(folder, source, { __STRYKER_ACTIVE_MUTANT__: id }, ['--bail', '1']);
  const timer = setTimeout(() => end(child), 4 * silenceMsMax);
  let output = '';
  const read = (chunk: Buffer) => {
    output += chunk.toString();
  };
  child.stdout?.on('data', read);
  child.stderr?.on('data', read);
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code, signal) => {
      clearTimeout(timer);
      // A process that could not even start its tests has noticed nothing.
      const isJudged = output.includes('FAIL') || output.includes('Unhandled');
      if (code !== 0 && signal === null && !isJudged) reject(new Error(output.slice(-2_000)));
      else resolve(code !== 0);
    });
  });
}

function startSuites(
  folder: string,
  source: string,
  env: NodeJS.ProcessEnv,
  more: readonly string[] = [],
): ChildProcess {
  const vitest = join(root, 'node_modules/vitest/vitest.mjs');
  const args = ['run', '--config', 'test/mutation/vitest.config.ts', '--reporter', 'dot'];
  return spawn(process.execPath, [vitest, ...args, ...more], {
    cwd: folder,
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      ...process.env,
      HOLDFAST_TEST_ENGINE: 'memory',
      HOLDFAST_MUTATION_SUITES: suitesFor(source).join(','),
      ...env,
    },
  });
}

function end(child: ChildProcess): void {
  process.kill(-(child.pid as number), 'SIGKILL');
}

function textAt(content: string, { start, end }: ToolMutant['location']): string {
  const lines = content.split('\n');
  const offset = ({ line, column }: Position) =>
    lines.slice(0, line).reduce((sum, { length }) => sum + length + 1, 0) + column;
  return content.slice(offset(start), offset(end));
}

function oneLine(text: string): string {
  return text.replaceAll(/\s+/g, ' ').slice(0, 120);
}
