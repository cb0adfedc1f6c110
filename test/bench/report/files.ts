import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Results } from '../results.ts';
import { chartsOf } from './charts.ts';
import { reportOf } from './markdown.ts';

const resultsFile = 'benchmarks.json';

export async function readResults(folder: string): Promise<Results> {
  return JSON.parse(await readFile(join(folder, resultsFile), 'utf8')) as Results;
}

/** A run does not measure more digits than these, so more digits would only make two runs look different. */
const rounded = (_name: string, value: unknown): unknown =>
  typeof value === 'number' && !Number.isInteger(value) ? Number(value.toPrecision(4)) : value;

/** The numbers are written first, because the report can be made again from them. */
export async function writeReport(folder: string, results: Results): Promise<void> {
  const pictures = join(folder, 'benchmarks');
  await mkdir(pictures, { recursive: true });
  await writeFile(join(folder, resultsFile), `${JSON.stringify(results, rounded, 2)}\n`);
  await writeFile(join(folder, 'benchmarks.md'), reportOf(results));
  for (const [name, picture] of Object.entries(chartsOf(results))) await writeFile(join(pictures, name), picture);
}
