import { defineConfig } from 'vitest/config';

/** The suites that belong to what is mutated; `run.ts` names them. */
const suites = (process.env.HOLDFAST_MUTATION_SUITES ?? 'test/unit').split(',');
const needsEngine = suites.some((suite) => /test\/(contract|integration)/.test(suite));

export default defineConfig({
  test: {
    include: suites.map((suite) => (suite.endsWith('.ts') ? suite : `${suite}/**/*.test.ts`)),
    maxWorkers: 1,
    testTimeout: 60_000,
    ...(needsEngine ? { globalSetup: ['test/support/engine.setup.ts'] } : {}),
  },
});
