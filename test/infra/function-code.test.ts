/** Where the code of each function is. */
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { AssetCode } from 'aws-cdk-lib/aws-lambda';
import { describe, expect, it } from 'vitest';
import * as code from '../../infra/function-code.ts';
import { freshFolder } from './synthesized.ts';

/** A folder with these bundles. */
function bundled(...names: string[]): string {
  const folder = freshFolder();
  for (const name of names) {
    mkdirSync(join(folder, name));
    writeFileSync(join(folder, name, 'index.mjs'), '');
  }
  return folder;
}

describe('the bundles', () => {
  it('are one for each file of functions/', () => {
    const sources = readdirSync(new URL('../../functions', import.meta.url)).filter((file) => file.endsWith('.ts'));
    expect(sources.map((file) => file.replace(/\.ts$/, '')).sort()).toEqual([...code.bundleNames].sort());
  });

  it('are in the package, where the build writes them', () => {
    const { name } = JSON.parse(readFileSync(join(code.packageRoot, 'package.json'), 'utf8'));
    expect(name).toBe('holdfast');
    expect(code.bundledFunctions).toBe(join(code.packageRoot, 'dist', 'functions'));
  });
});

describe('the code of a function', () => {
  it('is its own bundle, and acquire runs that of http', () => {
    const folder = bundled(...code.bundleNames);
    const paths = code.functionNames.map((name) => (code.functionCode(name, folder) as AssetCode).path);
    expect(code.functionNames).toEqual(['acquire', ...code.bundleNames]);
    expect(paths).toEqual(['http', ...code.bundleNames].map((name) => join(folder, name)));
  });

  it('must be bundled before the stack is written', () => {
    const folder = bundled('http');
    expect(() => code.functionCode('notifier', folder)).toThrow(`the bundled notifier function at ${folder}`);
    expect(() => code.functionCode('acquire', folder)).not.toThrow();
  });

  it('is that of the package if no folder is given', () => {
    const isBuilt = existsSync(join(code.bundledFunctions, 'http', 'index.mjs'));
    const made = () => (code.functionCode('http') as AssetCode).path;
    if (isBuilt) expect(made()).toBe(join(code.bundledFunctions, 'http'));
    else expect(made).toThrow(join(code.bundledFunctions, 'http'));
  });
});
