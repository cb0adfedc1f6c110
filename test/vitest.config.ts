import { defineConfig } from 'vitest/config';
import { SlowFirst } from './support/slow-first.ts';

/** Suites that use a real engine. They share the one that engine.setup.ts starts. */
const engineSetup = ['test/support/engine.setup.ts'];

/** What a suite starts before its tests, such as two services and their tables, takes longer than 10 s on a busy machine. */
const hookTimeout = 60_000;

const project = (name: string, more: object = {}) => ({
  test: { name, include: [`test/${name}/**/*.test.ts`], hookTimeout, ...more },
});

export default defineConfig({
  test: {
    root: new URL('..', import.meta.url).pathname,
    // Most suites wait for an engine, a lease or a process, and compute little. So more of them run at once than there
    // are cores.
    maxWorkers: 4,
    sequence: { sequencer: SlowFirst },
    projects: [
      project('unit', { testTimeout: 30_000 }),
      // A property computes for seconds. On a busy machine that takes longer than vitest's default of 5 s.
      project('property', { testTimeout: 60_000 }),
      project('simulation', { testTimeout: 120_000 }),
      project('contract', { globalSetup: engineSetup, testTimeout: 120_000 }),
      project('integration', { globalSetup: engineSetup, testTimeout: 60_000 }),
      project('infra', { testTimeout: 60_000 }),
      project('docs', { globalSetup: engineSetup, testTimeout: 120_000 }),
      project('e2e', { testTimeout: 120_000 }),
      project('emulated', { testTimeout: 600_000 }),
      project('console', { testTimeout: 120_000 }),
    ],
  },
});
