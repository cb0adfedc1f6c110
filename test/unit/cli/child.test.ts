import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

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
