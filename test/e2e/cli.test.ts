import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { version } from '../../src/process/version.ts';
import { eventually } from '../support/eventually.ts';
import { endStarted, startServing } from '../support/program.ts';
import { type Cli, cliOf } from './cli-rig.ts';

const token = 'a-token-for-this-test';
let cli: Cli;
let url: string;
let folder: string;

beforeAll(async () => {
  ({ url } = await startServing(['--memory', '--port', '0'], { env: { HOLDFAST_TOKEN: token } }));
  cli = cliOf(url, { HOLDFAST_TOKEN: token });
  folder = mkdtempSync(join(tmpdir(), 'holdfast-cli-'));
});

afterAll(async () => {
  await endStarted();
  rmSync(folder, { recursive: true, force: true });
});

describe.concurrent('acquire, renew and release', () => {
  it('leave a lock held between processes, known by its lease', async () => {
    const { json: grant } = await cli.run('acquire', 'deploy', '--lease', '5m', '--meta', 'by=test,why=none', '--json');
    expect(grant).toMatchObject({ status: 'granted', lock: 'deploy', leaseMs: 300_000 });
    const lease = ['--lease-id', grant.leaseId];
    const renewed = await cli.runHere('renew', 'deploy', ...lease, '--lease', '10m', '--json');
    expect(renewed.json).toMatchObject({ fence: grant.fence, leaseMs: 600_000 });
    const { stdout } = await cli.runHere('inspect', 'deploy');
    expect(stdout).toMatch(/^deploy {2}held {2}fence \d+\n\nHOLDER/);
    expect(stdout).toContain('by=test why=none');
    expect(stdout).not.toContain(grant.leaseId);
    expect(await cli.run('release', 'deploy', ...lease)).toMatchObject({ code: 0, stdout: 'deploy released\n' });
    expect(await cli.runHere('release', 'deploy', ...lease)).toMatchObject({
      code: 0,
      stdout: 'deploy was released already\n',
    });
    expect(await cli.runHere('renew', 'deploy', ...lease)).toMatchObject({ code: 76 });
  });

  it('hand the lease from one to the next by the environment', async () => {
    const { stdout } = await cli.runHere('acquire', 'exported', '--lease', '10m', '--export');
    const id = /HOLDFAST_LEASE_ID='([\w-]+)'/.exec(stdout)?.[1];
    const next = cliOf(url, { HOLDFAST_TOKEN: token, HOLDFAST_LEASE_ID: id });
    expect(await next.runHere('release', 'exported')).toMatchObject({ code: 0, stdout: 'exported released\n' });
  });
});

describe.concurrent('list, check, revoke, history and watch', () => {
  it('show what happens to a lock', async () => {
    const watching = cli.start('watch', '--prefix', 'seen:', '--json', '--count', '2');
    await watching.said(/"connected"/);
    const { json: grant } = await cli.runHere('acquire', 'seen:1', '--lease', '10m', '--owner', 'carol', '--json');
    const listed = await cli.runHere('list', 'seen:', '--state', 'held', '--json');
    expect(listed.json.locks).toMatchObject([{ lock: 'seen:1', holders: [{ owner: 'carol' }] }]);
    expect((await cli.runHere('list', 'seen:')).stdout).toMatch(/^LOCK .*\nseen:1 +held .* carol\n$/);
    expect(await cli.runHere('check', 'seen:1', String(grant.fence))).toMatchObject({ code: 0 });

    const revoked = await cli.runHere('revoke', 'seen:1', '--fence', String(grant.fence), '--reason', 'stuck');
    expect(revoked).toMatchObject({ code: 0 });
    expect(await cli.runHere('check', 'seen:1', String(grant.fence))).toMatchObject({ code: 1 });

    const { code, stdout } = await watching.finished;
    expect(code).toBe(0);
    const events = stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(events.map(({ type }) => type)).toEqual(['connected', 'granted', 'revoked']);
    await eventually(async () =>
      expect((await cli.runHere('history', 'seen:1')).stdout).toMatch(
        /AT .*\n.*revoked .*carol .*by \S+@\S+, stuck\n.*granted/,
      ),
    );
    expect((await cli.runHere('history', 'seen:1', '--limit', '1', '--json')).json.events).toHaveLength(1);
  });
});

describe.concurrent('record', () => {
  it('writes only if the record is as expected, and reads it back', async () => {
    expect(await cli.runHere('record', 'get', 'config')).toMatchObject({ code: 1, stdout: '' });
    expect(await cli.runHere('record', 'put', 'config', '{"retries":3}', '--if-absent')).toMatchObject({ code: 0 });
    expect(await cli.runHere('record', 'put', 'config', '{}', '--if-absent')).toMatchObject({ code: 65 });
    const writing = cli.start('record', 'put', 'config', '-', '--if-version', '1', '--fence', '7', '--json');
    writing.type('{"retries":');
    writing.type('5}');
    writing.endInput();
    expect((await writing.finished).json).toMatchObject({ version: 2, fence: 7 });
    expect((await cli.runHere('record', 'get', 'config', '--value')).json).toEqual({ retries: 5 });
    expect((await cli.runHere('record', 'get', 'config')).stdout).toMatch(
      /^config {2}version 2 {2}fence floor 7 .*\n\{\n {2}"retries": 5\n\}\n$/,
    );
    const stale = await cli.runHere('record', 'put', 'config', '{}', '--if-present', '--fence', '6', '--json');
    expect(stale.code).toBe(65);
    expect(JSON.parse(stale.stderr).error).toMatchObject({ code: 'stale-fence', floor: 7 });
    expect(await cli.runHere('record', 'delete', 'config', '--if-version', '2', '--fence', '7')).toMatchObject({
      code: 0,
    });
  });
});

describe.concurrent('session and multi', () => {
  it('bind locks to a session that is kept alive and ended', async () => {
    const { json: session } = await cli.runHere('session', 'create', '--ttl', '10m', '--json');
    const id = session.sessionId;
    expect(await cli.runHere('acquire', 'shard:1', '--session', id)).toMatchObject({ code: 0 });
    const keeping = cli.start('session', 'keepalive', id, '--every', '100ms', '--json');
    await keeping.said(/(.*\n){2}/);
    keeping.process.kill('SIGINT');
    expect((await keeping.finished).code).toBe(130);
    expect((await cli.runHere('session', 'get', id, '--json')).json.locks).toMatchObject([{ lock: 'shard:1' }]);
    expect((await cli.runHere('session', 'end', id)).stdout).toBe('ended, 1 locks freed\n');
    expect(await cli.runHere('session', 'keepalive', id)).toMatchObject({ code: 76 });
  });

  it('take several locks at once, all or none', async () => {
    const { json: grant } = await cli.runHere('multi', 'acquire', 'm:1', 'm:2', '--lease', '10m', '--json');
    expect(grant.grants.map(({ lock }: { lock: string }) => lock)).toEqual(['m:1', 'm:2']);
    const refused = await cli.runHere('multi', 'acquire', 'm:2', 'm:3', '--json');
    expect(refused.code).toBe(75);
    expect(JSON.parse(refused.stderr).error).toMatchObject({ code: 'lock-held', blockedBy: ['m:2'] });
    const lease = ['--lease-id', grant.leaseId];
    expect((await cli.runHere('multi', 'renew', 'm:1', 'm:2', ...lease)).stdout).toMatch(/m:1 +\d+\nm:2 +\d+\n/);
    expect((await cli.runHere('multi', 'release', 'm:1', 'm:2', ...lease)).stdout).toBe('m:1 released\nm:2 released\n');
  });
});

describe.concurrent('credentials and usage', () => {
  it('exits with 77 if the token is missing or wrong, and takes it from a file', async () => {
    const stranger = cliOf(url);
    const refused = await stranger.runHere('inspect', 'x');
    expect(refused).toMatchObject({ code: 77, stderr: expect.stringContaining('HOLDFAST_TOKEN') });
    const file = join(folder, 'token');
    writeFileSync(file, `${token}\n`);
    expect(await stranger.runHere('--token-file', file, 'inspect', 'x')).toMatchObject({ code: 0 });
    expect(await stranger.runHere('inspect', 'x', '--token-file', join(folder, 'none'))).toMatchObject({ code: 64 });
  });

  it('exits with 64 at a wrong command line, and suggests the right word', async () => {
    expect((await cli.run('inpsect', 'x')).stderr).toContain("Did you mean 'inspect'?");
    expect(await cli.runHere('run', 'x', '--wiat', '5s', '--', 'true')).toMatchObject({
      code: 64,
      stderr: expect.stringContaining("Did you mean '--wait'?"),
    });
    expect((await cli.runHere('run', 'x', '--wait', 'soon', '--', 'true')).stderr).toContain('such as 30s');
    // Only the service checks names. If it refuses one, the command line was wrong too.
    expect(await cli.runHere('inspect', 'no/name')).toMatchObject({ code: 64 });
  });

  it('prints its version and its help', async () => {
    expect((await cli.run('--version')).stdout).toBe(`${version}\n`);
    expect(await cli.runHere('help', 'record', 'put')).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('--if-version'),
    });
    expect(await cli.runHere('serve', '--help')).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('--poll-ms'),
    });
  });
});

describe.concurrent('doctor', () => {
  it('finds no fault in a healthy service', async () => {
    const { code, json } = await cli.run('doctor', '--json');
    expect(json).toMatchObject({ ok: true });
    const checks = json.checks.map(({ check, status }: Record<string, string>) => `${check} ${status}`);
    expect(checks).toEqual([
      'endpoint ok',
      // A busy machine answers late, and it is right to warn about that. Then its clock can't be read exactly either.
      expect.stringMatching(/^latency (ok|warn)$/),
      expect.stringMatching(/^clock (ok|warn)$/),
      'credentials ok',
      'version ok',
      'watching ok',
    ]);
    expect(code).toBe(0);
  });

  it('names the fault: the token, or a service that is not there', async () => {
    expect(await cliOf(url).runHere('doctor')).toMatchObject({
      code: 77,
      stdout: expect.stringMatching(/✘ credentials/),
    });
    const nowhere = await cliOf('http://127.0.0.1:9', { HOLDFAST_TIMEOUT: '300ms' }).runHere('doctor');
    expect(nowhere).toMatchObject({ code: 69, stdout: expect.stringMatching(/^✘ endpoint .*9/) });
  });
});
