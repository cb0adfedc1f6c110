import { type Contestant, dieAfter, type Holding, pollMs, type Terms } from '../contestant.ts';
import { loadPeer } from '../peers.ts';
import { type DynamoDBAddress, deliveryheroTable } from '../stores/dynamodb.ts';

type Operation = (params: object) => Promise<unknown>;

/** The methods of AWS's document client that the package calls. */
interface DocumentClient {
  readonly get: Operation;
  readonly put: Operation;
  readonly update: Operation;
  readonly delete: Operation;
}

interface LockClient {
  lock(group: string, id: string, options: object): Promise<object>;
  releaseLock(lock: object): Promise<void>;
}

interface LockModule {
  dynamoDBLockClientFactory(client: DocumentClient, table: object): LockClient;
}

/** A client that sends nothing after its waiter has left. There is no other way to stop a waiter. */
function untilLeft(client: DocumentClient, hasLeft: () => boolean): DocumentClient {
  const guard =
    (operation: keyof DocumentClient): Operation =>
    async (params) => {
      if (hasLeft()) throw new Error('The waiter has left.');
      return client[operation](params);
    };
  return { get: guard('get'), put: guard('put'), update: guard('update'), delete: guard('delete') };
}

/** Reads the item, and puts one if there is none. A waiter that relies on its clock reads again after a pause that it chooses. */
export function deliveryhero(address: DynamoDBAddress): Contestant {
  const { DynamoDBClient } = loadPeer<{ DynamoDBClient: new (options: object) => { destroy(): void } }>(
    '@aws-sdk/client-dynamodb',
  );
  const { DynamoDBDocument } = loadPeer<{ DynamoDBDocument: { from(client: object): DocumentClient } }>(
    '@aws-sdk/lib-dynamodb',
  );
  const { dynamoDBLockClientFactory } = loadPeer<LockModule>('@deliveryhero/dynamodb-lock');
  const raw = new DynamoDBClient({ ...address, requestHandler: { httpAgent: { maxSockets: 256 } } });
  const client = DynamoDBDocument.from(raw);
  const table = {
    tableName: deliveryheroTable.name,
    partitionKey: deliveryheroTable.partitionKey,
    sortKey: deliveryheroTable.sortKey,
  };
  const acquire = async (
    own: DocumentClient,
    name: string,
    { leaseMs, renew }: Terms,
    more: object = {},
  ): Promise<Holding> => {
    const locks = dynamoDBLockClientFactory(own, table);
    const lock = await locks.lock('bench', name, {
      leaseDurationInMs: leaseMs,
      prolongLeaseEnabled: renew,
      prolongEveryMs: Math.floor(leaseMs / 3),
      trustLocalTime: true,
      waitDurationInMs: pollMs,
      ...more,
    });
    return { release: () => locks.releaseLock(lock) };
  };
  return {
    id: 'deliveryhero',
    name: '@deliveryhero/dynamodb-lock',
    store: 'dynamodb',
    ours: false,
    waitsQuietly: false,
    how: `With a lease and trustLocalTime. Waiters read every ${pollMs} ms.`,
    // Read, put, and a delete to release.
    requestsMin: 3,
    take: (name, terms) => acquire(client, name, terms),
    attempt: (name, terms) =>
      acquire(client, name, terms, { maxRetryCount: 0 }).then(
        () => true,
        () => false,
      ),
    join: (name, terms) => {
      let left = false;
      const granted = acquire(
        untilLeft(client, () => left),
        name,
        terms,
      );
      granted.catch(() => undefined);
      return {
        granted,
        leave: async () => {
          left = true;
        },
      };
    },
    crash: {
      leaseMs: 1_000,
      holdAndDie: (name) => dieAfter(() => acquire(client, name, { leaseMs: 1_000, renew: false })),
    },
    stop: async () => raw.destroy(),
  };
}
