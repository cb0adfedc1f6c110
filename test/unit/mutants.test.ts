import { readdirSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { mutants } from '../mutants/list.ts';
import { plant, plantAll } from '../mutants/planting.ts';
import { nearSuites, suitesFor } from '../mutants/suites.ts';

const root = new URL('../../', import.meta.url);

describe('the list of mutants', () => {
  it('finds the text of every mutant in its file exactly once', () => {
    const stale = mutants.map((mutant) => plant(mutant)).filter((planted) => typeof planted === 'string');
    expect(stale, 'Change these entries of test/mutants/list.ts to fit the sources again').toEqual([]);
  });

  it('names each mutant once', () => {
    expect(new Set(mutants.map(({ name }) => name)).size).toBe(mutants.length);
  });
});

describe('a mutant of the list', () => {
  const mutant = { name: 'off by one', file: 'src/x.ts', text: 'a < b', instead: 'a <= b' };
  const planted = (source: string | undefined) => plant(mutant, () => source);

  it('takes the place of its text, and is refused if that is not clear', () => {
    expect(planted('if (a < b) go();')).toEqual({ name: 'off by one', file: 'src/x.ts', source: 'if (a <= b) go();' });
    expect(planted('if (a > b) go();')).toBe(
      '"off by one": src/x.ts contains its text 0 times instead of once:\na < b',
    );
    expect(planted('a < b || a < b')).toMatch('2 times instead of once');
    expect(planted(undefined)).toBe('"off by one": src/x.ts does not exist.');
    expect(plant({ ...mutant, instead: mutant.text }, () => 'a < b')).toBe('"off by one": it changes nothing.');
  });
});

describe('the mutants of a whole file', () => {
  it.each([
    ['x = a < b;', [';', 'x = a <= b;', 'x = a >= b;']],
    ['return !a ? 1 : 2;', ['return true ? 1 : 2;', 'return false ? 1 : 2;', 'return a ? 1 : 2;']],
    ['if (a) go();', ['if (true) go();', 'if (false) go();', 'if (a) ;']],
    ['const x = a.filter(even).some(big) ?? true;', ['some(big) && true', 'every(big) ??', 'a.some(big)', '?? false']],
    ["const x = 'a' + b;", []],
    ['type X = true; interface Y { readonly z: false }', []],
  ])('of %s differ in one place each', (source, expected) => {
    const found = plantAll('src/x.ts', source).map((mutant) => mutant.source);
    expect(found).toEqual(expected.map((part) => expect.stringContaining(part)));
  });

  it('are named by their line and what they change', () => {
    expect(plantAll('src/x.ts', '\nlet x = a === b;').map(({ name }) => name)).toEqual([
      'src/x.ts:2 a === b: === -> !==',
    ]);
  });
});

describe('the suites of a source', () => {
  const pathsIn = (folder: string) =>
    readdirSync(new URL(folder, root), { recursive: true, encoding: 'utf8' }).map((path) => `${folder}/${path}`);
  const sources = ['src', 'infra', 'functions'].flatMap(pathsIn);

  it('name only tests that exist', () => {
    const named = new Set(sources.flatMap((file) => suitesFor(file)).flatMap(({ paths }) => paths));
    const tests = pathsIn('test');
    expect([...named].filter((path) => !tests.some((test) => test.startsWith(path)))).toEqual([]);
  });

  it('begin with the tests that were written for it, and run no suite twice', () => {
    for (const file of sources) {
      const suites = suitesFor(file);
      expect(suites.slice(0, nearSuites(file).length)).toEqual(nearSuites(file));
      expect(new Set(suites.map((suite) => JSON.stringify(suite))).size).toBe(suites.length);
    }
  });
});
