import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';
import { tooSlow } from './folders.ts';

/** The suites that belong to what is mutated; `run.ts` names them. */
const suites = (process.env.HOLDFAST_MUTATION_SUITES ?? 'test/unit').split(',');
const needsEngine = suites.some((suite) => /test\/(contract|integration)/.test(suite));

/** In the order in which the suites are named. */
class AsNamed extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification) => suites.findIndex((suite) => moduleId.includes(`/${suite}`));
    return files.toSorted((one, other) => rank(one) - rank(other));
  }
}

export default defineConfig({
  test: {
    include: suites.map((suite) => (suite.endsWith('.ts') ? suite : `${suite}/**/*.test.ts`)),
    exclude: [...tooSlow],
    maxWorkers: 1,
    sequence: { sequencer: AsNamed },
    // All files share one process and its modules: most of a short test's time is the start of its process.
    isolate: false,
    // The slowest single test takes a few seconds on a busy machine.
    testTimeout: 20_000,
    hookTimeout: 60_000,
    // A test that failed by its draws would count for a mutant.
    setupFiles: ['test/support/same-draws.ts'],
    ...(process.env.HOLDFAST_MUTATION_NOTES === undefined ? {} : { runner: 'test/mutation/mutant-runner.ts' }),
    ...(needsEngine ? { globalSetup: ['test/support/engine.setup.ts'] } : {}),
  },
});
