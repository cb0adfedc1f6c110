import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { build } from 'esbuild';
import { describe, expect, it } from 'vitest';
import { root } from './blocks.ts';

const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
  exports: Record<string, string | { default: string }>;
  dependencies: Record<string, string>;
};
const page = readFileSync(join(root, 'docs/install.md'), 'utf8');

/** The packages that an entry loads, apart from those that npm installs with Holdfast. */
async function loadedBy(built: string): Promise<string[]> {
  const entry = join(root, built.replace('./dist/', '').replace(/\.js$/, '.ts'));
  const { metafile } = await build({
    entryPoints: [entry],
    bundle: true,
    write: false,
    packages: 'external',
    platform: 'node',
    format: 'esm',
    metafile: true,
  });
  const loaded = Object.values(metafile.inputs)
    .flatMap(({ imports }) => imports)
    .filter(({ path, external }) => external === true && !path.startsWith('node:'))
    .map(({ path }) => path.split('/', path.startsWith('@') ? 2 : 1).join('/'));
  return [...new Set(loaded)].filter((name) => manifest.dependencies[name] === undefined).sort();
}

const entries = Object.entries(manifest.exports).flatMap(([name, target]) =>
  typeof target === 'string' ? [] : [[`holdfast${name.slice(1)}`, target.default] as const],
);

describe('docs/install.md', () => {
  it.each(entries)('names what %s needs, and nothing more', async (name, built) => {
    const row = new RegExp(`^\\| \`${name}\` \\|[^|]*\\| ([^|]*) \\|$`, 'm').exec(page)?.[1];
    // The text after a semicolon is about a part of the entry. Without that part, the package is not loaded.
    const named = [...(row?.split(';')[0] ?? '').matchAll(/`([^`]+)`/g)].map(([, needed]) => needed).sort();
    expect(row, `a row for ${name}`).toBeDefined();
    expect(named).toEqual(await loadedBy(built));
  });
});
