/**
 * `npm run scale`: runs every scenario and writes docs/scale.json, docs/scale.md and its pictures. `--report-only` writes them from
 * the figures of the last run. `--quick` looks at each scenario briefly and writes nothing.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { chartsOf } from './report/charts.ts';
import { reportOf } from './report/markdown.ts';
import type { Results } from './results.ts';
import { fullPlan, quickPlan, runAll } from './run.ts';

const docs = new URL('../../docs/', import.meta.url);
const { values } = parseArgs({
  options: { 'report-only': { type: 'boolean', default: false }, quick: { type: 'boolean', default: false } },
});

const tell = (line: string): void => console.error(line);

if (values.quick) {
  console.log(JSON.stringify(await runAll(quickPlan, tell), null, 2));
} else {
  if (!values['report-only']) {
    const results = await runAll(fullPlan, tell);
    writeFileSync(new URL('scale.json', docs), `${JSON.stringify(results, null, 2)}\n`);
  }
  const results = JSON.parse(readFileSync(new URL('scale.json', docs), 'utf8')) as Results;
  const page = readFileSync(new URL('scale.md', docs), 'utf8');
  writeFileSync(new URL('scale.md', docs), reportOf(page, results));
  mkdirSync(new URL('scale/', docs), { recursive: true });
  for (const [name, picture] of Object.entries(chartsOf(results))) {
    writeFileSync(new URL(`scale/${name}`, docs), picture);
  }
}
// Clients of the scenarios still wait, but their virtual time has stopped.
process.exit(0);
