/** Makes the page's files from its sources. `npm run build` runs it, and a service that runs from the sources. */
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { build, stop } from 'esbuild';
import { type Asset, type Assets, assetTypes } from './assets.ts';
import { shortVariables, tightMarkup, tightTemplates } from './tight-sources.ts';

/**
 * Fields that only the page uses. They have shorter names in the bundle. A test checks that neither the service's answers nor
 * the browser have one of these. Names that begin with `_$` are private to lit-html, which is completely in the bundle.
 */
export const ownFields: readonly string[] = [
  ...['waitingSince', 'lookedAt', 'isGuess', 'hasHistory', 'lapsed', 'endsAt'],
  ...['takeEvent', 'takeList', 'takeHistory', 'takeLook', 'isStopped'],
  ...[
    'waitsHidden',
    'holdLanes',
    'waitLanes',
    'meanHoldMs',
    'meanWaitMs',
    'heldShare',
    'brokenAt',
    'depths',
    'readAt',
    'sortBy',
  ],
  ...['rowHeight', 'classOf', 'keyOf', 'onSeen', 'hasLinks'],
];

const page = new URL('../page/', import.meta.url);

export async function bundlePage(): Promise<Assets> {
  const { outputFiles } = await build({
    entryPoints: ['main.ts', 'page.css'].map((file) => fileURLToPath(new URL(file, page))),
    entryNames: 'page',
    outdir: fileURLToPath(page),
    write: false,
    bundle: true,
    minify: true,
    mangleProps: new RegExp(`^(?:_\\$.*|${ownFields.join('|')})$`),
    charset: 'utf8',
    format: 'esm',
    // The first versions with `light-dark()` and nested CSS, from the spring of 2024.
    target: ['chrome123', 'firefox120', 'safari17.5'],
    legalComments: 'none',
    logLevel: 'warning',
    inject: [fileURLToPath(new URL('short-names.ts', page))],
    plugins: [tightTemplates, shortVariables],
  });
  // Its process is not needed any more.
  await stop();
  const files = new Map<string, Asset>();
  for (const [name, type] of Object.entries(assetTypes)) {
    const made = outputFiles.find(({ path }) => path.endsWith(name));
    const plain = Buffer.from(made?.contents ?? tightMarkup(await readFile(new URL(name, page), 'utf8')));
    files.set(name, {
      type,
      body: made === undefined ? plain : gzipSync(plain, { level: 9 }),
      isGzip: made !== undefined,
    });
  }
  return files;
}
