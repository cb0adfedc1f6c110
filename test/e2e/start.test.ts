import { type ChildProcess, execFile, execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { DynamoDBClient, ListTablesCommand } from '@aws-sdk/client-dynamodb';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { findJava } from '../../src/local/engine/dynamodb-local.ts';
import { findDynoxide } from '../../src/local/engine/dynoxide.ts';
import { freePort, localCredentials } from '../../src/local/engine/endpoint.ts';
import { startEngine } from '../../src/local/engine.ts';
import { eventually } from '../support/eventually.ts';
import { isRunning, waitUntilGone } from '../support/processes.ts';
import { endStarted, type Finished, Program, plainEnv } from '../support/program.ts';
import { callAt, lockAt, newLeaseId } from '../support/service.ts';
import { wide } from '../support/wide.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { scripts: { start: string } };
const [program, ...startArgs] = scripts.start.split(' ') as [string, ...string[]];

const engines = [
  { engine: 'dynamodb-local', installed: (await findJava()) !== undefined },
  { engine: 'dynoxide', installed: findDynoxide() !== undefined },
]
  .filter(({ installed }) => installed)
  .map(({ engine }) => engine)
  // The fastest is the last.
  .slice(wide ? 0 : -1);
/** The fastest engine that is installed. Most tests below give the same result on each engine. */
const anyEngine = engines.at(-1) ?? 'auto';

type Variables = Record<string, string>;

/** The environment that npm gives: the packages' programs first in the PATH, and none of the caller's own settings. */
const environment = (more: Variables = {}): NodeJS.ProcessEnv => ({
  ...plainEnv,
  PATH: [join(root, 'node_modules', '.bin'), process.env.PATH].join(delimiter),
  ...more,
});

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'holdfast-start-'));
});
afterEach(async () => {
  await endStarted();
  rmSync(folder, { recursive: true, force: true, maxRetries: 40, retryDelay: 50 });
});

interface Started {
  readonly process: ChildProcess;
  readonly url: string;
  /** The first lines, up to the last one that suggests a command. */
  readonly banner: readonly string[];
  readonly exited: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
}

/** Starts the service as `npm start` does. Returns when the service says that it listens. */
async function start(args: readonly string[], variables: Variables = {}): Promise<Started> {
  const started = new Program(program, [...startArgs, ...args], { cwd: root, env: environment(variables) });
  const exited = once(started.process, 'exit').then(([code, signal]) => ({ code, signal }));
  const [shown = ''] = await started.said(/^[\s\S]*\/v1\/demo\/locks\/wallet:42\n/);
  const banner = shown.trimEnd().split('\n');
  const url = /^Holdfast is listening on (http:\S+)$/.exec(banner[0] ?? '')?.[1];
  if (url === undefined) throw new Error(`The first line names no address: ${banner[0]}`);
  return { process: started.process, url, banner, exited };
}

/** Runs the command to its end, for command lines that must not start a service. */
async function run(args: readonly string[], env: NodeJS.ProcessEnv = environment(), file = program): Promise<Finished> {
  return new Program(file, [...startArgs, ...args], { cwd: root, env }).finished;
}

/** Every descendant of a process, from the process table. */
function descendantsOf(pid: number): number[] {
  const rows = execFileSync('ps', ['-e', '-o', 'pid=,ppid='], { encoding: 'utf8' }).trim().split('\n');
  const parents = rows.map((row) => row.trim().split(/\s+/).map(Number) as [number, number]);
  const below = (parent: number): number[] =>
    parents.filter(([, ppid]) => ppid === parent).flatMap(([child]) => [child, ...below(child)]);
  return below(pid);
}

const quick = ['--port', '0', '--engine', anyEngine];

describe('npm start', () => {
  it('prints its address, its engine, and three commands that work', async () => {
    const { url, banner } = await start([...quick, '--data', folder]);
    const shown = banner.join('\n');
    expect(banner.filter((line) => line.startsWith('Holdfast is listening on http://'))).toHaveLength(1);
    expect(shown).toMatch(new RegExp(`engine +.*${anyEngine === 'dynoxide' ? 'dynoxide' : 'DynamoDB Local'}`));
    expect(shown).toMatch(new RegExp(`data +${folder}`));
    expect(new URL(url).hostname).toBe('127.0.0.1');

    const commands = banner.map((line) => line.trim()).filter((line) => line.startsWith('curl '));
    expect(commands).toHaveLength(3);
    const answers: Record<string, unknown>[] = [];
    for (const command of commands) {
      const { stdout } = await promisify(execFile)('bash', ['-c', command]);
      answers.push(JSON.parse(stdout));
    }
    expect(answers).toMatchObject([
      { status: 'ok', engine: anyEngine },
      { status: 'granted', lock: 'wallet:42' },
      { lock: 'wallet:42', state: 'held' },
    ]);
  });

  it('explains itself with --help, and starts nothing', async () => {
    const { code, stdout, stderr } = await run(['--help', '--data', folder]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    for (const flag of ['--port', '--host', '--data', '--memory', '--table', '--engine', '--region', '--poll-ms'])
      expect(stdout).toContain(flag);
    expect(stdout).toContain('HOLDFAST_TOKEN');
    expect(readdirSync(folder)).toEqual([]);
  });

  it('reads every flag from its variable as well', async () => {
    const engine = await startEngine({ engine: anyEngine as 'dynoxide', region: 'eu-west-1', memory: true });
    try {
      const port = await freePort();
      const { url, banner } = await start([], {
        HOLDFAST_PORT: String(port),
        HOLDFAST_HOST: 'localhost',
        HOLDFAST_ENGINE: engine.endpoint,
        HOLDFAST_REGION: 'eu-west-1',
        HOLDFAST_TABLE: 'my-own-locks',
        HOLDFAST_POLL_MS: '150',
        HOLDFAST_DATA: folder,
      });
      expect(url).toBe(`http://localhost:${port}`);
      expect(banner.join('\n')).toContain(engine.endpoint);
      const client = new DynamoDBClient({
        endpoint: engine.endpoint,
        region: 'eu-west-1',
        credentials: localCredentials,
      });
      expect((await client.send(new ListTablesCommand({}))).TableNames).toEqual(['my-own-locks']);
      client.destroy();

      const lock = lockAt(callAt(url), 'polled');
      await lock.acquire();
      const beganAt = performance.now();
      expect((await lock.acquire({ waitMs: 60_000 })).status).toBe(202);
      expect(performance.now() - beganAt).toBeLessThan(30_000);
    } finally {
      await engine.stop();
    }
  });

  it.each(['SIGTERM', 'SIGINT'] as const)('ends cleanly on %s, with exit code 0 and its engine', async (signal) => {
    const { process: service, exited, url } = await start([...quick, '--memory']);
    const below = descendantsOf(service.pid ?? 0);
    expect(below.length, 'the guardian and the engine').toBeGreaterThanOrEqual(2);
    expect((await lockAt(callAt(url), 'taken').acquire()).status).toBe(200);
    service.kill(signal);
    expect(await exited).toEqual({ code: 0, signal: null });
    expect(below.filter(isRunning)).toEqual([]);
  });

  it('ends when npm, which started it, gets a signal to end', async () => {
    const args = ['start', '--silent', '--', '--engine', 'memory', '--memory', '--port', '0', '--json'];
    const npm = new Program('npm', args, { cwd: root, env: environment() });
    const [line = ''] = await npm.said(/.+\n/);
    const { url, engine } = JSON.parse(line) as { url: string; engine: { name: string } };
    expect(engine.name).toBe('memory');
    const below = descendantsOf(npm.pid);
    expect((await callAt(url)('GET', '/v1/health')).status).toBe(200);
    npm.process.kill('SIGTERM');
    await waitUntilGone(...below);
  });

  it('ends in limited time even while somebody waits for a lock', async () => {
    const { process: service, exited, url } = await start([...quick, '--memory']);
    const lock = lockAt(callAt(url), 'held');
    await lock.acquire();
    const poll = lock.acquire({ waitMs: 60_000 }).catch(() => 'cut');
    await eventually(async () => expect((await lock.inspect()).body.queueDepth).toBe(1));
    const beganAt = performance.now();
    service.kill('SIGTERM');
    expect(await exited).toEqual({ code: 0, signal: null });
    expect(performance.now() - beganAt).toBeLessThan(30_000);
    await poll;
  });

  it('leaves nothing running when it is killed with -9', async () => {
    const { process: service, exited } = await start(['--port', '0'], {
      HOLDFAST_MEMORY: '1',
      HOLDFAST_ENGINE: anyEngine,
    });
    const below = descendantsOf(service.pid ?? 0);
    expect(below.length).toBeGreaterThanOrEqual(2);
    service.kill('SIGKILL');
    expect(await exited).toEqual({ code: null, signal: 'SIGKILL' });
    await waitUntilGone(...below);
  });

  it('keeps nothing with --memory', async () => {
    const first = await start([...quick, '--memory']);
    expect(first.banner.join('\n')).toMatch(/data +in memory/);
    await lockAt(callAt(first.url), 'gone').acquire();
    first.process.kill('SIGTERM');
    await first.exited;
    const second = await start([...quick, '--memory']);
    expect((await lockAt(callAt(second.url), 'gone').inspect()).body).toMatchObject({ state: 'free', fence: 0 });
  });
});

describe('the built-in engine', () => {
  it('has every acknowledged write after a kill -9 in the middle of many, and nothing of a torn last line', async () => {
    const args = ['--port', '0', '--engine', 'memory', '--data', folder];
    const first = await start(args);
    const acknowledged: number[] = [];
    const call = callAt(first.url);
    const writers = Array.from({ length: 16 }, async (_, writer) => {
      for (let turn = 0; ; turn++) {
        const id = writer * 1_000_000 + turn;
        const { status } = await call(
          'PUT',
          `/v1/kill/records/r${id}`,
          { value: id },
          { headers: { 'if-none-match': '*' } },
        );
        if (status === 201) acknowledged.push(id);
      }
    }).map((writing) => writing.catch(() => undefined));
    await eventually(async () => expect(acknowledged.length).toBeGreaterThan(300));
    first.process.kill('SIGKILL');
    await Promise.all([first.exited, ...writers]);
    appendFileSync(join(folder, 'memory', 'journal.jsonl'), '{"at":1,"writes":[{"table":"holdf');
    const second = await start(args);
    expect(second.banner.join('\n')).toContain(`data    ${folder}`);
    const kept = callAt(second.url);
    for (const id of acknowledged) {
      expect((await kept('GET', `/v1/kill/records/r${id}`)).body.value, `record ${id}`).toBe(id);
    }
  });
});

describe.each([...engines, 'memory'])('npm start on %s', (engine) => {
  it('is ready again after a kill -9, with every lease and fence still there', async () => {
    const args = ['--port', '0', '--engine', engine, '--data', folder];
    const first = await start(args);
    const leaseId = newLeaseId();
    const grant = await lockAt(callAt(first.url), 'kept').acquire({ leaseId, leaseMs: 60_000, owner: 'survivor' });
    expect(grant.status).toBe(200);
    first.process.kill('SIGKILL');
    await first.exited;

    const second = await start(args);
    expect((await callAt(second.url)('GET', '/v1/health')).status).toBe(200);

    const lock = lockAt(callAt(second.url), 'kept');
    const { fence } = grant.body;
    expect((await lock.inspect()).body).toMatchObject({
      state: 'held',
      fence,
      holders: [{ owner: 'survivor', fence }],
    });
    expect((await lock.acquire()).body.code).toBe('lock-held');
    expect((await lock.acquire({ leaseId })).body.fence).toBe(fence);
    expect((await lock.renew({ leaseId })).body.fence).toBe(fence);
    expect((await lock.release(leaseId)).body).toEqual({ released: true, reason: 'ok' });
    expect((await lock.acquire()).body.fence).toBeGreaterThan(fence);
  });
});

describe('a start that fails', () => {
  /** One line that says what is wrong, no stack, and an exit code that a script can see. */
  async function refusal(
    args: readonly string[],
    { code: expected = 69, env, file }: { code?: number; env?: NodeJS.ProcessEnv; file?: string } = {},
  ): Promise<string> {
    const { code, stdout, stderr } = await run(args, env, file);
    expect(code, stderr).toBe(expected);
    expect(stdout).toBe('');
    expect(stderr).toMatch(/^holdfast: [^\n]+\n$/);
    return stderr;
  }

  it('names a port that is in use', async () => {
    const taken = createServer().listen(0, '127.0.0.1');
    await once(taken, 'listening');
    const { port } = taken.address() as { port: number };
    const message = await refusal(['--port', String(port), '--engine', anyEngine, '--memory']);
    expect(message).toContain(`Port ${port} is in use`);
    expect(message).toContain('--port');
    taken.close();
  });

  it('asks for Java if DynamoDB Local is wanted and there is no Java', async () => {
    const node = execFileSync(program, ['-p', 'process.execPath'], { env: environment(), encoding: 'utf8' }).trim();
    const env = { ...environment(), PATH: join(folder, 'nowhere'), JAVA_HOME: '' };
    expect(await refusal(['--port', '0', '--engine', 'dynamodb-local', '--memory'], { env, file: node })).toMatch(
      /install Java 17.*--engine memory/,
    );
  });

  it('names a folder that it cannot write to', async () => {
    const file = join(folder, 'file');
    writeFileSync(file, '');
    expect(await refusal([...quick, '--data', join(file, 'below')])).toContain(join(file, 'below'));
  });

  it('names a folder that another service uses', async () => {
    const { process: service } = await start([...quick, '--data', folder]);
    expect(await refusal([...quick, '--data', folder])).toContain(`pid ${service.pid}`);
  });

  it('names an endpoint that does not answer', async () => {
    const endpoint = `http://127.0.0.1:${await freePort()}`;
    expect(await refusal(['--port', '0', '--engine', endpoint])).toContain(endpoint);
  });

  it.each([
    ['--prot 1', "Unknown flag --prot. Did you mean '--port'?"],
    ['--port many', "--port expects a whole number from 0 to 65535, but got 'many'"],
  ])('names what is wrong with %s, and exits as every wrong command line does', async (line, message) => {
    expect(await refusal(line.split(' '), { code: 64 })).toContain(message);
  });

  it('reports it as JSON if --json was given', async () => {
    const { code, stdout, stderr } = await run(['--json', '--prot', '1']);
    expect({ code, stdout }).toEqual({ code: 64, stdout: '' });
    expect(JSON.parse(stderr)).toMatchObject({ error: { code: 'usage', exitCode: 64 } });
    const endpoint = `http://127.0.0.1:${await freePort()}`;
    const late = await run(['--json', '--port', '0', '--engine', endpoint]);
    expect(JSON.parse(late.stderr)).toMatchObject({ error: { code: 'start', exitCode: 69 } });
  });

  it('asks for a token before others can reach it', async () => {
    expect(await refusal([...quick, '--memory', '--host', '0.0.0.0'], { code: 64 })).toMatch(
      /0\.0\.0\.0 .*HOLDFAST_TOKEN/,
    );
  });
});

describe('a service with a token', () => {
  it('answers only to callers that carry it, and its own commands do', async () => {
    const token = 'a-token-for-this-test';
    const { url, banner } = await start([...quick, '--memory'], { HOLDFAST_TOKEN: token });
    expect(banner.join('\n')).not.toContain(token);
    const call = callAt(url);
    for (const headers of [{}, { authorization: 'Bearer wrong' }, { authorization: token }]) {
      const refused = await call('GET', '/v1/test/locks/a', undefined, { headers });
      expect(refused).toMatchObject({ status: 401, body: { code: 'unauthorized', status: 401 } });
      expect(refused.headers.get('content-type')).toBe('application/problem+json');
      expect(refused.headers.get('x-request-id')).toMatch(/.+/);
      expect(refused.headers.get('www-authenticate')).toBe('Bearer');
    }
    const known = { headers: { authorization: `Bearer ${token}` } };
    expect((await call('GET', '/v1/test/locks/a', undefined, known)).status).toBe(200);
    for (const command of banner.map((line) => line.trim()).filter((line) => line.startsWith('curl '))) {
      const { stdout } = await promisify(execFile)('bash', ['-c', command], {
        env: environment({ HOLDFAST_TOKEN: token }),
      });
      expect(JSON.parse(stdout)).not.toHaveProperty('code');
    }
  });
});
