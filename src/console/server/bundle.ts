/** Makes the page's files from its sources. `npm run build` runs it, and a service that runs from the sources. */
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { build, type Plugin, stop } from 'esbuild';
import { type Asset, type Assets, assetTypes } from './assets.ts';

/**
 * Fields that only the page uses. They have shorter names in the bundle. A test checks that neither the service's answers nor
 * the browser have one of these. Names that begin with `_$` are private to lit-html, which is completely in the bundle.
 */
export const ownFields: readonly string[] = [
  ...['waitingSince', 'lookedAt', 'isGuess', 'hasHistory', 'lapsed', 'endsAt'],
  ...['takeEvent', 'takeList', 'takeHistory', 'takeLook', 'isStopped'],
  ...['waitsHidden', 'holdLanes', 'waitLanes', 'meanHoldMs', 'meanWaitMs', 'heldShare', 'brokenAt', 'depths'],
  ...['readAt', 'sortBy', 'rowHeight', 'classOf', 'keyOf', 'onSeen', 'hasLinks'],
];

const page = new URL('../page/', import.meta.url);

/**
 * Templates are indented for people. A browser needs no line breaks between elements and expressions, and no quotes around
 * one word. Only templates have double quotes after an equals sign.
 */
export const tightened = (source: string): string =>
  source.replace(/(?<=[>}`])\s*\n\s*(?=<|\$\{|`)/g, '').replace(/="([\w.#-]+)"(?=[ >])/g, '=$1');

/** Shortens the names of colours and sizes. No script uses them. */
function shortVariables(sheet: string): string {
  const names = [...new Set(sheet.match(/--[a-z][a-z-]*/g))];
  const shorten = (name: string, colon = '') => `--${names.indexOf(name).toString(36)}${colon.trim()}`;
  return sheet.replace(/(--[a-z][a-z-]*)(: )?/g, (_, name, colon) => shorten(name, colon)).replaceAll(', #', ',#');
}

/** Removes parts of the sources that browsers do not need and that esbuild keeps. */
const tightSources: Plugin = {
  name: 'tight-sources',
  setup({ onLoad }) {
    const load = (loader: 'ts' | 'css', shorten: (source: string) => string) =>
      onLoad({ filter: new RegExp(`console[\\\\/]page[\\\\/].*\\.${loader}$`) }, async ({ path }) => ({
        contents: shorten(await readFile(path, 'utf8')),
        loader,
      }));
    load('ts', tightened);
    load('css', shortVariables);
  },
};

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
    plugins: [tightSources],
  });
  // Its process is not needed any more.
  await stop();
  const files = new Map<string, Asset>();
  for (const [name, type] of Object.entries(assetTypes)) {
    const made = outputFiles.find(({ path }) => path.endsWith(name));
    const plain = Buffer.from(made?.contents ?? (await readFile(new URL(name, page), 'utf8')).replace(/\s*\n\s*/g, ''));
    files.set(name, {
      type,
      body: made === undefined ? plain : gzipSync(plain, { level: 9 }),
      isGzip: made !== undefined,
    });
  }
  return files;
}
