import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { DynamoDBClient, GetItemCommand, UpdateItemCommand } from '@aws-sdk/client-dynamodb';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { findJava } from '../../src/local/engine/dynamodb-local.ts';
import { findDynoxide } from '../../src/local/engine/dynoxide.ts';
import { freePort, localCredentials } from '../../src/local/engine/endpoint.ts';
import { type Engine, type EngineRequest, startEngine } from '../../src/local/engine.ts';
import { StartError } from '../../src/local/start-error.ts';
import { ensureTable } from '../../src/local/table.ts';
import type { OwnerLine } from '../support/engine-owner.ts';
import { isRunning, waitUntilGone } from '../support/processes.ts';
import { wide } from '../support/wide.ts';

const region = 'us-east-1';
const java = await findJava();
const engines = [
  { engine: 'dynamodb-local' as const, installed: java !== undefined },
  { engine: 'dynoxide' as const, installed: findDynoxide() !== undefined },
]
  .filter(({ installed }) => installed)
  .map(({ engine }) => engine)
  // The fastest is the last.
  .slice(wide ? 0 : -1);
/** Most failures are tested on the fastest engine that is installed. */
const anyEngine = engines.at(-1) ?? 'auto';

let folder: string;
let started: Engine[] = [];
let owners: ChildProcess[] = [];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'holdfast-engine-'));
});

afterEach(async () => {
  for (const owner of owners) owner.kill('SIGKILL');
  await Promise.all(started.map((engine) => engine.stop()));
  started = [];
  owners = [];
  rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
});

async function start(request: Partial<EngineRequest> & { engine: EngineRequest['engine'] }): Promise<Engine> {
  const engine = await startEngine({ region, memory: false, dataFolder: folder, ...request } as EngineRequest);
  started.push(engine);
  return engine;
}

/** Starts an engine in its own process, which a test may kill. */
async function own(args: string[], env: NodeJS.ProcessEnv = process.env): Promise<OwnerLine & { owner: ChildProcess }> {
  const script = fileURLToPath(new URL('../support/engine-owner.ts', import.meta.url));
  const owner = spawn(process.execPath, [script, ...args], { env, stdio: ['ignore', 'pipe', 'inherit'] });
  owners.push(owner);
  const [line] = await once(createInterface(owner.stdout), 'line');
  return { ...(JSON.parse(line) as OwnerLine), owner };
}

async function ownRunning(args: string[]) {
  const line = await own(args);
  if ('error' in line) throw new Error(line.error);
  return line;
}

async function refusal(request: Parameters<typeof start>[0]): Promise<string> {
  const error = await start(request).then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(StartError);
  const { message } = error as StartError;
  expect(message).not.toContain('\n');
  return message;
}

const clientOf = (endpoint: string) =>
  new DynamoDBClient({ endpoint, region, credentials: localCredentials, maxAttempts: 1 });

const parentOf = (pid: number) => Number(execFileSync('ps', ['-o', 'ppid=', '-p', String(pid)], { encoding: 'utf8' }));

async function accepts(host: string, port: number): Promise<boolean> {
  const socket = connect({ host, port });
  try {
    await once(socket, 'connect');
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}

const counter = { TableName: 'holdfast', Key: { pk: { S: 'counter' }, sk: { S: '-' } } };

async function addOne(client: DynamoDBClient): Promise<void> {
  const one = { UpdateExpression: 'ADD n :one', ExpressionAttributeValues: { ':one': { N: '1' } } };
  await client.send(new UpdateItemCommand({ ...counter, ...one }));
}

describe.each(engines)('%s', (engine) => {
  // A plain Java runtime can't run the launcher. The service warns about that.
  const onLoopbackOnly = engine === 'dynoxide' || java?.runsSource === true;

  it('starts in memory, listens on 127.0.0.1 only, and ends when stopped, even if stopped twice', async () => {
    const running = await start({ engine, memory: true });
    expect(running.name).toBe(engine);
    const port = Number(new URL(running.endpoint).port);
    expect(await accepts('127.0.0.1', port)).toBe(true);
    // A server on every interface would accept these too: the first on Linux, the second if IPv6 is on.
    const elsewhere = [await accepts('127.0.0.2', port), await accepts('::1', port)];
    if (onLoopbackOnly) expect(elsewhere).toEqual([false, false]);
    await ensureTable(clientOf(running.endpoint), 'holdfast');
    await Promise.all([running.stop(), running.stop()]);
    expect(await running.exited).toMatchObject({ stopped: true });
    expect(isRunning(running.pid ?? 0)).toBe(false);
  });

  it('keeps every acknowledged write when service and engine are killed with -9, and is ready again', async () => {
    const { owner, pid, endpoint } = await ownRunning(['--engine', engine, '--data', folder]);
    const ownerExit = once(owner, 'exit');
    const client = clientOf(endpoint);
    await ensureTable(client, 'holdfast');
    let acknowledged = 0;
    try {
      for (; acknowledged < 10_000; acknowledged += 1) {
        await addOne(client);
        if (acknowledged === 40) {
          // Not awaited, so that the kill happens in the middle of the writes.
          process.kill(pid, 'SIGKILL');
          owner.kill('SIGKILL');
        }
      }
    } catch {
      // The engine is gone.
    }
    expect(acknowledged).toBeGreaterThanOrEqual(40);
    expect(acknowledged).toBeLessThan(10_000);

    await ownerExit;
    const again = await start({ engine });
    const { Item } = await clientOf(again.endpoint).send(new GetItemCommand({ ...counter, ConsistentRead: true }));
    // The write whose answer was lost may have happened or not.
    expect([acknowledged, acknowledged + 1]).toContain(Number(Item?.n?.N));
  });
});

// The guardian does not know which engine it guards, and ends each in the same way. So the fastest engine is enough.
describe('the guardian of an engine', () => {
  const engine = anyEngine;

  it('ends the engine when the service is killed with -9', async () => {
    const { owner, pid } = await ownRunning(['--engine', engine, '--memory']);
    expect(isRunning(pid)).toBe(true);
    owner.kill('SIGKILL');
    await waitUntilGone(pid);
  });

  it('may be killed too: the engine that is left is ended before another starts on the same folder', async () => {
    const { owner, pid } = await ownRunning(['--engine', engine, '--data', folder]);
    const guardian = parentOf(pid);
    const ownerExit = once(owner, 'exit');
    // The guardian is stopped first, so that it can't act before it is killed.
    process.kill(guardian, 'SIGSTOP');
    owner.kill('SIGKILL');
    await ownerExit;
    process.kill(guardian, 'SIGKILL');
    expect(isRunning(pid)).toBe(true);

    const again = await start({ engine });
    expect(isRunning(pid)).toBe(false);
    expect(again.pid).not.toBe(pid);
  });

  it('reports to the service when the engine dies', async () => {
    const running = await start({ engine, memory: true });
    process.kill(running.pid ?? 0, 'SIGKILL');
    expect(await running.exited).toMatchObject({ stopped: false, signal: 'SIGKILL' });
  });

  it('takes the engine with it when it dies', async () => {
    const running = await start({ engine, memory: true });
    process.kill(parentOf(running.pid ?? 0), 'SIGKILL');
    expect(await running.exited).toMatchObject({ stopped: false });
    await waitUntilGone(running.pid ?? 0);
  });
});

describe('startEngine', () => {
  it('refuses a data folder that it cannot write to', async () => {
    const file = join(folder, 'file');
    writeFileSync(file, '');
    expect(await refusal({ engine: anyEngine, dataFolder: join(file, 'x') })).toMatch(
      /Can't write .*file\/x \(ENOTDIR\)/,
    );
  });

  it('refuses a second service on the same folder, until the first has stopped', async () => {
    const first = await start({ engine: anyEngine });
    expect(await refusal({ engine: anyEngine })).toContain(`in use by a running service (pid ${process.pid})`);
    const elsewhere = await own(['--engine', anyEngine, '--data', folder]);
    expect(elsewhere).toMatchObject({ name: 'StartError', error: expect.stringContaining(`pid ${process.pid}`) });
    await first.stop();
    await start({ engine: anyEngine });
  });

  it('leaves a stranger alone that got the pid of an engine that has ended', async () => {
    const stranger = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { stdio: 'ignore' });
    owners.push(stranger);
    await once(stranger, 'spawn');
    mkdirSync(folder, { recursive: true });
    const serving = { servicePid: 1, enginePid: stranger.pid, mark: 'DynamoDBLocal.jar' };
    writeFileSync(join(folder, 'serving.json'), JSON.stringify(serving));
    await start({ engine: anyEngine });
    expect(isRunning(stranger.pid ?? 0)).toBe(true);
  });

  it.runIf(engines.includes('dynoxide'))('shows the output of an engine that ends while starting', async () => {
    mkdirSync(join(folder, 'dynoxide'));
    writeFileSync(join(folder, 'dynoxide', 'dynoxide.db'), 'this is no database, '.repeat(100));
    expect(await refusal({ engine: 'dynoxide' })).toMatch(
      /dynoxide ended \(exit code 1\).*not a valid SQLite database/,
    );
    // The folder is free again for the next try.
    rmSync(join(folder, 'dynoxide'), { recursive: true });
    await start({ engine: 'dynoxide' });
  });

  it('says how to get Java if DynamoDB Local is wanted and there is no Java, or an old one', async () => {
    const oldJava = join(folder, 'bin', 'java');
    mkdirSync(join(folder, 'bin'));
    writeFileSync(oldJava, '#!/bin/sh\necho java.base@11.0.2\n');
    chmodSync(oldJava, 0o755);
    const PATH = join(folder, 'nowhere');
    for (const env of [{ PATH }, { PATH, JAVA_HOME: folder }]) {
      const line = await own(['--engine', 'dynamodb-local', '--memory'], env);
      expect(line).toMatchObject({
        name: 'StartError',
        error: expect.stringMatching(/install Java 17 .*--engine memory/),
      });
    }
  });

  it('chooses the built-in engine if there is no Java', async () => {
    const line = await own(['--memory'], { PATH: join(folder, 'nowhere') });
    expect(line).toMatchObject({ name: 'memory' });
  });

  it.runIf(engines.includes('dynoxide'))('stays with the engine that wrote the folder', async () => {
    const first = await start({ engine: 'dynoxide', dataFolder: folder });
    await first.stop();
    const line = await own(['--data', folder], { PATH: join(folder, 'nowhere') });
    expect(line).toMatchObject({ name: 'dynoxide' });
  });

  it('says so and stops if the engine that wrote the folder cannot run, unless another is named', async () => {
    mkdirSync(join(folder, 'dynamodb-local'), { recursive: true });
    const env = { PATH: join(folder, 'nowhere') };
    expect(await own(['--data', folder], env)).toMatchObject({
      name: 'StartError',
      error: expect.stringMatching(/was written by dynamodb-local, which can't run now: .*Java 17.*--data/),
    });
    expect(await own(['--data', folder, '--engine', 'memory'], env)).toMatchObject({ name: 'memory' });
  });

  it('uses an endpoint that is named, and leaves it running', async () => {
    const running = await start({ engine: anyEngine, memory: true });
    const remote = await start({ engine: running.endpoint as `http://${string}` });
    expect(remote).toMatchObject({ name: 'remote', endpoint: running.endpoint });
    await remote.stop();
    expect(isRunning(running.pid ?? 0)).toBe(true);
  });

  it('refuses an endpoint that nobody serves', async () => {
    const endpoint = `http://127.0.0.1:${await freePort()}` as const;
    expect(await refusal({ engine: endpoint })).toContain(`Expected DynamoDB at ${endpoint}, but: `);
  });

  it('refuses an endpoint that takes connections and does not answer', async () => {
    const silent = createServer(() => {}).listen(0, '127.0.0.1');
    await once(silent, 'listening');
    const { port } = silent.address() as { port: number };
    expect(await refusal({ engine: `http://127.0.0.1:${port}` })).toContain('No answer within 5000 ms');
    silent.close();
  });
});

describe('the built-in engine', () => {
  it('serves at once, keeps its items while it runs, and loses them when it ends, if it has no folder', async () => {
    const running = await start({ engine: 'memory', memory: true });
    expect(running).toMatchObject({ name: 'memory', description: expect.stringContaining('nothing is kept') });
    const client = new DynamoDBClient({ endpoint: running.endpoint, region, credentials: localCredentials });
    await ensureTable(client, 'holdfast');
    const Key = { pk: { S: 'a' }, sk: { S: 'b' } };
    await client.send(new UpdateItemCommand({ TableName: 'holdfast', Key }));
    expect((await client.send(new GetItemCommand({ TableName: 'holdfast', Key }))).Item).toEqual(Key);
    await running.stop();
    await expect(client.send(new GetItemCommand({ TableName: 'holdfast', Key }))).rejects.toThrow();
  });

  it('is the engine that auto chooses if there is neither Java nor dynoxide', async () => {
    // dynoxide has no binary for this platform.
    const elsewhere = "--import=data:text/javascript,Object.defineProperty(process,'platform',{value:'sunos'})";
    const line = await own(['--memory'], { PATH: join(folder, 'nowhere'), NODE_OPTIONS: elsewhere });
    expect(line).toMatchObject({ name: 'memory', endpoint: expect.stringContaining('127.0.0.1') });
  });
});
