/** The files of the page, read once and kept in memory. */
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';

export interface Asset {
  readonly type: string;
  readonly body: Buffer;
  /** If true, the file is kept and sent compressed. */
  readonly isGzip: boolean;
}

export type Assets = ReadonlyMap<string, Asset>;

export const assetTypes: Readonly<Record<string, string>> = {
  'page.html': 'text/html; charset=utf-8',
  'page.css': 'text/css; charset=utf-8',
  'page.js': 'text/javascript; charset=utf-8',
  'icon.svg': 'image/svg+xml',
};

/** This folder is in the published package. The sources have no such folder. */
const built = new URL('../assets/', import.meta.url);

let assets: Promise<Assets> | undefined;

/** The published package contains them. Sources are bundled when somebody opens the console for the first time. */
export function loadAssets(): Promise<Assets> {
  assets ??= existsSync(built) ? readBuilt() : bundleSources();
  // A failure is not kept, so a developer can repair a source file and reload the page.
  assets.catch(() => {
    assets = undefined;
  });
  return assets;
}

async function readBuilt(): Promise<Assets> {
  const files = Object.entries(assetTypes).map(async ([name, type]): Promise<[string, Asset]> => {
    const isGzip = existsSync(new URL(`${name}.gz`, built));
    return [name, { type, body: await readFile(new URL(isGzip ? `${name}.gz` : name, built)), isGzip }];
  });
  return new Map(await Promise.all(files));
}

async function bundleSources(): Promise<Assets> {
  const { bundlePage } = await import('./bundle.ts');
  return bundlePage();
}
