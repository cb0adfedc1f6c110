import { Agent } from 'node:http';
import { promisify } from 'node:util';
import { type Contestant, dieAfter, type Holding, type Place, pollMs, type Terms } from '../contestant.ts';
import { loadPeer } from '../peers.ts';
import { type DynamoDBAddress, lockClientTable } from '../stores/dynamodb.ts';

type Callback = (error: Error | null, result?: unknown) => void;
type Operation = (params: object, callback: Callback) => unknown;

/** The methods of the document client of AWS's SDK, version 2, that the package uses. */
interface DocumentClient {
  readonly get: Operation;
  readonly put: Operation;
  readonly delete: Operation;
}

interface Lock {
  release(callback: (error?: Error | null) => void): void;
  on(event: 'error', listener: (error: Error) => void): void;
}

interface LockClient {
  acquireLock(id: string, callback: (error: Error | null, lock: Lock) => void): void;
}

interface LockClientModule {
  readonly FailOpen: new (config: object) => LockClient;
  readonly FailClosed: new (config: object) => LockClient;
}

interface AwsModule {
  readonly DynamoDB: { readonly DocumentClient: new (options: object) => DocumentClient };
}

/** More tries than any cell needs. By default it gives up after one. */
const retryCount = 1_000_000;

/** A client that sends nothing after its waiter has left. There is no other way to stop a waiter of this package. */
function untilLeft(client: DocumentClient, hasLeft: () => boolean): DocumentClient {
  const guard =
    (operation: 'get' | 'put' | 'delete'): Operation =>
    (params, callback) =>
      hasLeft() ? callback(new Error('The waiter has left.')) : client[operation](params, callback);
  return { get: guard('get'), put: guard('put'), delete: guard('delete') };
}

const released = (lock: Lock): Holding => ({ release: () => promisify(lock.release.bind(lock))() });

function connect({ endpoint, region, credentials }: DynamoDBAddress): DocumentClient {
  // Version 2 of the SDK is no longer maintained and says so at each start.
  process.env.AWS_SDK_JS_SUPPRESS_MAINTENANCE_MODE_MESSAGE = '1';
  const { DynamoDB } = loadPeer<AwsModule>('aws-sdk');
  // By default it opens a connection for every request, which would not be a fair comparison.
  const httpOptions = { agent: new Agent({ keepAlive: true, maxSockets: 256 }) };
  return new DynamoDB.DocumentClient({ endpoint, region, ...credentials, httpOptions });
}

type Configure = (dynamodb: DocumentClient, terms: Terms, tries: number) => LockClient;

/** Both kinds share a table. After a release of one kind, the other kind would see the lock as held. So each has its own names. */
function contestantOf(client: DocumentClient, kind: 'open' | 'closed', configure: Configure) {
  const acquire = async (locks: LockClient, name: string): Promise<Holding> => {
    const lock = await new Promise<Lock>((resolve, reject) => {
      locks.acquireLock(`${kind}/${name}`, (error, granted) => (error ? reject(error) : resolve(granted)));
    });
    // Without a listener, a heartbeat that fails would end the process.
    lock.on('error', () => {});
    return released(lock);
  };
  return {
    store: 'dynamodb' as const,
    ours: false,
    waitsQuietly: false,
    take: (name: string, terms: Terms) => acquire(configure(client, terms, 0), name),
    attempt: (name: string, terms: Terms) =>
      acquire(configure(client, terms, 0), name).then(
        () => true,
        () => false,
      ),
    join: (name: string, terms: Terms): Place => {
      let left = false;
      const own = untilLeft(client, () => left);
      const granted = acquire(configure(own, terms, retryCount), name);
      granted.catch(() => undefined);
      return {
        granted,
        leave: async () => {
          left = true;
        },
      };
    },
    stop: async () => {},
  };
}

const table = { lockTable: lockClientTable.name, partitionKey: lockClientTable.partitionKey };

/** With a lease. A waiter reads, sleeps until the lease that it saw should be over, and tries to take it over. */
export function lockClientFailOpen(address: DynamoDBAddress): Contestant {
  const { FailOpen } = loadPeer<LockClientModule>('dynamodb-lock-client');
  const client = connect(address);
  const configure: Configure = (dynamodb, { leaseMs, renew }, tries) =>
    new FailOpen({
      dynamodb,
      ...table,
      leaseDurationMs: leaseMs,
      trustLocalTime: true,
      retryCount: tries,
      ...(renew ? { heartbeatPeriodMs: Math.floor(leaseMs / 3) } : {}),
    });
  const contestant = contestantOf(client, 'open', configure);
  return {
    ...contestant,
    id: 'lock-client-open',
    name: 'dynamodb-lock-client, FailOpen',
    how: 'With a lease and trustLocalTime. A waiter sleeps for the rest of the lease that it saw: leases of 1 s where it waits.',
    // Read and put, and a put to release.
    requestsMin: 3,
    contendedLeaseMs: 1_000,
    crash: {
      leaseMs: 1_000,
      holdAndDie: (name) => dieAfter(() => contestant.take(name, { leaseMs: 1_000, renew: false })),
    },
  };
}

/** Without a lease. A crashed holder holds for ever, and waiters only try to put. */
export function lockClientFailClosed(address: DynamoDBAddress): Contestant {
  const { FailClosed } = loadPeer<LockClientModule>('dynamodb-lock-client');
  const configure: Configure = (dynamodb, _terms, tries) =>
    new FailClosed({ dynamodb, ...table, acquirePeriodMs: pollMs, retryCount: tries });
  return {
    ...contestantOf(connect(address), 'closed', configure),
    id: 'lock-client-closed',
    name: 'dynamodb-lock-client, FailClosed',
    how: `Without a lease: a crash holds for ever. Waiters try every ${pollMs} ms.`,
    requestsMin: 2,
  };
}
