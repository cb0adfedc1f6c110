import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { freePort } from '../../../src/local/engine/endpoint.ts';
import type { Store } from '../contestant.ts';
import { loadPeer } from '../peers.ts';
import { NotInstalled, requireProgram, run, startServer, temporaryFolder } from '../server-process.ts';

/** The part of pg that is used here. */
export interface PostgresClient {
  connect(): Promise<void>;
  query<Row>(text: string, values?: readonly unknown[]): Promise<{ rows: Row[] }>;
  end(): Promise<void>;
  on(event: 'error', listener: (error: Error) => void): unknown;
  /** The server's process behind the connection. */
  readonly processID: number;
  /** Used to cut the connection. */
  readonly connection: { readonly stream: { destroy(): void } };
}

export interface PostgresStore extends Store {
  connect(): Promise<PostgresClient>;
}

/** One connection for each of 200 waiters and their holder, 64 for raw writes, and some to spare. */
const connectionsMax = 300;

/** The server refuses to run as root, and Debian has a user for it. */
async function servant(): Promise<{ uid: number; gid: number; prefix: string[] } | undefined> {
  if (process.getuid?.() !== 0) return undefined;
  try {
    const [uid, gid] = await Promise.all(
      ['-u', '-g'].map(async (which) => Number((await run('id', [which, 'postgres'])).stdout)),
    );
    if (uid === undefined || gid === undefined) return undefined;
    const setpriv = requireProgram('setpriv');
    return { uid, gid, prefix: [setpriv, `--reuid=${uid}`, `--regid=${gid}`, '--clear-groups', '--'] };
  } catch {
    throw new NotInstalled('postgresql is not installed: there is no user to run it as');
  }
}

/** Debian has a separate folder for each version's programs. The newest is used. */
async function programFolders(): Promise<string[]> {
  const base = '/usr/lib/postgresql';
  const versions = await readdir(base).catch(() => []);
  return versions.sort((one, other) => Number(other) - Number(one)).map((version) => join(base, version, 'bin'));
}

export async function startPostgres(): Promise<PostgresStore> {
  const folders = await programFolders();
  const [initdb, postgres] = [requireProgram('initdb', folders), requireProgram('postgres', folders)];
  const { Client } = loadPeer<{ Client: new (options: object) => PostgresClient }>('pg');
  const user = await servant();
  const folder = await temporaryFolder(user);
  const port = await freePort();
  const [setupFile = initdb, ...setupArgs] = [...(user?.prefix ?? []), initdb];
  await run(setupFile, [...setupArgs, '-D', folder.path, '-U', 'bench', '-A', 'trust', '--no-sync']);
  const settings = {
    listen_addresses: '127.0.0.1',
    unix_socket_directories: '',
    max_connections: connectionsMax,
    fsync: 'on',
    synchronous_commit: 'on',
  };
  const flags = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  const connect = async () => {
    const client = new Client({ host: '127.0.0.1', port, user: 'bench', database: 'postgres' });
    // A connection that was cut on purpose reports an error here. A query that fails reports it to its caller.
    client.on('error', () => {});
    await client.connect();
    return client;
  };
  const [file = postgres, ...args] = [...(user?.prefix ?? []), postgres];
  const server = await startServer(file, [...args, '-D', folder.path, '-p', String(port), ...flags], async () => {
    await (await connect()).end();
  });
  const setup = await connect();
  await setup.query('CREATE TABLE raw (key text PRIMARY KEY, n integer NOT NULL)');
  const { rows } = await setup.query<{ server_version: string }>('SHOW server_version');
  await setup.end();
  // One connection answers one query at a time, so there are as many as clients at once.
  const idle: PostgresClient[] = [];
  const upsert = 'INSERT INTO raw VALUES ($1, 1) ON CONFLICT (key) DO UPDATE SET n = raw.n + 1';
  return {
    id: 'postgres',
    name: `PostgreSQL ${rows[0]?.server_version.split(' ')[0] ?? ''}`,
    durability:
      'One server; a commit is synced to disk before it is acknowledged. Advisory locks are kept in memory and write nothing.',
    connect,
    singleWrite: async (key) => {
      const client = idle.pop() ?? (await connect());
      await client.query(upsert, [key]);
      idle.push(client);
    },
    stop: async () => {
      await Promise.allSettled(idle.map((client) => client.end()));
      await server.stop();
      await folder[Symbol.asyncDispose]();
    },
  };
}
