import { randomUUID } from 'node:crypto';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));

/** Where the parts of the package are before it is built. */
const parts: Readonly<Record<string, string>> = Object.fromEntries(
  Object.entries(
    (JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { exports: Record<string, { default?: string }> })
      .exports,
  ).flatMap(([name, { default: built }]) =>
    built === undefined
      ? []
      : [[`holdfast${name.slice(1)}`, join(root, built.replace('./dist/', '').replace(/\.js$/, '.ts'))]],
  ),
);

/** The examples of a page under a heading, in order, as readers copy them. */
export function examplesOf(page: string, heading: string): string[] {
  const text = readFileSync(join(root, 'docs', page), 'utf8');
  const [, after] = text.split(`\n## ${heading}\n`);
  if (after === undefined) throw new Error(`${page} has no heading ${heading}.`);
  const [section] = after.split('\n## ');
  return [...(section ?? '').matchAll(/```ts\n([\s\S]*?)```/g)].map(([, code]) => code ?? '');
}

/** Loads an example as a module. Its imports from the package come from the sources. */
export async function loadExample<Module>(page: string, heading: string, index = 0): Promise<Module> {
  const code = examplesOf(page, heading)[index];
  if (code === undefined) throw new Error(`${page} has no example ${index} under ${heading}.`);
  // Inside the repository, so that packages are found. The name is random, so that parallel suites do not collide.
  const folder = join(root, 'test', `.examples-${randomUUID()}`);
  const file = join(folder, 'example.ts');
  const local = code.replaceAll(/from '(holdfast[^']*)'/g, (all, name: string) =>
    parts[name] === undefined ? all : `from '${pathToFileURL(parts[name]).pathname}'`,
  );
  try {
    mkdirSync(folder);
    writeFileSync(file, local);
    return (await import(/* @vite-ignore */ file)) as Module;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
