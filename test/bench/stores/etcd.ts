import { freePort } from '../../../src/local/engine/endpoint.ts';
import type { Store } from '../contestant.ts';
import { loadPeer } from '../peers.ts';
import { requireProgram, run, startServer, temporaryFolder } from '../server-process.ts';

export interface EtcdLease {
  grant(): Promise<string>;
  revoke(): Promise<void>;
  /** Stops keeping it alive, without a message to the server. */
  release(): void;
}

export interface EtcdLock {
  ttl(seconds: number): EtcdLock;
  acquire(): Promise<EtcdLock>;
  release(): Promise<void>;
  /** Private in its types, but there is no other way to simulate a dead holder. */
  lease?: EtcdLease;
}

/** The part of etcd3 that is used here. */
export interface EtcdClient {
  put(key: string): { value(value: string): Promise<unknown> };
  getAll(): { prefix(prefix: string): { count(): Promise<number> } };
  lock(name: string): EtcdLock;
  lease(ttlSeconds: number, options?: { autoKeepAlive: boolean }): EtcdLease;
  close(): void;
}

export interface EtcdStore extends Store {
  readonly host: string;
  connect(): EtcdClient;
  /** Messages received by the server since its start, by its own count. */
  requests(): Promise<number>;
}

export async function startEtcd(): Promise<EtcdStore> {
  const file = requireProgram('etcd');
  const { Etcd3 } = loadPeer<{ Etcd3: new (options: { hosts: string }) => EtcdClient }>('etcd3');
  const { stdout } = await run(file, ['--version']);
  const folder = await temporaryFolder();
  const [clientUrl, peerUrl] = [`http://127.0.0.1:${await freePort()}`, `http://127.0.0.1:${await freePort()}`];
  const args = [
    ['--name', 'bench'],
    ['--data-dir', folder.path],
    ['--listen-client-urls', clientUrl],
    ['--advertise-client-urls', clientUrl],
    ['--listen-peer-urls', peerUrl],
    ['--initial-advertise-peer-urls', peerUrl],
    ['--initial-cluster', `bench=${peerUrl}`],
    ['--logger', 'zap'],
    ['--log-level', 'error'],
    // Adds the counters per method to /metrics.
    ['--metrics', 'extensive'],
  ].flat();
  const server = await startServer(file, args, async () => {
    const { health } = (await (await fetch(`${clientUrl}/health`)).json()) as { health: string };
    if (health !== 'true') throw new Error('It has no leader yet.');
  });
  const connect = () => new Etcd3({ hosts: clientUrl });
  const client = connect();
  return {
    id: 'etcd',
    name: `etcd ${/etcd Version: (\S+)/.exec(stdout)?.[1] ?? ''}`,
    durability: 'One member, so nothing is replicated; its log is synced to disk before a write is acknowledged.',
    host: clientUrl.replace('http://', ''),
    connect,
    requests: async () => {
      const text = await (await fetch(`${clientUrl}/metrics`)).text();
      const received = [...text.matchAll(/^grpc_server_msg_received_total\{[^}]*\} (\S+)$/gm)];
      return received.reduce((sum, [, count]) => sum + Number(count), 0);
    },
    singleWrite: (key) => client.put(`raw/${key}`).value('1'),
    stop: async () => {
      client.close();
      await server.stop();
      await folder[Symbol.asyncDispose]();
    },
  };
}
