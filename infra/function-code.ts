import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Code } from 'aws-cdk-lib/aws-lambda';

/** What is bundled; each is `functions/<name>.ts` in the sources. */
export const bundleNames = ['http', 'notifier', 'publisher', 'reaper', 'websocket'] as const;
export type BundleName = (typeof bundleNames)[number];

/** The functions that are deployed. `acquire` runs the same code as `http`, beside it. */
export const functionNames = ['acquire', ...bundleNames] as const;
export type FunctionName = (typeof functionNames)[number];

/** The construct runs from the sources and from the published package, which differ in depth but not in their root. */
export const packageRoot = rootAbove(dirname(fileURLToPath(import.meta.url)));

/** Where the bundles are: `infra/bundle.ts` writes them here, and the published package ships them here. */
export const bundledFunctions = join(packageRoot, 'dist', 'functions');

export function functionCode(name: FunctionName, folder: string = bundledFunctions): Code {
  const path = join(folder, name === 'acquire' ? 'http' : name);
  if (!existsSync(join(path, 'index.mjs'))) {
    throw new Error(`Expected the bundled ${name} function at ${path}. In a checkout, "npm run build" writes it.`);
  }
  return Code.fromAsset(path);
}

function rootAbove(folder: string): string {
  if (existsSync(join(folder, 'package.json'))) return folder;
  const parent = dirname(folder);
  if (parent === folder) throw new Error('There is no package.json above the construct.');
  return rootAbove(parent);
}
