import { spawnSync } from 'node:child_process';
import { stripVTControlCharacters } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { endStarted, holdfastProgram, Program, startServing } from '../support/program.ts';
import { callAt, lockAt } from '../support/service.ts';
import { type Cli, cliOf } from './cli-rig.ts';

/** util-linux's `script` runs a command on a pseudo-terminal. Other systems have another program of that name. */
const hasTerminal = /util-linux/.test(spawnSync('script', ['--version'], { encoding: 'utf8' }).stdout ?? '');
if (!hasTerminal)
  process.stderr.write("SKIPPED: there is no util-linux 'script', so nothing is shown on a terminal.\n");

let cli: Cli;

beforeAll(async () => {
  cli = cliOf((await startServing(['--memory', '--port', '0'])).url);
});

afterAll(endStarted);

const lock = (name: string) => lockAt(callAt(cli.env.HOLDFAST_URL), name);

/** Runs the program on a terminal, as a person would. The output of both streams arrives in `stdout`. */
function onTerminal(args: string, { columns = 100, env = {} } = {}): Program {
  const line = `stty cols ${columns}; exec '${process.execPath}' '${holdfastProgram}' ${args}`;
  return new Program('script', ['-qec', line, '/dev/null'], {
    env: { ...cli.env, TERM: 'xterm', SHELL: '/bin/sh', ...env },
  });
}

describe.skipIf(!hasTerminal)('on a terminal', () => {
  it('shows the place in the queue while waiting, and clears it before the command speaks', async () => {
    const { body: grant } = await lock('wallet').acquire({ owner: 'alice', leaseMs: 60_000 });
    const running = onTerminal('run wallet --wait 1m -- echo the command speaks');
    await running.said(/waiting for wallet · place 1 of 1 · held by alice since [\d:]{8} · gives up in \d+s/);
    await lock('wallet').release(grant.leaseId);
    const { code, stdout } = await running.finished;
    expect(code).toBe(0);
    expect(stdout.endsWith('\u001b[2Kthe command speaks\r\n')).toBe(true);
  });

  it('prints tables in color that fit, unless NO_COLOR or --no-color is given', async () => {
    await lock('colored').acquire({ owner: 'x'.repeat(100) });
    const { stdout } = await onTerminal('inspect colored', { columns: 90 }).finished;
    expect(stdout).toContain('\u001b[33mheld\u001b[39m');
    const lines = stripVTControlCharacters(stdout).split('\r\n');
    expect(lines[3]).toMatch(/^x+… /);
    expect(Math.max(...lines.map(({ length }) => length))).toBeLessThanOrEqual(90);
    for (const plain of [
      onTerminal('inspect colored --no-color'),
      onTerminal('inspect colored', { env: { NO_COLOR: '1' } }),
    ]) {
      const said = (await plain.finished).stdout;
      expect(said).toContain('held');
      expect(stripVTControlCharacters(said)).toBe(said);
    }
  });

  it('does not let the name of another move the cursor', async () => {
    await lock('hostile').acquire({ owner: 'mallory\u001b[2J\u001b]0;title\u0007' });
    const { stdout } = await onTerminal('inspect hostile --no-color').finished;
    expect(stdout).toContain('mallory');
    expect(stripVTControlCharacters(stdout)).toBe(stdout);
  });

  it('passes Ctrl-C to the command, and is not stopped by Ctrl-Z', async () => {
    const running = onTerminal(
      `run typed -- sh -c "trap 'echo interrupted; exit 5' INT; echo ready; while :; do sleep 0.05; done"`,
    );
    await running.said(/ready/);
    running.type('\u001a');
    await running.said(/not stopped/);
    running.type('\u0003');
    await running.said(/interrupted/);
    expect((await running.finished).code).toBe(5);
  });

  it('leaves the terminal to a command in the foreground', async () => {
    const ask = `sh -c 'printf "sure? " > /dev/tty; read answer < /dev/tty; echo "said $answer"'`;
    const running = onTerminal(`run asking --foreground -- ${ask}`);
    await running.said(/sure\?/);
    running.type('yes\r');
    await running.said(/said yes/);
    expect((await running.finished).code).toBe(0);
  });
});
