/**
 * Runs each test once as it is, and then again for each mutant that the test reaches. All mutants are in the code at
 * once, behind switches, so no process starts per mutant. A mutant counts as noticed only if the test passes again
 * without it: otherwise the mutant has damaged something that outlives it, and another process must judge it.
 */
import { appendFileSync, readFileSync } from 'node:fs';
import { TestRunner } from 'vitest';
import { type Note, notesIn } from './notes.ts';

type Test = Parameters<TestRunner['onAfterTryTask']>[0] & { onFinished?: ((context: object) => unknown)[] };
type Suite = Parameters<typeof TestRunner.getSuiteHooks>[0];
type Cleanup = () => unknown;

/** The switches that StrykerJS writes into the code read and count here. */
interface Switches {
  activeMutant?: string | undefined;
  currentTestId?: string | undefined;
  hitCount?: number | undefined;
  hitLimit?: number | undefined;
  mutantCoverage?: { static: Record<string, number>; perTest: Record<string, Record<string, number>> };
}

/** Read when this file is loaded, because a test may fake timers later. */
const { setTimeout: startTimer, clearTimeout: stopTimer, setImmediate: runSoon } = globalThis;

/** A mutant that waits for ever is ended after this time, or after ten times what the test takes without it. */
const hangMsMin = 1_500;

const path = process.env.HOLDFAST_MUTATION_NOTES as string;
const world = globalThis as typeof globalThis & { __stryker__?: Switches; holdfastJudged?: Set<string> };
world.__stryker__ ??= {};
const switches = world.__stryker__;
world.holdfastJudged ??= new Set(notesIn(readFileSync(path, 'utf8')).flatMap((note) => judgedIn(note) ?? []));
const judged = world.holdfastJudged;

function note(entry: Note): void {
  appendFileSync(path, `${JSON.stringify(entry)}\n`);
  const mutant = judgedIn(entry);
  if (mutant !== undefined) judged.add(mutant);
}

function judgedIn(entry: Note): string | undefined {
  return entry.kind === 'noticed' || entry.kind === 'damaging' ? entry.mutant : undefined;
}

export default class MutantRunner extends TestRunner {
  override onBeforeTryTask(test: Test, options: { retry: number; repeats: number }): void {
    super.onBeforeTryTask(test, options);
    switches.currentTestId = test.id;
  }

  async runTask(test: Test): Promise<void> {
    try {
      await this.#runOnce(test);
      const hits = { ...switches.mutantCoverage?.perTest[test.id] };
      note({ kind: 'ran', test: nameOf(test) });
      const { onFinished } = test;
      await this.#judge(test, hits);
      if (onFinished === undefined) delete test.onFinished;
      else test.onFinished = onFinished;
    } finally {
      // Only now: what a repetition of the test reaches must not count as reached while its suite was loaded.
      switches.currentTestId = undefined;
    }
  }

  async #runOnce(test: Test): Promise<void> {
    try {
      await TestRunner.getTestFn(test)();
    } catch (error) {
      note({ kind: 'broken', test: nameOf(test) });
      throw error;
    }
  }

  override onAfterRunFiles(files: Parameters<TestRunner['onAfterRunFiles']>[0]): void {
    super.onAfterRunFiles(files);
    note({ kind: 'loaded', mutants: Object.keys(switches.mutantCoverage?.static ?? {}) });
  }

  async #judge(test: Test, hits: Readonly<Record<string, number>>): Promise<void> {
    const waiting = Object.entries(hits).filter(([mutant]) => !judged.has(mutant));
    if (waiting.length === 0) return;
    const from = performance.now();
    if (!(await this.#passes(test))) return note({ kind: 'once-only', test: nameOf(test) });
    const hangMs = Math.max(hangMsMin, 10 * (performance.now() - from));
    for (const [index, [mutant, count]] of waiting.entries()) {
      note({ kind: 'planted', mutant });
      const unhandled = listenForUnhandled();
      const isPassed = await this.#passes(test, { mutant, hitLimit: 1_000 + 100 * count, hangMs });
      const isUnhandled = await unhandled();
      if (isPassed && !isUnhandled) continue;
      if (isPassed) {
        // It may be what an earlier mutant left behind. A process of its own tells.
        note({ kind: 'damaging', mutant });
        continue;
      }
      if (await this.#passes(test)) {
        note({ kind: 'noticed', mutant, test: nameOf(test) });
        continue;
      }
      note({ kind: 'damaging', mutant });
      // The harm may be over by now, for example if it was work that went on. Otherwise this test can judge no other.
      if (!(await this.#passes(test)))
        return note({ kind: 'unjudged', mutants: waiting.slice(index + 1).map(([later]) => later) });
    }
  }

  /** Runs the test again with its hooks, with a mutant or without. */
  async #passes(test: Test, planted?: { mutant: string; hitLimit: number; hangMs: number }): Promise<boolean> {
    const cleanups: Cleanup[] = [];
    let timer: ReturnType<typeof startTimer> | undefined;
    switches.activeMutant = planted?.mutant;
    switches.hitCount = planted === undefined ? undefined : 0;
    switches.hitLimit = planted?.hitLimit;
    test.onFinished = [];
    try {
      super.onBeforeTryTask(test, { retry: 0, repeats: 0 });
      for (const suite of suitesOf(test).reverse()) {
        for (const hook of TestRunner.getSuiteHooks(suite).beforeEach) {
          const cleanup: unknown = await hook(test.context, suite);
          if (typeof cleanup === 'function') cleanups.unshift(cleanup as Cleanup);
        }
      }
      const running = TestRunner.getTestFn(test)();
      if (planted === undefined) await running;
      else {
        const hanging = new Promise((_, reject) => {
          timer = startTimer(() => reject(new Error('The mutant hangs.')), planted.hangMs);
        });
        await Promise.race([running, hanging]);
      }
      this.onAfterTryTask(test);
      return true;
    } catch {
      return false;
    } finally {
      stopTimer(timer);
      switches.activeMutant = undefined;
      switches.hitCount = undefined;
      const after = suitesOf(test).flatMap((suite) =>
        TestRunner.getSuiteHooks(suite)
          .afterEach.toReversed()
          .map((hook) => () => hook(test.context, suite)),
      );
      const finished = (test.onFinished ?? []).toReversed().map((hook) => () => hook(test.context));
      // A mutant may have left behind something that can't be cleaned up. The next run without it will tell.
      for (const cleanup of [...after, ...cleanups, ...finished]) await (async () => cleanup())().catch(() => {});
    }
  }
}

/** Whether an error was left unhandled since the call. Vitest fails a run by that, even if each test passes. */
function listenForUnhandled(): () => Promise<boolean> {
  let isUnhandled = false;
  const listener = () => {
    isUnhandled = true;
  };
  process.on('unhandledRejection', listener);
  return async () => {
    // Node reports it after all promises that are ready.
    await new Promise((resolve) => runSoon(resolve));
    process.off('unhandledRejection', listener);
    return isUnhandled;
  };
}

/** The suites around a test, the innermost first. */
function suitesOf(test: Test): Suite[] {
  const suites: Suite[] = [];
  for (let suite = test.suite; suite !== undefined; suite = suite.suite) suites.push(suite);
  if (!suites.includes(test.file)) suites.push(test.file);
  return suites;
}

const nameOf = (test: Test): string => `${test.file.name} > ${test.name}`;
