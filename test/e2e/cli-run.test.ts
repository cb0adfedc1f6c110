import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freePort } from '../../src/local/engine/endpoint.ts';
import { eventually } from '../support/eventually.ts';
import { isRunning, waitUntilGone } from '../support/processes.ts';
import { endStarted, holdfastProgram, Program, startServing } from '../support/program.ts';
import { type Call, callAt, lockAt } from '../support/service.ts';
import { type Cli, cliOf } from './cli-rig.ts';

let cli: Cli;

beforeAll(async () => {
  cli = cliOf((await startServing(['--memory', '--port', '0'])).url);
});

afterAll(endStarted);

/**
 * A command that prints its pid and runs until it is ended. It ignores signals, except those in `traps`. A shell runs a
 * trap at once while it waits, so it need not look often.
 */
const lasting = (traps = '', work = 'sleep 0.5 & wait $!') => [
  'sh',
  '-c',
  `${traps} echo pid $$; while :; do ${work}; done`,
];

async function pidOf(running: Program): Promise<number> {
  const [, pid] = await running.said(/pid (\d+)/);
  return Number(pid);
}

const parentOf = (pid: number) => Number(execFileSync('ps', ['-o', 'ppid=', '-p', String(pid)], { encoding: 'utf8' }));

function guardianOf(pid: number): number {
  const children = execFileSync('ps', ['-ww', '-o', 'pid=,args=', '--ppid', String(pid)], { encoding: 'utf8' });
  const [, guardian] = /^ *(\d+) .*guardian\.ts/m.exec(children) ?? [];
  if (guardian === undefined) throw new Error(`No guardian among:\n${children}`);
  return Number(guardian);
}

const call: Call = (...request) => callAt(cli.env.HOLDFAST_URL)(...request);

const stateOf = async (lock: string) => (await lockAt(call, lock).inspect()).body;

async function revoke(lock: string): Promise<void> {
  const { fence } = await stateOf(lock);
  expect((await lockAt(call, lock).revoke({ fence, reason: 'test' })).status).toBe(200);
}

describe.concurrent('run', () => {
  it('passes input, output and the exit code through unchanged, and gives the command its lock, fence and lease', async () => {
    const script = 'cat; echo "$HOLDFAST_LOCK $HOLDFAST_FENCE $HOLDFAST_LEASE_ID"; echo problem >&2; exit 23';
    const running = cli.start('run', 'job', '--', 'sh', '-c', script);
    running.type('first\nsecond');
    running.endInput();
    const { code, stdout, stderr } = await running.finished;
    expect(stdout).toMatch(/^first\nsecondjob \d{13,} [\w-]{16,}\n$/);
    expect(stderr).toBe('problem\n');
    expect(code).toBe(23);
    expect(await stateOf('job')).toMatchObject({ state: 'free' });
  });

  it('lets the command speak to the service about its own lease', async () => {
    const again = `"${process.execPath}" "$0" renew own --lease 10m --json`;
    const { code, json } = await cli.run('run', 'own', '--lease', '5m', '--', 'sh', '-c', again, holdfastProgram);
    expect(code).toBe(0);
    expect(json.remainingMs).toBeGreaterThan(500_000);
  });

  it.each([
    ['KILL', 137],
    ['TERM', 143],
  ])('exits with 128 and the number when SIG%s ends the command, and releases at once', async (signal, expected) => {
    const { code } = await cli.run('run', `shot:${signal}`, '--lease', '10m', '--', 'sh', '-c', `kill -${signal} $$`);
    expect(code).toBe(expected);
    expect(await stateOf(`shot:${signal}`)).toMatchObject({ state: 'free' });
  });

  it('ends the processes that a killed command leaves in its process group', async () => {
    const running = cli.start('run', 'family', '--', 'sh', '-c', 'sleep 100000 & echo pid $!; wait');
    const orphan = await pidOf(running);
    const exit = once(running.process, 'exit');
    process.kill(parentOf(orphan), 'SIGKILL');
    expect(await exit).toEqual([137, null]);
    await waitUntilGone(orphan);
  });

  it('ends the command even if its whole process group is killed with -9, as a terminal or a supervisor may do', async () => {
    const args = ['run', 'swept-away', '--', ...lasting()];
    const running = new Program(process.execPath, [holdfastProgram, ...args], { env: cli.env, detached: true });
    const pid = await pidOf(running);
    process.kill(-running.pid, 'SIGKILL');
    await waitUntilGone(pid);
  });

  it('passes signals on', async () => {
    const names = ['HUP', 'INT', 'QUIT', 'USR1', 'USR2', 'WINCH'];
    const traps = names.map((name) => `trap 'echo got ${name}' ${name};`).join(' ');
    const running = cli.start('run', 'signals', '--', ...lasting(`${traps} trap 'exit 42' TERM;`));
    await pidOf(running);
    for (const name of names) {
      running.process.kill(`SIG${name}` as NodeJS.Signals);
      await running.said(new RegExp(`got ${name}`));
    }
    running.process.kill('SIGTERM');
    expect((await running.finished).code).toBe(42);
    expect(await stateOf('signals')).toMatchObject({ state: 'free' });
  });

  it('renews its lease while the command runs', async () => {
    const running = cli.start('run', 'long', '--lease', '15s', '--', 'sh', '-c', 'echo pid $$; cat');
    await pidOf(running);
    const { fence, holders } = await stateOf('long');
    await eventually(async () =>
      expect((await stateOf('long')).holders[0].remainingMs).toBeGreaterThan(holders[0].remainingMs),
    );
    running.endInput();
    expect((await running.finished).code).toBe(0);
    expect(await stateOf('long')).toMatchObject({ state: 'free', fence });
  });

  it('refuses with 75 and names the holder, without running the command', async () => {
    await lockAt(call, 'taken').acquire({ owner: 'alice' });
    const refused = await cli.runHere('run', 'taken', '--', 'echo', 'ran');
    expect(refused).toMatchObject({ code: 75, stdout: '', stderr: expect.stringContaining('held by alice') });
    const waited = await cli.runHere('run', 'taken', '--wait', '100ms', '--json', '--', 'echo', 'ran');
    expect(waited).toMatchObject({ code: 75, stdout: '' });
    expect(JSON.parse(waited.stderr).error).toMatchObject({ code: 'wait-timeout', exitCode: 75 });
  });

  it('leaves the queue when it is interrupted while waiting', async () => {
    await lockAt(call, 'busy').acquire();
    const waiting = cli.start('run', 'busy', '--wait', '1m', '--', 'echo', 'ran');
    await eventually(async () => expect((await stateOf('busy')).queueDepth).toBe(1));
    waiting.process.kill('SIGINT');
    expect(await waiting.finished).toMatchObject({ code: 130, stdout: '' });
    expect(await stateOf('busy')).toMatchObject({ queueDepth: 0 });
  });

  it('reports as a shell does that a command does not exist or cannot be run, and releases', async () => {
    expect(await cli.run('run', 'none', '--', 'no-such-command')).toMatchObject({ code: 127 });
    expect(await cli.run('run', 'none', '--', '/dev/null')).toMatchObject({ code: 126 });
    expect(await stateOf('none')).toMatchObject({ state: 'free' });
  });

  it('admits as many as a semaphore has permits, and readers together', async () => {
    for (const flags of [['--limit', '2'], ['--shared']]) {
      const lock = `many${flags.length}`;
      const first = cli.start('run', lock, ...flags, '--', 'sh', '-c', 'echo pid $$; cat');
      await pidOf(first);
      expect(await cli.run('run', lock, ...flags, '--', 'echo', 'both')).toMatchObject({ code: 0, stdout: 'both\n' });
      first.endInput();
      await first.finished;
    }
  });
});

describe.concurrent('run, when the lock is lost', () => {
  it.each(['runs', 'is stopped'])(
    'asks the command to end when the lease is revoked, and exits with 76, if the command %s',
    async (how) => {
      const lock = `revoked:${how.replace(' ', '-')}`;
      const command = lasting("trap 'echo cleaning up; exit 0' TERM;");
      const running = cli.start('run', lock, '--lease', '15s', '--', ...command);
      const pid = await pidOf(running);
      if (how === 'is stopped') process.kill(pid, 'SIGSTOP');
      await revoke(lock);
      // The loss is noticed at the next renewal.
      expect(await running.finished).toMatchObject({
        code: 76,
        stdout: expect.stringContaining('cleaning up'),
        stderr: expect.stringContaining('was revoked by anonymous: "test". Ending the command'),
      });
    },
  );

  it('kills a command that does not end within the grace', async () => {
    const flags = ['--lease', '15s', '--grace', '300ms'];
    const running = cli.start('run', 'stubborn', ...flags, '--', ...lasting("trap '' TERM;"));
    const pid = await pidOf(running);
    // It would kill the command too, but later.
    const guardian = guardianOf(running.pid);
    process.kill(guardian, 'SIGSTOP');
    try {
      await revoke('stubborn');
      await waitUntilGone(pid);
      expect((await running.finished).code).toBe(76);
    } finally {
      process.kill(guardian, 'SIGCONT');
    }
  });

  it('ends the command when it is itself killed with -9', async () => {
    const running = cli.start('run', 'orphan', '--grace', '300ms', '--', ...lasting("trap '' TERM;"));
    const pid = await pidOf(running);
    running.process.kill('SIGKILL');
    await waitUntilGone(pid);
  });

  it('ends the command before another gets the lock when it is itself stopped', async () => {
    const running = cli.start('run', 'frozen', '--lease', '8s', '--', ...lasting());
    const pid = await pidOf(running);
    running.process.kill('SIGSTOP');
    const next = await lockAt(call, 'frozen').acquire({ waitMs: 60_000 });
    expect(next.body.status).toBe('granted');
    expect(isRunning(pid)).toBe(false);
    running.process.kill('SIGCONT');
    expect((await running.finished).code).toBe(76);
  });
});

describe.concurrent('run, when the service is killed with -9', () => {
  let folder: string;

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'holdfast-cli-'));
  });

  afterAll(() => rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 }));

  it('goes on renewing when it is back in time', async () => {
    const flags = ['--data', folder, '--port', String(await freePort())];
    const first = await startServing(flags);
    const theirs = cliOf(first.url);
    const running = theirs.start('run', 'steady', '--lease', '30s', '--', 'sh', '-c', 'echo pid $$; cat');
    await pidOf(running);
    await first.end('SIGKILL');
    await startServing(flags);
    const left = async () => (await lockAt(callAt(first.url), 'steady').inspect()).body.holders[0]?.remainingMs;
    const before = await left();
    await eventually(async () => expect(await left()).toBeGreaterThan(before));
    running.endInput();
    expect(await running.finished).toMatchObject({ code: 0, stderr: '' });
  });

  it('ends the command before its lease ends when it stays away, and exits with 76', async () => {
    const serving = await startServing(['--memory', '--port', '0']);
    const theirs = cliOf(serving.url, { HOLDFAST_TIMEOUT: '5s' });
    // It says itself when it ran last: a busy machine may see its end much later.
    const command = lasting("trap '' TERM;", 'date +%s%3N; sleep 0.05');
    const running = theirs.start('run', 'alone', '--lease', '9s', '--', ...command);
    await pidOf(running);
    const killedAt = Date.now();
    serving.process.kill('SIGKILL');
    const { code, stdout, stderr } = await running.finished;
    expect({ code, stderr }).toEqual({ code: 76, stderr: expect.stringContaining('could not be renewed') });
    expect(Number(stdout.trim().split('\n').at(-1))).toBeLessThan(killedAt + 9_000);
  });

  it('exits with 69 if there is no service', async () => {
    const nobody = cliOf(`http://127.0.0.1:${await freePort()}`, { HOLDFAST_TIMEOUT: '300ms' });
    const { code, stderr } = await nobody.runHere('inspect', 'x');
    expect(code).toBe(69);
    expect(stderr).toContain('ECONNREFUSED');
    expect(stderr.match(/127\.0\.0\.1/g), 'the address stands in the message once').toHaveLength(1);
  });
});

describe('elect', () => {
  it('runs the command while leading, ends it on loss, and waits to lead again', async () => {
    const stand = (owner: string) =>
      cli.start(
        'elect',
        'chief',
        '--lease',
        '9s',
        '--owner',
        owner,
        '--',
        'sh',
        '-c',
        'echo epoch $HOLDFAST_FENCE; exec cat',
      );
    const a = stand('a');
    const [, first] = await a.said(/epoch (\d+)/);
    const b = stand('b');
    await eventually(async () => expect((await stateOf('chief')).queueDepth).toBe(1));

    await revoke('chief');
    const [, second] = await b.said(/epoch (\d+)/);
    expect(Number(second)).toBeGreaterThan(Number(first));
    await a.said(/waiting to lead again/, 'stderr');

    // B's command ends by itself, and B then leaves the election.
    b.endInput();
    expect((await b.finished).code).toBe(0);
    const [, , third] = await a.said(/epoch (\d+)\nepoch (\d+)/);
    expect(Number(third)).toBeGreaterThan(Number(second));
    a.process.kill('SIGTERM');
    expect((await a.finished).code).toBe(143);
  });
});
