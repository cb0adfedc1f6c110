import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { bundleFunctions } from '../../infra/bundle.ts';
import { bundleNames, functionCode, packageRoot } from '../../infra/function-code.ts';
import { tableAccess } from '../../infra/table-access.ts';
import { freshFolder } from './synthesized.ts';

const folder = freshFolder();
const bundles = await bundleFunctions(folder);

/** A cold start reads and parses this much. At this size it takes less time than the first TLS handshake. */
const bytesMax = 600_000;

describe.each(bundles)('the bundle of $name', ({ name, bytes, metafile }) => {
  it(`stays under ${bytesMax / 1_000} kB`, () => {
    expect(bytes).toBeGreaterThan(10_000);
    expect(bytes).toBeLessThanOrEqual(bytesMax);
  });

  it('needs nothing that is not in it but Node itself', () => {
    const wanted = Object.values(metafile.outputs).flatMap(({ imports }) => imports.filter(({ external }) => external));
    const needed = wanted.filter(
      ({ kind, path }) => kind !== 'dynamic-import' && !path.startsWith('node:') && !isBuiltin(path),
    );
    expect(needed).toEqual([]);
  });

  it('leaves out the messages of other languages', () => {
    const contents = Object.values(metafile.outputs).flatMap(({ inputs }) => Object.keys(inputs));
    expect(contents.filter((path) => /zod\/v4\/locales\/(?!en\.|index\.)/.test(path))).toEqual([]);
  });

  it('has code for every permission of its function', () => {
    const callable = new Set(actionsIn(Object.keys(metafile.inputs)));
    expect(tableAccess[name].items.filter((action) => !callable.has(action))).toEqual([]);
  });
});

describe('bundling', () => {
  it('writes the same bytes from the same sources, so that nothing is deployed without need', async () => {
    const again = freshFolder();
    await bundleFunctions(again, ['reaper']);
    const read = (where: string) => readFileSync(join(where, 'reaper', 'index.mjs'), 'utf8');
    expect(read(again)).toBe(read(folder));
  });

  it('says what to do if a bundle is missing', () => {
    expect(() => functionCode('http', freshFolder())).toThrow('npm run build');
  });

  it('makes one folder for each function', () => {
    expect(bundles.map(({ name }) => name)).toEqual([...bundleNames]);
  });
});

function isBuiltin(path: string): boolean {
  return process.getBuiltinModule(path) !== undefined;
}

/** What our own sources call the table for. A transaction needs the permission for what it does to each item. */
function actionsIn(inputs: readonly string[]): string[] {
  const own = inputs.filter((path) => path.startsWith('src/'));
  const texts = own.map((path) => readFileSync(join(packageRoot, path), 'utf8'));
  const methods = new Set(texts.flatMap((text) => [...text.matchAll(/this\.table\.(\w+)\(/g)].map(([, name]) => name)));
  return [...methods].flatMap((name) => actionsOf[name as string] ?? []);
}

/** By the method of ItemTable. */
const actionsOf: Record<string, readonly string[]> = {
  get: ['GetItem'],
  getMany: ['BatchGetItem'],
  put: ['PutItem'],
  replace: ['PutItem'],
  update: ['UpdateItem'],
  updateWith: ['PutItem', 'UpdateItem'],
  writeAll: ['PutItem', 'UpdateItem'],
  query: ['Query'],
  queried: ['Query'],
  replaceMany: ['BatchWriteItem'],
  removeMany: ['BatchWriteItem'],
};
