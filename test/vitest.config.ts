import { defineConfig } from 'vitest/config';
import { SlowFirst } from './support/slow-first.ts';

/** Suites that use a real engine. They share the one that engine.setup.ts starts. */
const engineSetup = ['test/support/engine.setup.ts'];

/**
 * Only a net for a test that hangs. On a busy machine, what takes a second may take a minute, and a test that fails then
 * says nothing about the code. So no test has a shorter timeout of its own.
 */
const netMs = Number(process.env.HOLDFAST_TEST_NET_MS ?? 300_000);
const net = {
  testTimeout: netMs,
  hookTimeout: netMs,
  // Vitest would give up after one second.
  expect: { poll: { timeout: 120_000 } },
};

// Workers, and the programs that tests start hundreds of times, inherit this. With what Node compiled before, a start
// computes a third less.
process.env.NODE_COMPILE_CACHE ??= new URL('../node_modules/.cache/holdfast/compiled', import.meta.url).pathname;

// The same for the TypeScript compiler and esbuild, which are Go programs: if they collect their garbage less often, they
// compute a quarter less.
process.env.GOGC ??= '400';

const project = (name: string, more: object = {}) => ({
  test: { name, include: [`test/${name}/**/*.test.ts`], ...net, ...more },
});

/**
 * These suites leave nothing behind in their process. So a worker goes on to its next file with the modules that it has
 * loaded, which more than halves what these suites compute.
 */
const shared = { isolate: false };

/** Suites with properties. */
const sameDraws = { setupFiles: ['test/support/same-draws.ts'] };

export default defineConfig({
  test: {
    root: new URL('..', import.meta.url).pathname,
    // Many suites wait for an engine, a lease or a process, so more of them run at once than there are cores. But each
    // worker loads the modules of each project again: with five, the suites of integration compute a quarter more than
    // with two. So twice as many as cores, and not more.
    maxWorkers: 4,
    sequence: { sequencer: SlowFirst },
    // Node runs TypeScript as it is, and keeps what it compiled. Vite would transform each module first. Nothing here
    // needs that, because no test replaces a module.
    experimental: { viteModuleRunner: false, nodeLoader: false },
    projects: [
      project('unit', { ...shared, ...sameDraws }),
      project('property', { ...shared, ...sameDraws }),
      project('simulation'),
      project('contract', { ...shared, globalSetup: engineSetup, ...sameDraws }),
      project('integration', { ...shared, globalSetup: engineSetup }),
      project('infra', shared),
      project('clients', { ...shared, globalSetup: engineSetup }),
      project('docs', { ...shared, globalSetup: engineSetup }),
      project('e2e', shared),
      project('emulated', { testTimeout: 600_000 }),
      project('console', { ...shared, globalSetup: ['test/console/shared.setup.ts'] }),
    ],
  },
});
