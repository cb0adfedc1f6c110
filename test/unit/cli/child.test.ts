import { spawnSync } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { Child } from '../../../src/cli/child.ts';

const module = fileURLToPath(new URL('../../../src/cli/child.ts', import.meta.url));

/** Runs a program that starts a command. Answers what the command printed after the program and the command ended. */
function outputOf(command: readonly string[], after: string, env: Record<string, string> = {}) {
  const start = `const child = await Child.start(${JSON.stringify(command)}, { env: process.env, foreground: false });`;
  const source = `import { Child } from ${JSON.stringify(module)}; ${start} ${after}`;
  const args = ['--input-type=module', '--eval', source];
  return spawnSync(process.execPath, args, { encoding: 'utf8', env: { ...process.env, ...env } }).stdout;
}

const letGo = 'child.go(); await child.exited;';

describe('a command that is started', () => {
  it('runs only after its guardian knows it', () => {
    expect(outputOf(['echo', 'ran'], letGo)).toBe('ran\n');
  });

  it('never runs if the holder is killed with -9 before that', () => {
    expect(outputOf(['echo', 'ran'], `process.kill(process.pid, 'SIGKILL');`)).toBe('');
  });

  it('keeps its process id, and gets no more open descriptors than a terminal gives', () => {
    const command = ['sh', '-c', 'echo $$; if (: <&3) 2>/dev/null; then echo open; fi'];
    const printed = outputOf(command, `console.log(-child.target); ${letGo}`);
    const [before, after, ...more] = printed.trim().split('\n');
    expect(after).toBe(before);
    expect(more).toEqual([]);
  });

  it('gets variables that a shell could not pass on', () => {
    const command = [process.execPath, '-p', 'process.env["not-a-name"]'];
    expect(outputOf(command, letGo, { 'not-a-name': 'kept' })).toBe('kept\n');
  });
});

describe('a command that cannot be started', () => {
  const folder = () => mkdtempSync(join(tmpdir(), 'holdfast-child-'));
  const exitCodeOf = (file: string, PATH = process.env.PATH) =>
    Child.start([file], { env: { PATH }, foreground: false }).catch((error: { exitCode?: number }) => error.exitCode);

  it('has the exit code that a shell gives', async () => {
    const plain = join(folder(), 'file');
    writeFileSync(plain, 'not a program');
    expect(await exitCodeOf('/no/such/command')).toBe(127);
    expect(await exitCodeOf(join(plain, 'in-a-file'))).toBe(127);
    expect(await exitCodeOf(plain)).toBe(126);
    expect(await exitCodeOf(folder())).toBe(126);
    // It is there, in the second folder of the path, but it can't be run.
    expect(await exitCodeOf('file', `${folder()}:${dirname(plain)}`)).toBe(126);
    expect(await exitCodeOf('no-such-command', folder())).toBe(127);
  });
});
