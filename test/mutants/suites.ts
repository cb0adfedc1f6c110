/** Which tests can notice a fault in a source file, nearest first. */
import { readdirSync } from 'node:fs';

/** A run of vitest: one project, limited to the test files whose path contains one of `paths`. */
export interface Suite {
  readonly project: string;
  readonly paths: readonly string[];
}

/**
 * Test files directly in test/unit are left out: most of them read the sources, and would notice any change of text.
 * So are the tests of the benchmark and of the scale model.
 */
export const unitFolders: readonly string[] = readdirSync(new URL('../unit', import.meta.url), { withFileTypes: true })
  .filter((entry) => entry.isDirectory() && entry.name !== 'bench' && entry.name !== 'scale')
  .map(({ name }) => name);

const unit: Suite = { project: 'unit', paths: unitFolders.map((name) => `test/unit/${name}/`) };
const e2e: Suite = { project: 'e2e', paths: ['test/e2e/cli', 'test/e2e/client-process', 'test/e2e/faults'] };
const property: Suite = { project: 'property', paths: [] };
const contract: Suite = { project: 'contract', paths: [] };
const integration: Suite = { project: 'integration', paths: [] };
const infra: Suite = { project: 'infra', paths: [] };
const simulation: Suite = { project: 'simulation', paths: [] };

/** Tests outside of `test/unit/<folder>` that were written for a source. They run before the rest of their project. */
const near: readonly (readonly [start: string, suite: Suite])[] = [
  [
    'src/queue/',
    {
      project: 'contract',
      paths: ['lock-', 'pages', 'late-writes', 'layout', 'large-claims'].map((x) => `test/contract/${x}`),
    },
  ],
  ['src/store/', { project: 'unit', paths: ['test/unit/table/requests'] }],
  [
    'src/store/',
    {
      project: 'contract',
      paths: ['connections', 'history', 'records', 'session-store'].map((x) => `test/contract/${x}`),
    },
  ],
  ['src/table/', { project: 'contract', paths: ['harsh', 'requests'].map((x) => `test/contract/${x}`) }],
  ['src/engine/', { project: 'contract', paths: ['test/contract/memory-engine'] }],
  ['src/session/', { project: 'contract', paths: ['test/contract/session-store'] }],
  [
    'src/local/',
    { project: 'integration', paths: ['pump', 'gateway', 'websocket'].map((x) => `test/integration/${x}`) },
  ],
  ['src/websocket/', { project: 'integration', paths: ['test/integration/websocket'] }],
  ['src/guards/', { project: 'integration', paths: ['test/integration/guards/'] }],
  ['functions/', { project: 'integration', paths: ['test/integration/notify/functions'] }],
  ['infra/', infra],
];

/** The projects that can notice a fault, in this order. The first entry that fits counts. */
const wide: readonly (readonly [start: string, suites: readonly Suite[]])[] = [
  ['infra/', [infra]],
  ['functions/', [integration]],
  ['src/cli/', [unit, e2e]],
  ['src/local/', [unit, integration, e2e]],
  ['src/guards/', [unit, property, integration]],
  ['src/middleware/', [unit]],
  ['src/console/', [unit]],
  ['src/process/', [unit, integration]],
  ['src/http/', [unit, integration]],
  ['src/websocket/', [unit, integration, simulation]],
  // The simulation comes last: it takes the longest, and names a world, where a test names what is wrong.
  ['', [unit, property, contract, integration, simulation]],
];

/** The tests that were written for this file. They notice most of its faults, in a fraction of the time. */
export function nearSuites(file: string): Suite[] {
  const folder = unitFolders.find((name) => file.startsWith(`src/${name}/`));
  const own: Suite[] = folder === undefined ? [] : [{ project: 'unit', paths: [`test/unit/${folder}/`] }];
  return [...own, ...near.flatMap(([start, suite]) => (file.startsWith(start) ? [suite] : []))];
}

/** Every suite that can notice a fault in this file. */
export function suitesFor(file: string): Suite[] {
  const first = nearSuites(file);
  const rest = wide.find(([start]) => file.startsWith(start))?.[1] ?? [];
  return [...first, ...rest.filter((suite) => !first.includes(suite))];
}
