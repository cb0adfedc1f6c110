import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Code } from 'aws-cdk-lib/aws-lambda';

/** The bundles. The source of each is `functions/<name>.ts`. */
export const bundleNames = ['http', 'notifier', 'publisher', 'reaper', 'websocket'] as const;
export type BundleName = (typeof bundleNames)[number];

/** The functions that are deployed. `acquire` runs the same code as `http`. */
export const functionNames = ['acquire', ...bundleNames] as const;
export type FunctionName = (typeof functionNames)[number];

/**
 * The construct runs from the sources and from the published package. Their depth differs, so this searches for the
 * package.json.
 */
export const packageRoot = rootAbove(dirname(fileURLToPath(import.meta.url)));

/** Where the bundles are, both in a checkout and in the published package. `infra/bundle.ts` writes them. */
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
