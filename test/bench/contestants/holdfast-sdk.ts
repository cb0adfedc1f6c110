import { Holdfast } from '../../../src/client/holdfast.ts';
import { createDirect } from '../../../src/server/direct.ts';
import { type Contestant, dieAfter, type Terms } from '../contestant.ts';
import { type DynamoDBAddress, ownTables } from '../stores/dynamodb.ts';

const waitMs = 600_000;
const namespace = 'bench';

type Own = Pick<Contestant, 'table' | 'id' | 'name' | 'how' | 'requestsMin' | 'waitsQuietly'>;

/** `others`: clients that share no memory with the first one. Each waiter always uses the same client. */
function throughClient(locks: Holdfast, own: Own, others: readonly Holdfast[] = []): Contestant {
  const clients = [locks, ...others];
  const lease = ({ leaseMs, renew }: Terms) => ({ leaseMs, autoRenew: renew });
  return {
    ...own,
    store: 'dynamodb',
    ours: true,
    take: (name, terms) => locks.acquire(name, { ...lease(terms), waitMs: 0 }),
    attempt: async (name, terms) => (await locks.tryAcquire(name, lease(terms))).ok,
    join: (name, terms, who) => {
      const leaving = new AbortController();
      const client = clients[who % clients.length] as Holdfast;
      const granted = client.acquire(name, { ...lease(terms), waitMs, signal: leaving.signal });
      return {
        granted,
        leave: async () => {
          leaving.abort();
          // If it was granted at the moment of leaving, it releases. If not, the client gives up the place by itself.
          await granted.then(
            (lock) => lock.release(),
            () => undefined,
          );
        },
      };
    },
    takeAll: (names, terms) => locks.acquireAll([...names], { ...lease(terms), waitMs: 0 }),
    queued: async (name) => (await locks.inspect(name)).queueDepth,
    crash: {
      leaseMs: 1_000,
      holdAndDie: (name) => dieAfter(() => locks.acquire(name, { leaseMs: 1_000, autoRenew: false })),
    },
    stop: async () => {
      await Promise.all(clients.map((client) => client.close()));
    },
  };
}

/** The SDK over HTTP. It shows what the client itself adds to the cost of the service. */
export const holdfastSdk = (url: string): Contestant =>
  throughClient(new Holdfast({ url, namespace }), {
    id: 'holdfast-sdk',
    table: ownTables.http,
    name: 'Holdfast, SDK over HTTP',
    how: 'The same service through the SDK, which uses fetch.',
    requestsMin: 2,
    waitsQuietly: true,
  });

/**
 * A waiter in the process of the holder hears of a release at once. So most waiters must be in other processes than the holder. Up to this
 * many waiters, each has a process of its own.
 */
const directProcesses = 20;

/** Direct mode: the SDK straight on the table, without a service. */
export function holdfastDirect(address: DynamoDBAddress, tableName: string): Contestant {
  const newClient = () => createDirect({ ...address, tableName, namespace });
  const own: Own = {
    id: 'holdfast-direct',
    table: tableName,
    name: 'Holdfast, direct',
    how: `The SDK straight on the table. Waiters are spread over ${directProcesses} clients, which share nothing, as in ${directProcesses} processes. Each client looks for its waiters, the next one's every 15 to 50 ms.`,
    // The place in the queue, the look that finds the grant, the release.
    requestsMin: 3,
    waitsQuietly: false,
  };
  return throughClient(newClient(), own, Array.from({ length: directProcesses - 1 }, newClient));
}
