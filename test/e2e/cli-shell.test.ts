/** What a script gets from the command line if somebody else has the lock. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { endStarted, holdfastProgram, Program, startServing } from '../support/program.ts';
import { callAt, lockAt } from '../support/service.ts';
import { type Cli, cliOf } from './cli-rig.ts';

let cli: Cli;
beforeAll(async () => {
  cli = cliOf((await startServing(['--engine', 'memory', '--port', '0'])).url);
});
afterAll(endStarted);

/** `holdfast` is a function instead of the installed program. */
const installed = `holdfast() { "${process.execPath}" "${holdfastProgram}" "$@"; }`;

/** The shell line as a script runs it. */
const script = (shell: string, flags: string[], lines: string, holdfast = installed, more: NodeJS.ProcessEnv = {}) => {
  const running = new Program(shell, [...flags, '-c', `${holdfast}\n${lines}`], { env: { ...cli.env, ...more } });
  running.endInput();
  return running.finished;
};

/**
 * Evaluates what the program prints. The first shell starts the program. The others get what it printed in this
 * process, because each start computes more than all the shells.
 */
async function evaluated(shell: string, flags: string[], args: string, next: string) {
  const lines = `eval "$(holdfast ${args})"\n${next}`;
  if (shell === 'sh' && flags.length === 0) return script(shell, flags, lines);
  const { code, stdout, stderr } = await cli.runHere(...args.split(' '));
  const printed = `holdfast() { printf %s "$PRINTED"; printf %s "$COMPLAINED" >&2; return ${code}; }`;
  return script(shell, flags, lines, printed, { PRINTED: stdout, COMPLAINED: stderr });
}

/** A service that nobody reaches, and no time to try it again. */
const away = ['--url', 'http://127.0.0.1:9', '--timeout', '300ms'];

/** Without the command line: a request costs much less than a process. */
async function take(lock: string): Promise<void> {
  const call = callAt(cli.env.HOLDFAST_URL);
  expect((await lockAt(call, lock).acquire({ owner: 'other', leaseMs: 300_000 })).status).toBe(200);
}

describe.concurrent.each([
  ['sh', []],
  ['sh', ['-e']],
  ['bash', []],
  ['bash', ['-e']],
])('eval of acquire --export in %s %o', (shell, flags) => {
  const step = 'echo "went on with fence $HOLDFAST_FENCE"';

  it('goes on with the lease if it was granted, and a trap releases it', async () => {
    const lock = `free-${shell}${flags.join('')}`;
    const trap = `trap 'holdfast release "$HOLDFAST_LOCK"' EXIT`;
    const lines = `eval "$(holdfast acquire ${lock} --export)"\n${trap}\n${step}`;
    const { code, stdout } = await script(shell, flags, lines);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^went on with fence \d{13,}\n\S+ released\n$/);
  });

  it('ends the script if the lock is held', async () => {
    const lock = `held-${shell}${flags.join('')}`;
    await take(lock);
    const { code, stdout, stderr } = await evaluated(shell, flags, `acquire ${lock} --export`, step);
    expect({ code, stdout }).toEqual({ code: 75, stdout: '' });
    expect(stderr).toContain('held by');
  });

  it('ends the script if the command line or the address is wrong', async () => {
    const wrong = await evaluated(shell, flags, 'acquire a --export --laese 1m', step);
    expect(wrong).toMatchObject({ code: 64, stdout: '' });
    const unreached = await evaluated(shell, flags, `acquire a --export ${away.join(' ')}`, step);
    expect(unreached).toMatchObject({ code: 69, stdout: '' });
  });
});

describe.concurrent('--if-held', () => {
  it.each([
    ['skip', 0],
    ['fail', 75],
    ['3', 3],
  ])('%s exits with %i, and runs nothing', async (choice, code) => {
    const lock = `busy-${choice}`;
    await take(lock);
    // If it ran, its code would be 1.
    const ran = await cli.runHere('run', lock, '--if-held', choice, '--', 'false');
    expect(ran).toMatchObject({ code, stdout: '' });
    expect(ran.stderr === '').toBe(choice !== 'fail');
    expect(await cli.runHere('acquire', lock, '--if-held', choice)).toMatchObject({ code, stdout: '' });
  });

  it('is only about a held lock: the command keeps its own exit code, and so do other failures', async () => {
    expect(await cli.run('run', 'idle', '--if-held', 'skip', '--', 'sh', '-c', 'exit 75')).toMatchObject({ code: 75 });
    const unreached = await cli.runHere('run', 'idle', '--if-held', 'skip', ...away, '--', 'true');
    expect(unreached.code).toBe(69);
    expect(await cli.runHere('run', 'idle', '--if-held', 'maybe', '--', 'true')).toMatchObject({ code: 64 });
  });

  it('ends a script that evaluates the exports, quietly', async () => {
    await take('quiet');
    const lines = 'eval "$(holdfast acquire quiet --export --if-held skip)"\necho "went on"';
    expect(await script('sh', [], lines)).toMatchObject({ code: 0, stdout: '', stderr: '' });
  });
});

describe.concurrent('--json', () => {
  it.each([
    ['a held lock', ['acquire', 'json-held', '--json'], 75],
    ['a wrong flag', ['acquire', 'a', '--laese', '1m', '--json'], 64],
    ['a wrong flag before the command', ['--json', '--laese', 'acquire', 'a'], 64],
    ['a command that is not there', ['--json', 'aquire'], 64],
    ['no command', ['--json'], 64],
    ['half a command', ['record', '--json'], 64],
    ['a service that is away', ['inspect', 'a', '--json', ...away], 69],
    ['a command that can not be run', ['run', 'json-run', '--json', '--', '/no/such/program'], 127],
    ['a wrong option of serve', ['serve', '--json', '--port', 'x'], 64],
  ])('says %s as JSON on stderr, and nothing else', async (_, args, code) => {
    if (args.includes('json-held')) await take('json-held');
    // A command that is started would write to the output of this process.
    const finished = await (args[0] === 'run' ? cli.run(...args) : cli.runHere(...args));
    expect(finished).toMatchObject({ code, stdout: '' });
    const lines = finished.stderr.trim().split('\n');
    expect(lines).toHaveLength(1);
    expect(JSON.parse(lines[0] ?? '')).toMatchObject({ error: { message: expect.any(String), exitCode: code } });
  });
});
