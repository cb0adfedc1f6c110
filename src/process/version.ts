import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** The bundler replaces it, because its output has no package.json beside it. */
declare const HOLDFAST_VERSION: string | undefined;

/**
 * The package.json is at different depths in the sources and in the published package, so this searches the folders
 * above.
 */
function versionAbove(folder: URL): string {
  const file = new URL('package.json', folder);
  if (existsSync(file)) return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version;
  const parent = new URL('..', folder);
  if (parent.href === folder.href) throw new Error(`There is no package.json above ${fileURLToPath(import.meta.url)}.`);
  return versionAbove(parent);
}

/** The version in the health answer and in the OpenAPI document. */
export const version: string =
  typeof HOLDFAST_VERSION === 'string' ? HOLDFAST_VERSION : versionAbove(new URL('.', import.meta.url));
