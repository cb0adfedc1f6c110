import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify, stripVTControlCharacters } from 'node:util';
import { beforeAll, describe, expect, it } from 'vitest';

const run = promisify(execFile);
const demo = fileURLToPath(new URL('../../src/demo/main.ts', import.meta.url));

/** Runs the demo as a user does, except that its output goes into a pipe. A failing exit code rejects. */
async function watchDemo(): Promise<string> {
  const { FORCE_COLOR: _, NO_COLOR: __, ...env } = process.env;
  // The demo's own limit is 8 s. The rest is for an engine that starts slowly on a busy machine.
  const { stdout, stderr } = await run(process.execPath, [demo], { env, timeout: 240_000 });
  expect(stderr).toBe('');
  return stdout;
}

describe('npm run demo', () => {
  let output: string;
  let acts: string[];

  beforeAll(async () => {
    output = await watchDemo();
    acts = output.split(/^\d\. /m);
  });

  it('shows that an update is lost without a fence', () => {
    expect(acts[1]).toMatch(/A {2}wakes, and writes 100 \+ 50 = 150 {2}→ 200, version 3\n/);
    expect(acts[1]).toContain("✘ The account holds 150 instead of 120: B's update is lost");
  });

  it('shows that a fence refuses the late writer', () => {
    const fences = [...(acts[2] ?? '').matchAll(/→ fence (\d+)/g)].map(([, fence]) => Number(fence));
    const [first, second] = fences;
    expect(second).toBeGreaterThan(first as number);
    expect(acts[2]).toContain(`A  wakes, and writes 100 + 50 = 150  → 409 stale-fence, the floor is ${second}\n`);
    expect(acts[2]).toContain('✔ The account holds 120');
  });

  it('shows that compare-and-swap needs no lock', () => {
    expect(acts[3]).not.toContain('takes the lock');
    expect(acts[3]).toContain('A  wakes, and writes 100 + 50 = 150  → 412 version-mismatch, the version is 2\n');
    expect(acts[3]).toContain('✔ The account holds 120');
  });

  it('ends with when to use which', () => {
    expect(output).toMatch(/When to use which:\n.*A lock alone.*\n.*fence.*\n.*Compare-and-swap/);
  });

  it('writes no colors into a pipe', () => {
    expect(stripVTControlCharacters(output)).toBe(output);
  });

  it('leaves nothing behind', async () => {
    const url = /http:\/\/127\.0\.0\.1:\d+/.exec(output)?.[0] as string;
    await expect(fetch(`${url}/v1/health`)).rejects.toThrow();
  });
});
