import { type Contestant, dieAfter, type Holding, pollFor, pollMs, type Terms } from '../contestant.ts';
import { loadPeer } from '../peers.ts';
import type { EtcdClient, EtcdLease, EtcdStore } from '../stores/etcd.ts';

/** etcd raises a lease to at least one and a half of its election timeouts, in whole seconds: 2 s. */
const leaseMsMin = 2_000;
const secondsOf = ({ leaseMs }: Pick<Terms, 'leaseMs'>) => Math.ceil(leaseMs / 1_000);

/**
 * A waiter watches the key of the one before it. If that key changed in the meantime, etcd catches up with it only every 100 ms. With two
 * waiting, a waiter is next right after it joined, and most of its hand-off would be that pause. It is no part of a hand-off to a waiter that has
 * waited for a while.
 */
const watchSyncMs = 150;

/** The lock of the package etcd3: each lock has its own lease, and there is one try without a wait. */
export function etcd3Lock(store: EtcdStore): Contestant {
  const client: EtcdClient = store.connect();
  const take = async (name: string, terms: Terms): Promise<Holding> =>
    client.lock(name).ttl(secondsOf(terms)).acquire();
  const ask = (name: string, terms: Terms) =>
    take(name, terms).catch((error: Error) => {
      if (error.name === 'EtcdLockFailedError' || /Failed to acquire a lock/.test(error.message)) return undefined;
      throw error;
    });
  return {
    id: 'etcd3-lock',
    name: 'etcd3 lock()',
    store: 'etcd',
    ours: false,
    waitsQuietly: false,
    how: `A lease for each lock. It does not wait, so waiters try every ${pollMs} ms.`,
    // Lease, transaction, and the lease's end.
    requestsMin: 3,
    take,
    attempt: async (name, terms) => (await ask(name, terms)) !== undefined,
    join: (name, terms) => pollFor(() => ask(name, terms)),
    requests: store.requests,
    crash: {
      leaseMs: leaseMsMin,
      holdAndDie: (name) =>
        dieAfter(async () => {
          const lock = await client
            .lock(name)
            .ttl(secondsOf({ leaseMs: leaseMsMin }))
            .acquire();
          lock.lease?.release();
        }),
    },
    stop: async () => client.close(),
  };
}

interface LockService {
  Lock(request: object, callback: (error: Error | null, answer: { key: Buffer }) => void): unknown;
  Unlock(request: object, callback: (error: Error | null) => void): unknown;
  close(): void;
}

interface GrpcModule {
  loadPackageDefinition(definition: object): {
    v3lockpb: { Lock: new (host: string, credentials: object) => LockService };
  };
  readonly credentials: { createInsecure(): object };
}

const field = (type: string, id: number) => ({ type, id });

/** The protocol of etcd's lock service, which the package etcd3 does not have. Fields that are not used here are left out. */
const lockProtocol = {
  nested: {
    v3lockpb: {
      nested: {
        LockRequest: { fields: { name: field('bytes', 1), lease: field('int64', 2) } },
        LockResponse: { fields: { key: field('bytes', 2) } },
        UnlockRequest: { fields: { key: field('bytes', 1) } },
        UnlockResponse: { fields: {} },
        Lock: {
          methods: {
            Lock: { requestType: 'LockRequest', responseType: 'LockResponse' },
            Unlock: { requestType: 'UnlockRequest', responseType: 'UnlockResponse' },
          },
        },
      },
    },
  },
};

/** The lock service inside etcd. The server itself has a queue, by revision, and answers when the caller is granted. */
export function etcdLockService(store: EtcdStore): Contestant {
  const grpc = loadPeer<GrpcModule>('@grpc/grpc-js');
  const { fromJSON } = loadPeer<{ fromJSON(json: object, options: object): object }>('@grpc/proto-loader');
  const { v3lockpb } = grpc.loadPackageDefinition(fromJSON(lockProtocol, { longs: String, keepCase: true }));
  const service = new v3lockpb.Lock(store.host, grpc.credentials.createInsecure());
  const client = store.connect();
  // For etcd the lease is the caller's identity. Each waiter has one, made once and kept alive in the background, like the sessions of etcd's clients.
  const idle: string[] = [];
  const sessions: EtcdLease[] = [];
  let requests = 0;
  const borrow = async (): Promise<string> => {
    const known = idle.pop();
    if (known !== undefined) return known;
    const session = client.lease(60);
    sessions.push(session);
    return session.grant();
  };

  const unlock = (key: Buffer) =>
    new Promise<void>((resolve, reject) => {
      requests += 1;
      service.Unlock({ key }, (error) => (error ? reject(error) : resolve()));
    });
  const lock = async (name: string, lease: Promise<string>): Promise<Holding> => {
    const id = await lease;
    requests += 1;
    const { key } = await new Promise<{ key: Buffer }>((resolve, reject) => {
      service.Lock({ name: Buffer.from(name), lease: id }, (error, answer) =>
        error ? reject(error) : resolve(answer),
      );
    });
    return {
      release: async () => {
        await unlock(key);
        idle.push(id);
      },
    };
  };
  return {
    id: 'etcd-lock-service',
    name: 'etcd lock service',
    store: 'etcd',
    ours: false,
    waitsQuietly: true,
    how: "etcd's own Lock over gRPC, under one lease per client. The server queues and answers when it is one's turn.",
    requestsMin: 2,
    settleMs: watchSyncMs,
    take: (name) => lock(name, borrow()),
    join: (name) => {
      const granted = lock(name, borrow());
      // This version of etcd keeps cancelled calls, and after some hundreds of them its watches stall. So nobody leaves before its grant.
      return { granted, leave: async () => (await granted).release() };
    },
    // The holder has a key there too.
    queued: async (name) => Math.max(0, (await client.getAll().prefix(`${name}/`).count()) - 1),
    requests: () => requests,
    crash: {
      leaseMs: leaseMsMin,
      holdAndDie: (name) =>
        dieAfter(async () => {
          const lease = client.lease(secondsOf({ leaseMs: leaseMsMin }), { autoKeepAlive: false });
          await lock(name, lease.grant());
        }),
    },
    stop: async () => {
      await Promise.allSettled(sessions.map((session) => session.revoke()));
      service.close();
      client.close();
    },
  };
}
