import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { endStarted, startServing } from '../support/program.ts';
import { type Cli, cliOf } from './cli-rig.ts';

let cli: Cli;
let folder: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'holdfast-once-'));
  cli = cliOf((await startServing(['--memory', '--port', '0'])).url);
});

afterAll(async () => {
  await endStarted();
  rmSync(folder, { recursive: true });
});

/** A command that writes one line for each of its runs. */
const counted = (name: string, rest = 'true') => ['sh', '-c', `echo run >> ${join(folder, name)}; ${rest}`];
const runsOf = (name: string): number => readFileSync(join(folder, name), 'utf8').split('\n').length - 1;

describe.concurrent('once', () => {
  it('runs the command on one of several hosts, and lets the others wait for it', async () => {
    const hosts = Array.from({ length: 3 }, () =>
      cli.run(
        'once',
        'nightly',
        '--every',
        '24h',
        '--wait',
        '1m',
        '--',
        ...counted('nightly', 'sleep 0.3; echo settled'),
      ),
    );
    const ended = await Promise.all(hosts);
    expect(ended.map(({ code }) => code)).toEqual([0, 0, 0]);
    expect(ended.map(({ stdout }) => stdout).sort()).toEqual(['', '', 'settled\n']);
    expect(runsOf('nightly')).toBe(1);
    const { code, json } = await cli.runHere(
      'once',
      'nightly',
      '--every',
      '24h',
      '--json',
      '--',
      ...counted('nightly'),
    );
    expect({ code, json }).toEqual({
      code: 0,
      json: { job: 'nightly', ran: false, done: true, by: expect.any(String) },
    });
    expect(runsOf('nightly')).toBe(1);
  });

  it('passes on the exit code of a command that failed, and runs it again', async () => {
    expect(await cli.run('once', 'flaky', '--', ...counted('flaky', 'exit 3'))).toMatchObject({ code: 3 });
    expect(await cli.run('once', 'flaky', '--', ...counted('flaky'))).toMatchObject({ code: 0 });
    expect(await cli.run('once', 'flaky', '--', ...counted('flaky'))).toMatchObject({ code: 0 });
    expect(runsOf('flaky')).toBe(2);
  });

  it('does not run it again if a failure closes it', async () => {
    const closing = ['once', 'risky', '--close-on-failure', '--'];
    expect(await cli.run(...closing, ...counted('risky', 'exit 3'))).toMatchObject({ code: 3 });
    const again = await cli.runHere(...closing, ...counted('risky'));
    expect(again).toMatchObject({ code: 1, stderr: expect.stringContaining('The command exited with 3.') });
    expect(runsOf('risky')).toBe(1);
  });

  it('exits with 75 while another one runs it', async () => {
    const running = cli.start('once', 'long', '--', 'sh', '-c', 'echo began; read line');
    await running.said(/began/);
    expect(await cli.runHere('once', 'long', '--', 'true')).toMatchObject({ code: 75 });
    running.endInput();
    await running.finished;
  });

  it.each([
    [['--every', '24h', '--keep', '1h'], '--keep'],
    [['--offset', '1h'], '--every'],
    [['--every', '1h', '--offset', '1h'], '--offset'],
  ])('refuses %j before anything is sent', async (flags, named) => {
    const { code, stderr } = await cli.runHere('once', 'job', ...flags, '--', 'true');
    expect({ code, stderr }).toEqual({ code: 64, stderr: expect.stringContaining(named) });
  });
});
