import { mkdtempSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { mountConsole } from '../../../src/cli/commands/serve.ts';
import { defaultOptions } from '../../../src/local/options.ts';
import type { Running } from '../../../src/local/serve.ts';

const folder = () => mkdtempSync(join(tmpdir(), 'holdfast-console-'));

describe('the token of the console', () => {
  const mounted = (dataFolder: string) =>
    mountConsole({ url: 'http://h', mount: () => {}, namespaces: () => [] } as unknown as Running, {
      ...defaultOptions,
      dataFolder,
    });

  it('is kept for the next start, in a file that only its owner may read', () => {
    const data = folder();
    expect(mounted(data)).toBe(mounted(data));
    expect(statSync(join(data, 'console-token')).mode & 0o777).toBe(0o600);
  });

  it('is made again if its file was cut short', () => {
    const data = folder();
    writeFileSync(join(data, 'console-token'), 'short\n');
    expect(mounted(data)).toMatch(/token=.{32,}$/);
  });
});
