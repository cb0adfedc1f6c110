/** The compiled modules that no entry of the package leads to. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';

const imported = /(?:from|import)\s*\(?\s*['"](\.{1,2}\/[^'"]+)['"]/g;
const isModule = (file: string): boolean => file.endsWith('.js') || file.endsWith('.d.ts');

/** A type refers to another file by the name of its module. */
function targetsOf(file: string): string[] {
  const found = [...readFileSync(file, 'utf8').matchAll(imported)].map(([, path]) =>
    resolve(dirname(file), path ?? ''),
  );
  if (!file.endsWith('.d.ts')) return found;
  return found.map((path) => path.replace(/(?:\.d)?\.[jt]s$/, '.d.ts'));
}

/** Only modules and their types. Bundled functions (.mjs), pages and other files stay. */
export function unreached(folder: string, entries: readonly string[]): string[] {
  const reached = new Set<string>();
  const left = entries.map((entry) => resolve(entry));
  for (let file = left.pop(); file !== undefined; file = left.pop()) {
    if (reached.has(file) || !existsSync(file)) continue;
    reached.add(file);
    left.push(...targetsOf(file));
  }
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && isModule(entry.name))
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((file) => !reached.has(resolve(file)));
}
