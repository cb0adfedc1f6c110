import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { nodeMajorMin, tooOld } from '../../../src/cli/node-version.ts';

const root = new URL('../../../', import.meta.url);

describe('the version of Node', () => {
  it.each(['16.20.2', '20.20.2', '21.7.3'])('is refused in one sentence if it is %s', (version) => {
    expect(tooOld(version)).toBe(`holdfast needs Node 22 or newer, and this is Node ${version}.`);
  });

  it.each(['22.0.0', '24.21.0', '100.1.0'])('is taken if it is %s', (version) => {
    expect(tooOld(version)).toBeUndefined();
  });

  it('is the same in package.json and in every page', () => {
    const { engines } = JSON.parse(readFileSync(new URL('package.json', root), 'utf8')) as {
      engines: { node: string };
    };
    expect(engines.node).toBe(`>=${nodeMajorMin}`);
    for (const page of ['README.md', 'CONTRIBUTING.md', 'docs/deploy.md', 'docs/install.md', 'docs/sdk.md']) {
      const named = [...readFileSync(new URL(page, root), 'utf8').matchAll(/Node (\d+) (?:or|and) newer/g)];
      expect(named.length, page).toBeGreaterThan(0);
      expect(new Set(named.map(([, major]) => Number(major))), page).toEqual(new Set([nodeMajorMin]));
    }
  });
});
