import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** Replaced by the bundler, which has no package.json beside its output. */
declare const HOLDFAST_VERSION: string | undefined;

/** The sources and the published package differ in depth, so the package.json above is looked for. */
function versionAbove(folder: URL): string {
  const file = new URL('package.json', folder);
  if (existsSync(file)) return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version;
  const parent = new URL('..', folder);
  if (parent.href === folder.href) throw new Error(`There is no package.json above ${fileURLToPath(import.meta.url)}.`);
  return versionAbove(parent);
}

/** The version that health and the OpenAPI document name. */
export const version: string =
  typeof HOLDFAST_VERSION === 'string' ? HOLDFAST_VERSION : versionAbove(new URL('.', import.meta.url));
