import type { TestProject } from 'vitest/node';
import { type Engine, startEngine } from '../../src/local/engine.ts';
import { readOptions } from '../../src/local/options.ts';

declare module 'vitest' {
  interface ProvidedContext {
    engine: { name: Engine['name']; endpoint: string; region: string };
  }
}

const region = 'us-east-1';

interface Shared {
  engine: Promise<Engine>;
  users: number;
}

// Each project evaluates this file anew, so a variable of the module would start one engine per project.
// The process is what they share.
const shelf = globalThis as typeof globalThis & { holdfastTestEngine?: Shared };

/** One engine in memory for the whole run: HOLDFAST_TEST_ENGINE names it, or else it is the one that `npm start` would take. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const { engine: choice } = readOptions([], { HOLDFAST_ENGINE: process.env.HOLDFAST_TEST_ENGINE });
  shelf.holdfastTestEngine ??= { engine: startEngine({ engine: choice, memory: true, region }), users: 0 };
  const shared = shelf.holdfastTestEngine;
  shared.users += 1;
  const { name, endpoint } = await shared.engine;
  project.provide('engine', { name, endpoint, region });
  return async () => {
    shared.users -= 1;
    if (shared.users > 0) return;
    delete shelf.holdfastTestEngine;
    await (await shared.engine).stop();
  };
}
