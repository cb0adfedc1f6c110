/**
 * `npm run bench`: everything that is installed, in one run. Writes docs/benchmarks.json, docs/benchmarks.md and docs/benchmarks/*.svg.
 *
 * `--quick` looks at every cell only briefly. `--engine dynoxide` takes another engine. `--report-only` draws the report again from the JSON file.
 * `--out folder` writes elsewhere. `--only push` measures waiting by push again, and leaves the other figures as they are. `--only`
 * with the id of a contestant does so with its hand-offs.
 */

import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { StartError } from '../../src/local/start-error.ts';
import { Field } from './field.ts';
import { fullPlan, quickPlan } from './plan.ts';
import { readResults, writeReport } from './report/files.ts';
import { runAll, runHandOffsOf, runPush } from './run.ts';

const { values } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    'report-only': { type: 'boolean', default: false },
    engine: { type: 'string', default: 'auto' },
    only: { type: 'string' },
    out: { type: 'string', default: fileURLToPath(new URL('../../docs/', import.meta.url)) },
  },
});

const engines = ['auto', 'dynamodb-local', 'dynoxide'] as const;
const engine = engines.find((name) => name === values.engine);
if (engine === undefined) throw new StartError(`--engine expects one of ${engines.join(', ')}; got ${values.engine}.`);

if (values['report-only']) {
  await writeReport(values.out, await readResults(values.out));
} else {
  const field = await Field.take(engine);
  // The servers end with this process in every case. Their folders are deleted only by this code.
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => void field.stop().finally(() => process.exit(1)));
  }
  try {
    const plan = values.quick ? quickPlan : fullPlan;
    const measure = async () => {
      if (values.only === undefined) return runAll(field, plan, { quick: values.quick });
      const before = await readResults(values.out);
      return values.only === 'push'
        ? { ...before, push: await runPush(field, plan) }
        : runHandOffsOf(field, plan, values.only, before);
    };
    await writeReport(values.out, await measure());
  } finally {
    await field.stop();
  }
  // Some of the peers' clients keep timers and connections that can't be ended.
  process.exit();
}
