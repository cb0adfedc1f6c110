import type { TestProject } from 'vitest/node';
import { findDynoxide } from '../../src/local/engine/dynoxide.ts';
import { type Engine, startEngine } from '../../src/local/engine.ts';
import type { EngineChoice } from '../../src/local/options.ts';
import { HarshDynamoDB } from './harsh/dynamodb.ts';
import { harshRates, transparentRates } from './harsh/faults.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /**
     * `harsh`: true if the endpoint shows every behavior that DynamoDB may have. Then exact counts of requests are not
     * valid. `behind`: the engine itself, for what a test does and looks at by itself.
     */
    engine: { name: Engine['name']; endpoint: string; behind: string; region: string; harsh: boolean };
  }
}

const region = 'us-east-1';

interface Shared {
  engine: Promise<Engine>;
  users: number;
}

// Each project evaluates this file again, so a module variable would start one engine per project. They share the
// process.
const processGlobals = globalThis as typeof globalThis & { holdfastTestEngines?: Map<EngineChoice, Shared> };

/** If set, it is a seed: the suites run through a proxy that behaves as badly as DynamoDB may. */
const harshSeed = process.env.HOLDFAST_TEST_HARSH;

/**
 * HOLDFAST_TEST_ENGINE names the engine. Otherwise it is dynoxide if it is installed: it computes much less than
 * DynamoDB Local. `.ci/run` runs the contract, which says what the stores need from any engine, on every engine.
 */
const choice: EngineChoice =
  (process.env.HOLDFAST_TEST_ENGINE as EngineChoice | undefined) ||
  (findDynoxide() === undefined ? 'auto' : 'dynoxide');

/** One engine in memory for the whole run, and all projects that want the same one. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  processGlobals.holdfastTestEngines ??= new Map();
  const engines = processGlobals.holdfastTestEngines;
  const shared = engines.get(choice) ?? { engine: startEngine({ engine: choice, memory: true, region }), users: 0 };
  engines.set(choice, shared);
  shared.users += 1;
  const { name, endpoint } = await shared.engine;
  const harsh = harshSeed === undefined ? undefined : await startHarsh(endpoint, project.name);
  project.provide('engine', {
    name,
    endpoint: harsh?.endpoint ?? endpoint,
    behind: endpoint,
    region,
    harsh: harsh !== undefined,
  });
  return async () => {
    await harsh?.stop();
    shared.users -= 1;
    if (shared.users > 0) return;
    engines.delete(choice);
    await (await shared.engine).stop();
  };
}

async function startHarsh(endpoint: string, project: string): Promise<{ endpoint: string; stop(): Promise<void> }> {
  const rates = project === 'contract' ? transparentRates : harshRates;
  const harsh = await HarshDynamoDB.start(endpoint, { seed: Number(harshSeed), rates, capacity: true });
  const stop = async () => {
    await harsh.stop();
    const met = [...harsh.counts].sort().map(([fault, count]) => `${fault} ${count}`);
    met.push(`throttled by units ${harsh.throttledByUnits}`);
    process.stdout.write(`Harsh by seed ${harshSeed} to ${project}: ${met.join(', ')}\n`);
  };
  return { endpoint: harsh.endpoint, stop };
}
