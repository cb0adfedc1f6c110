/** Makes the page's files from its sources. Run by `npm run build`, and by a service that runs from the sources. */
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { build, stop } from 'esbuild';
import { type Asset, type Assets, assetTypes } from './assets.ts';

const page = new URL('../page/', import.meta.url);

export async function bundlePage(): Promise<Assets> {
  const { outputFiles } = await build({
    entryPoints: ['main.ts', 'page.css'].map((file) => fileURLToPath(new URL(file, page))),
    entryNames: 'page',
    outdir: fileURLToPath(page),
    write: false,
    bundle: true,
    minify: true,
    format: 'esm',
    // The first that know `light-dark()` and nested CSS: browsers since the spring of 2024.
    target: ['chrome123', 'firefox120', 'safari17.5'],
    legalComments: 'none',
    logLevel: 'warning',
  });
  // Its process has nothing more to do here.
  await stop();
  const files = new Map<string, Asset>();
  for (const [name, type] of Object.entries(assetTypes)) {
    const made = outputFiles.find(({ path }) => path.endsWith(name));
    const body = made === undefined ? await readFile(new URL(name, page)) : gzipSync(made.contents, { level: 9 });
    files.set(name, { type, body, isGzip: made !== undefined });
  }
  return files;
}
