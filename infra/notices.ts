/**
 * The notices of the packages whose code is inside our bundles. Most licenses ask for their text to go along with every
 * copy, and a bundle has no other place for it.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Metafile } from 'esbuild';
import { packageRoot } from './function-code.ts';

/** The folder of the package that a bundled file belongs to: `node_modules/@a/b`. The innermost one counts. */
const folderOf = (file: string): string | undefined => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(file)?.[0];

/** The folders of all packages with code in these bundles. */
export const packagesIn = (metafiles: readonly Metafile[]): string[] => [
  ...new Set(
    metafiles
      .flatMap(({ outputs }) => Object.values(outputs))
      .flatMap(({ inputs }) => Object.entries(inputs).filter(([, { bytesInOutput }]) => bytesInOutput > 0))
      .flatMap(([file]) => folderOf(file) ?? []),
  ),
];

interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly license?: string;
}

const noticeFile = /^(licen[cs]e|notice|copying)(\.|$)/i;

/** One section for each package, in the order of their names. The same text stands once for all that share it. */
export function noticesOf(folders: readonly string[], root: string = packageRoot): string {
  const byText = new Map<string, string[]>();
  for (const folder of folders) {
    const {
      name,
      version,
      license = 'no license named',
    } = JSON.parse(readFileSync(join(root, folder, 'package.json'), 'utf8')) as Manifest;
    const texts = readdirSync(join(root, folder))
      .filter((file) => noticeFile.test(file))
      .sort()
      .map((file) => readFileSync(join(root, folder, file), 'utf8').trim());
    const text = texts.join('\n\n') || `Licensed under ${license}.`;
    byText.set(text, [...(byText.get(text) ?? []), `${name} ${version} (${license})`]);
  }
  const sections = [...byText].map(([text, names]) => `${[...new Set(names)].sort().join('\n')}\n\n${text}`).sort();
  const line = `\n\n${'-'.repeat(80)}\n\n`;
  return `The bundles in this package contain code of the packages below, under their licenses.${line}${sections.join(line)}\n`;
}
