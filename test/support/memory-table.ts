/** Every store on the built-in engine, in the memory of a test. */
import type { Change } from '../../src/engine/change-stream.ts';
import { MemoryEngine, type Usage } from '../../src/engine/engine.ts';
import { LockStore } from '../../src/queue/lock-store.ts';
import { PageStore } from '../../src/queue/page-store.ts';
import { HistoryStore } from '../../src/store/history.ts';
import { AwaitedLocks, DeliveryStore, TimerNotes } from '../../src/store/notices.ts';
import { RecordStore } from '../../src/store/records.ts';
import { SessionStore } from '../../src/store/session-store.ts';
import { SocketStore } from '../../src/store/sockets.ts';
import { WatcherStore } from '../../src/store/watchers.ts';
import { BuiltInTable } from '../../src/table/built-in.ts';
import type { TableAccess } from '../../src/table/item-table.ts';
import type { StoredItem, StoredValue } from '../../src/table/json.ts';
import type { TableAnswers, TableOperation, TablePort, TableRequests } from '../../src/table/port.ts';
import { tableDefinition } from '../../src/table/shape.ts';
import type { Clock } from '../../src/time/clock.ts';
import type { Timers } from '../../src/time/timers.ts';

const tableName = 'table';

export interface MemoryTableOptions {
  readonly clock?: Clock;
  readonly timers?: Timers;
  readonly random?: () => number;
  readonly onChange?: (change: Change) => void;
  readonly onUsage?: (usage: Usage) => void;
  /** Called before each request. If it returns a promise, the request waits for it. If it throws, the request fails. */
  readonly before?: (operation: TableOperation, request: TableRequests[TableOperation]) => unknown;
}

export type MemoryStores = ReturnType<typeof memoryStores>;

/** The stores of one new table. */
export function memoryStores(options: MemoryTableOptions = {}) {
  const { clock, timers, random, onChange, onUsage } = options;
  const engine = new MemoryEngine({
    ...(clock && { now: () => clock.now() }),
    ...(onChange && { onChange }),
    ...(onUsage && { onUsage }),
  });
  engine.call('CreateTable', tableDefinition(tableName));
  const bare = new BuiltInTable(engine);
  const table = new WatchedTable(bare, options.before);
  const parts = { tableName, clock, timers, random };
  // `elsewhere` are the stores of another process on the same table. Its requests are neither noted nor meddled with.
  return { engine, table, ...storesOn({ ...parts, table }), elsewhere: storesOn({ ...parts, table: bare }) };
}

/** The stores on a table. */
export const storesOn = (access: TableAccess) => ({
  access,
  store: new LockStore(access),
  pages: new PageStore(access),
  sessionStore: new SessionStore(access),
  records: new RecordStore(access),
  history: new HistoryStore(access),
  sockets: new SocketStore(access),
  watchers: new WatcherStore(access),
  deliveries: new DeliveryStore(access),
  timerNotes: new TimerNotes(access),
  awaited: new AwaitedLocks(access),
});

/** What happens to a request. `send` sends it, and may be called more than once. `refuse` fails it like a condition that does not hold. */
type Handling = (send: () => Promise<unknown>, refuse: () => Promise<never>) => Promise<unknown>;

interface Meddling {
  readonly name: RequestName;
  readonly how: Handling;
  left: number;
}

/** No test sends as many. So a loop without an end is a failure, and not a test that hangs. */
const requestsMax = 100_000;

/** A table that notes each request, and lets a test hold it up, fail it, or let another writer come in between. */
export class WatchedTable implements TablePort {
  readonly requests: { readonly operation: TableOperation; readonly request: TableRequests[TableOperation] }[] = [];
  before: MemoryTableOptions['before'];
  readonly #inner: TablePort;
  readonly #meddlings: Meddling[] = [];
  #taken = 0;

  constructor(inner: TablePort, before?: MemoryTableOptions['before']) {
    this.#inner = inner;
    this.before = before;
  }

  async call<Operation extends TableOperation>(
    operation: Operation,
    request: TableRequests[Operation],
  ): Promise<TableAnswers[Operation]> {
    if (this.requests.push({ operation, request }) > requestsMax)
      throw new Error('This test sends requests without end.');
    await this.before?.(operation, request);
    const name = requestName(operation, request);
    const meddling = this.#meddlings.find((one) => one.name === name && one.left > 0);
    const send = () => this.#inner.call(operation, request);
    if (meddling === undefined) return send();
    meddling.left -= 1;
    return meddling.how(send, () => this.#refuse(request)) as ReturnType<typeof send>;
  }

  async #refuse(request: TableRequests[TableOperation]): Promise<never> {
    if ('TransactItems' in request) {
      const CancellationReasons = request.TransactItems.map(() => ({ Code: 'ConditionalCheckFailed' }));
      throw Object.assign(new Error('A condition does not hold.'), {
        name: 'TransactionCanceledException',
        CancellationReasons,
      });
    }
    const { TableName, Key, Item } = request as TableRequests['UpdateItem'] & Partial<TableRequests['PutItem']>;
    const { pk, sk } = (Key ?? Item) as { pk: StoredValue; sk: StoredValue };
    const found = await this.#inner.call('GetItem', { TableName, Key: { pk, sk }, ConsistentRead: true });
    throw Object.assign(new Error('The condition does not hold.'), {
      name: 'ConditionalCheckFailedException',
      ...found,
    });
  }

  /** The names of the requests since the last time. */
  take(): RequestName[] {
    const sent = this.requests.slice(this.#taken).map(({ operation, request }) => requestName(operation, request));
    this.#taken = this.requests.length;
    return sent;
  }

  /** Handles requests of this name in another way: the next ones, or all of them. The latest call for a name counts. */
  meddle(name: RequestName, how: Handling, times = Number.POSITIVE_INFINITY): void {
    this.#meddlings.unshift({ name, how, left: times });
  }

  /** Requests of this name arrive as usual again. */
  restore(name: RequestName): void {
    for (const meddling of this.#meddlings) if (meddling.name === name) meddling.left = 0;
  }

  /** Does something before the next request of this name arrives, as another writer may. */
  beforeNext(name: RequestName, work: () => unknown): void {
    this.meddle(name, afterWork(work), 1);
  }
}

/** The request arrives after something else has happened. */
export const afterWork =
  (work: () => unknown): Handling =>
  async (send) => {
    await work();
    return send();
  };

/** Something else happens between the request and its answer. */
export const thenDo =
  (work: () => unknown): Handling =>
  async (send) => {
    const answer = await send();
    await work();
    return answer;
  };

/** The write is refused, as if another writer had changed the item and changed it back. */
export const refused: Handling = (_send, refuse) => refuse();

/** The request takes effect, but its answer is lost. So the client sends it again, and says so. */
export const answerLost: Handling = async (send) => {
  await send().catch(() => undefined);
  try {
    return await send();
  } catch (error) {
    throw Object.assign(error as Error, { $metadata: { attempts: 2 } });
  }
};

/** The request fails with an error of this name, and takes no effect. */
const failing =
  (name: string): Handling =>
  () =>
    Promise.reject(Object.assign(new Error('The table failed.'), { name }));

export const throttled: Handling = failing('ThrottlingException');
export const outOfReach: Handling = failing('TimeoutError');

/** The request never gets an answer. */
export const unanswered: Handling = () => new Promise(() => {});

export type RequestName = string;

/** The writes of the queue, by a part of their expressions. The first one that is found counts. */
const lockUpdates = [
  ['open-page', '#lastPage = :last'],
  ['move-up', '#firstPage = :to'],
  ['arrive', '#front = list_append'],
  ['attend', '= :until'],
  ['leave', ':queuedAt'],
  ['forget awaited', 'REMOVE #awaitedPartition'],
  ['grant', '#listingPartition = :listingPartition'],
  ['release', '#ending0 = :lease'],
  ['renew', ''],
] as const;
const sessionUpdates = [
  ['note wait of session', '#wait = :leaseId'],
  ['forget wait of session', 'REMOVE #wait'],
  ['expire session', ':expiredBy'],
  ['end session', '#endedAt = :now'],
  ['keep session alive', ''],
] as const;
const pageUpdates = [
  ['join page', 'list_append'],
  ['close page', '#closedAt = '],
  ['leave page', '#presence = :left'],
  ['step away in page', '#presence > :until'],
  ['attend in page', ''],
] as const;

/**
 * What a request does, in the words of the queue: `read` and `peek` read a lock, `grant`, `renew` and `release` are the common cases in
 * one write, and `replace` is a compare-and-swap. Items of other stores are named by their kind, such as `GetItem connection`.
 */
export function requestName(operation: TableOperation, request: TableRequests[TableOperation]): RequestName {
  const { UpdateExpression = '', ConditionExpression = '', ...rest } = request as Partial<TableRequests['UpdateItem']>;
  const { Item, ConsistentRead, RequestItems } = rest as Partial<
    TableRequests['PutItem'] & TableRequests['GetItem'] & TableRequests['BatchGetItem']
  >;
  const keys = RequestItems === undefined ? [] : Object.values(RequestItems).flatMap(({ Keys }) => Keys ?? []);
  const key = rest.Key ?? Item ?? keys[0];
  const [kind] = textOf(key, 'sk')?.split('/') ?? [];
  const among = (names: readonly (readonly [string, string])[]) =>
    names.find(([, part]) => `${UpdateExpression} ${ConditionExpression}`.includes(part))?.[0] as string;
  switch (`${operation} ${kind}`) {
    case 'GetItem lock':
      return ConsistentRead ? 'read' : 'peek';
    case 'BatchGetItem lock':
      return 'read many';
    case 'BatchGetItem page':
      return 'read pages';
    case 'PutItem lock':
      return 'replace';
    case 'UpdateItem lock':
      return among(lockUpdates);
    case 'UpdateItem page':
      return among(pageUpdates);
    case 'UpdateItem session':
      return among(sessionUpdates);
    case 'TransactWriteItems undefined':
      return 'write together';
    default:
      if (kind === undefined) return operation;
      return textOf(key, 'pk')?.includes('/waits/') ? `${operation} parked wait` : `${operation} ${kind}`;
  }
}

const textOf = (item: StoredItem | undefined, name: string): string | undefined =>
  item?.[name] !== undefined && 'S' in item[name] ? item[name].S : undefined;

/** The name of the lock that a request writes or reads. */
export const lockIn = (request: TableRequests[TableOperation]): string | undefined =>
  textOf('Key' in request ? request.Key : 'Item' in request ? request.Item : undefined, 'pk')
    ?.split('/')
    .at(-1);
