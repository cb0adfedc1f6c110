import { freePort } from '../../../src/local/engine/endpoint.ts';
import type { Store } from '../contestant.ts';
import { loadPeer } from '../peers.ts';
import { requireProgram, run, startServer, temporaryFolder } from '../server-process.ts';

/** The part of ioredis that is used here. */
export interface RedisClient {
  set(key: string, value: string, ...options: (string | number)[]): Promise<string | null>;
  eval(script: string, keys: number, ...args: (string | number)[]): Promise<unknown>;
  evalsha(sha: string, keys: number, ...args: (string | number)[]): Promise<unknown>;
  script(command: 'LOAD', script: string): Promise<unknown>;
  ping(): Promise<unknown>;
  disconnect(): void;
  on(event: 'error', listener: (error: Error) => void): unknown;
}

export interface RedisStore extends Store {
  connect(): RedisClient;
}

export async function startRedis(): Promise<RedisStore> {
  const file = requireProgram('redis-server');
  const { Redis } = loadPeer<{ Redis: new (port: number, host: string) => RedisClient }>('ioredis');
  const { stdout } = await run(file, ['--version']);
  const folder = await temporaryFolder();
  const port = await freePort();
  const address = ['--port', String(port), '--bind', '127.0.0.1', '--dir', folder.path];
  const durability = ['--appendonly', 'yes', '--appendfsync', 'everysec', '--save', ''];
  const connect = () => {
    const client = new Redis(port, '127.0.0.1');
    // It reconnects by itself. A failed command reports the error to its caller.
    client.on('error', () => {});
    return client;
  };
  let client: RedisClient | undefined;
  const server = await startServer(file, [...address, ...durability], async () => {
    client ??= connect();
    await client.ping();
  });
  return {
    id: 'redis',
    name: `Redis ${/v=(\S+)/.exec(stdout)?.[1] ?? ''}`,
    durability:
      'One node. Append-only file synced once a second: a crash of the machine loses up to a second of acknowledged writes.',
    connect,
    singleWrite: async (key) => (client ?? connect()).set(`raw/${key}`, '1'),
    stop: async () => {
      client?.disconnect();
      await server.stop();
      await folder[Symbol.asyncDispose]();
    },
  };
}
