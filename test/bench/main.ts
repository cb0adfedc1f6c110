/**
 * `npm run bench`: everything that is installed, in one run. Writes docs/benchmarks.json, docs/benchmarks.md and docs/benchmarks/*.svg.
 *
 * `--quick` looks at every cell only briefly. `--engine dynoxide` takes another engine. `--report-only` draws the report again from the JSON file.
 * `--out folder` writes elsewhere. `--only push` measures waiting by push again, and leaves the other figures as they are. `--only etcd`
 * does so with the hand-offs on etcd, and so on for each other server.
 */

import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { StartError } from '../../src/local/start-error.ts';
import { Field } from './field.ts';
import { fullPlan, quickPlan } from './plan.ts';
import { readResults, writeReport } from './report/files.ts';
import { runAll, runHandOffsOn, runPush } from './run.ts';

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
const servers = ['redis', 'etcd', 'zookeeper', 'postgres'] as const;
const server = servers.find((id) => id === values.only);
if (values.only !== undefined && values.only !== 'push' && server === undefined)
  throw new StartError(`--only expects push or one of ${servers.join(', ')}; got ${values.only}.`);
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
      return server === undefined
        ? { ...before, push: await runPush(field, plan) }
        : runHandOffsOn(field, plan, server, before);
    };
    await writeReport(values.out, await measure());
  } finally {
    await field.stop();
  }
  // Some of the peers' clients keep timers and connections that can't be ended.
  process.exit();
}
