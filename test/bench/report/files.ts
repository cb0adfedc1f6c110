import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Results } from '../results.ts';
import { chartsOf } from './charts.ts';
import { reportOf } from './markdown.ts';

const resultsFile = 'benchmarks.json';

export async function readResults(folder: string): Promise<Results> {
  return JSON.parse(await readFile(join(folder, resultsFile), 'utf8')) as Results;
}

/** More digits than a run can know would only make one run look unlike another. */
const rounded = (_name: string, value: unknown): unknown =>
  typeof value === 'number' && !Number.isInteger(value) ? Number(value.toPrecision(4)) : value;

/** The numbers first: what is drawn from them can be drawn again. */
export async function writeReport(folder: string, results: Results): Promise<void> {
  const pictures = join(folder, 'benchmarks');
  await mkdir(pictures, { recursive: true });
  await writeFile(join(folder, resultsFile), `${JSON.stringify(results, rounded, 2)}\n`);
  await writeFile(join(folder, 'benchmarks.md'), reportOf(results));
  for (const [name, picture] of Object.entries(chartsOf(results))) await writeFile(join(pictures, name), picture);
}
