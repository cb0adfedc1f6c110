import { access, writeFile } from 'node:fs/promises';
import { connect as connectSocket } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { findJava } from '../../../src/local/engine/dynamodb-local.ts';
import { freePort } from '../../../src/local/engine/endpoint.ts';
import type { Store } from '../contestant.ts';
import { loadPeer } from '../peers.ts';
import { NotInstalled, startServer, temporaryFolder } from '../server-process.ts';

type Callback<Result> = (error: Error | null, result: Result) => void;

/** The part of node-zookeeper-client that is used here. */
interface RawClient {
  connect(): void;
  close(): void;
  once(event: 'connected', listener: () => void): void;
  create(path: string, data: Buffer | null, acls: null, mode: number, callback: Callback<string>): void;
  mkdirp(path: string, callback: Callback<string>): void;
  remove(path: string, version: number, callback: Callback<void>): void;
  setData(path: string, data: Buffer, version: number, callback: Callback<unknown>): void;
  exists(path: string, watcher: () => void, callback: Callback<unknown>): void;
  getChildren(path: string, callback: Callback<string[]>): void;
}

interface ZookeeperModule {
  createClient(hosts: string, options: { sessionTimeout: number; retries: number }): RawClient;
  readonly CreateMode: { readonly EPHEMERAL_SEQUENTIAL: number; readonly PERSISTENT: number };
}

/** The client with promises. */
export interface ZookeeperClient {
  createEphemeralSequential(path: string): Promise<string>;
  makePath(path: string): Promise<unknown>;
  remove(path: string): Promise<void>;
  setData(path: string, data: string): Promise<unknown>;
  /** True if it exists. The watcher is called once, when that changes. */
  exists(path: string, watcher: () => void): Promise<boolean>;
  children(path: string): Promise<string[]>;
  close(): void;
}

export interface ZookeeperStore extends Store {
  readonly host: string;
}

const jar = '/usr/share/java/zookeeper.jar';
/** A session may be as short as two ticks. A second is the shortest lease of the other contestants. */
const tickMs = 500;

export async function connectZookeeper(host: string, sessionMs: number): Promise<ZookeeperClient> {
  const { createClient, CreateMode } = loadPeer<ZookeeperModule>('node-zookeeper-client');
  const raw = createClient(host, { sessionTimeout: sessionMs, retries: 3 });
  const connected = new Promise<void>((resolve) => {
    raw.once('connected', resolve);
  });
  raw.connect();
  await connected;
  const call = <Result>(ask: (callback: Callback<Result>) => void) => promisify(ask)() as Promise<Result>;
  return {
    createEphemeralSequential: (path) =>
      call((callback) => raw.create(path, null, null, CreateMode.EPHEMERAL_SEQUENTIAL, callback)),
    makePath: (path) => call((callback) => raw.mkdirp(path, callback)),
    remove: (path) => call((callback) => raw.remove(path, -1, callback)),
    setData: (path, data) => call((callback) => raw.setData(path, Buffer.from(data), -1, callback)),
    exists: async (path, watcher) => (await call((callback) => raw.exists(path, watcher, callback))) !== null,
    children: (path) => call((callback) => raw.getChildren(path, callback)),
    close: () => raw.close(),
  };
}

/** Sends one of ZooKeeper's four-letter words, on its own connection. */
function ask(port: number, word: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let answer = '';
    const socket = connectSocket(port, '127.0.0.1', () => socket.write(word));
    socket.on('data', (chunk) => {
      answer += chunk;
    });
    socket.once('error', reject).once('end', () => resolve(answer));
  });
}

/** It answers with its version as soon as it serves. Until then it answers that it does not serve. */
function versionIn(answer: string): string {
  const [, version] = /version: ([\d.]+)/i.exec(answer) ?? [];
  if (version === undefined) throw new Error('It does not serve yet.');
  return version;
}

export async function startZookeeper(): Promise<ZookeeperStore> {
  const java = await findJava();
  await access(jar).catch(() => {
    throw new NotInstalled('zookeeper is not installed');
  });
  if (java === undefined) throw new NotInstalled('zookeeper needs Java');
  const folder = await temporaryFolder();
  const port = await freePort();
  const settings = {
    tickTime: tickMs,
    dataDir: folder.path,
    clientPort: port,
    clientPortAddress: '127.0.0.1',
    maxClientCnxns: 0,
    'admin.enableServer': false,
    '4lw.commands.whitelist': 'srvr',
  };
  const file = join(folder.path, 'zoo.cfg');
  await writeFile(
    file,
    Object.entries(settings)
      .map(([name, value]) => `${name}=${value}\n`)
      .join(''),
  );
  let version = '';
  const main = 'org.apache.zookeeper.server.quorum.QuorumPeerMain';
  const server = await startServer(java.file, ['-cp', jar, main, file], async () => {
    version = versionIn(await ask(port, 'srvr'));
  });
  const host = `127.0.0.1:${port}`;
  const client = await connectZookeeper(host, 30_000);
  const made = new Map<string, Promise<unknown>>();
  return {
    id: 'zookeeper',
    name: `ZooKeeper ${version}`,
    durability: 'One server, so nothing is replicated; its log is synced to disk before a write is acknowledged.',
    host,
    singleWrite: async (key) => {
      const path = `/raw/${key}`;
      if (!made.has(path)) made.set(path, client.makePath(path));
      await made.get(path);
      await client.setData(path, '1');
    },
    stop: async () => {
      client.close();
      await server.stop();
      await folder[Symbol.asyncDispose]();
    },
  };
}
