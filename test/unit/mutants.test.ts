import { readFile } from 'node:fs/promises';
import { describe, expect, it } from 'vitest';
import { mutants } from '../mutants/list.ts';

const root = new URL('../../', import.meta.url);

describe('the list of mutants', () => {
  it.each(mutants)('still finds in $file where $name', async ({ file, text, instead }) => {
    const source = await readFile(new URL(file, root), 'utf8');
    expect(source.split(text), 'the text to replace must stand in the file exactly once').toHaveLength(2);
    expect(instead).not.toBe(text);
  });

  it('names each mutant once', () => {
    expect(new Set(mutants.map(({ name }) => name)).size).toBe(mutants.length);
  });
});
