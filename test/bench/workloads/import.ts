import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { build } from 'esbuild';
import { bundleFunctions, nodeModule } from '../../../infra/bundle.ts';
import { median } from '../measure.ts';
import type { ImportRow } from '../results.ts';

const run = promisify(execFile);

/** How long the import of the HTTP function takes in a cold start, compared with a bundle of only the DynamoDB client. */
export async function benchImport(rounds: number): Promise<ImportRow> {
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-import-'));
  try {
    const [bundle] = await bundleFunctions(folder, ['http']);
    const bare = join(folder, 'bare.mjs');
    const contents = "export { DynamoDBClient, UpdateItemCommand } from '@aws-sdk/client-dynamodb';";
    await build({ ...nodeModule, stdin: { contents, resolveDir: process.cwd() }, outfile: bare, minify: true });
    const [ours, theirs] = [[] as number[], [] as number[]];
    for (let round = 0; round < rounds; round++) {
      theirs.push(await importMs(bare));
      ours.push(await importMs(join(folder, 'http', 'index.mjs')));
    }
    return { ratio: median(ours) / median(theirs), kilobytes: Math.round((bundle?.bytes ?? 0) / 1_000) };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** In a new process each time, like a cold start. */
async function importMs(module: string): Promise<number> {
  const script = `const from = performance.now(); await import(${JSON.stringify(module)}); console.log(performance.now() - from);`;
  const env = {
    ...process.env,
    HOLDFAST_TABLE: 'bench',
    HOLDFAST_WEBSOCKET_ENDPOINT: 'https://bench.invalid',
    AWS_REGION: 'us-east-1',
  };
  const { stdout } = await run(process.execPath, ['--input-type=module', '-e', script], { env });
  return Number(stdout.trim().split('\n').at(-1));
}
