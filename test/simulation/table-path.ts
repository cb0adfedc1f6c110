/**
 * The way of one process to the table. It takes time, loses requests and answers, sends again as the SDK does, throttles, refuses,
 * leaves parts of batches undone, and shows old images where DynamoDB may.
 */

import { sessionWords } from '../../src/store/session-item.ts';
import { mayHaveTakenEffect } from '../../src/table/failures.ts';
import type { StoredItem } from '../../src/table/json.ts';
import type { TableAnswers, TableOperation, TablePort, TableRequests } from '../../src/table/port.ts';
import { defaultTableName } from '../../src/table/shape.ts';
import type { VirtualTime } from '../../src/testing/virtual-time.ts';
import type { Chance } from '../world/chance.ts';
import { type Cause, causeNow } from './cause.ts';
import type { Conditions } from './conditions.ts';
import type { Process } from './process.ts';
import type { Release } from './release.ts';
import type { Performed, WorldTable } from './table.ts';
import type { Verdicts } from './verdicts.ts';

/** The state of the table now, for all processes. */
export interface StoreWeather {
  outage: boolean;
  /** True if the event bus, tasks, connections and the queue of timers refuse every call. */
  outsideAway: boolean;
  calm: boolean;
}

/** Items that a transaction is writing now. */
export class Transactions {
  readonly #running = new Map<string, string>();

  /** The token of the transaction that is writing one of these items. */
  on(keys: readonly string[]): string | undefined {
    return keys.map((key) => this.#running.get(key)).find((token) => token !== undefined);
  }

  begin(keys: readonly string[], token: string): () => void {
    for (const key of keys) this.#running.set(key, token);
    return () => {
      for (const key of keys) this.#running.delete(key);
    };
  }
}

export interface PathParts {
  readonly time: VirtualTime;
  readonly chance: Chance;
  readonly process: Process;
  readonly table: WorldTable;
  readonly transactions: Transactions;
  readonly conditions: Conditions;
  readonly weather: StoreWeather;
  readonly verdicts: Verdicts;
  readonly release: Release;
}

type Request = TableRequests[TableOperation] & { readonly ClientRequestToken?: string };

/** How often the SDK sends a request in total. */
const attemptsMax = 3;
const writes: ReadonlySet<string> = new Set(['PutItem', 'UpdateItem', 'TransactWriteItems', 'BatchWriteItem']);
/** DynamoDB's names for a table that is too busy. */
const throttlings = ['ThrottlingException', 'ProvisionedThroughputExceededException', 'RequestLimitExceeded'] as const;

/** The parts of a request that are shown to others. */
interface Named {
  readonly Key?: StoredItem;
  readonly Item?: StoredItem;
  readonly TransactItems?: readonly object[];
  readonly ExpressionAttributeNames?: Readonly<Record<string, string>>;
}

/** Leases and sessions, and the least length of them. */
const secretLength = 20;
const secrets = /\b[LS]-[a-z]+\d+-\d{16}\b/;

const failure = (name: string, message: string, attempts: number, more: object = {}): Error =>
  Object.assign(new Error(message), { name, $metadata: { attempts }, ...more });

const noAnswer = (): Error =>
  failure('TimeoutError', 'The table did not answer.', attemptsMax, { [mayHaveTakenEffect]: true });

export class TablePath implements TablePort {
  readonly #parts: PathParts;
  #transactions = 0;

  constructor(parts: PathParts) {
    this.#parts = parts;
  }

  /** The request, the effect and the answer. The process may be gone at any of these points, and the table goes on. */
  call<Operation extends TableOperation>(
    operation: Operation,
    asked: TableRequests[Operation],
  ): Promise<TableAnswers[Operation]> {
    const { time, chance, process, conditions, weather, verdicts } = this.#parts;
    const cause = causeNow(process.name, time.now());
    const request = this.#asSent(operation, asked);
    this.#checkNames(request);
    const perform = (done: (performed: Performed) => void) => this.#perform(cause, operation, request, done);
    return new Promise((resolve, reject) => {
      const back = (run: () => void) => time.after(this.#legMs(), () => process.deliver(run));
      const fails = (error: Error) => back(() => reject(error));
      const answers = (performed: Performed, attempts: number) => {
        if ('error' in performed) {
          const uncertain = attempts > 1 ? { [mayHaveTakenEffect]: true } : {};
          fails(Object.assign(performed.error, { $metadata: { attempts }, ...uncertain }));
        } else
          back(() => {
            this.#noteDead(cause, request, performed.answer);
            resolve({ ...performed.answer, $metadata: { attempts } } as unknown as TableAnswers[Operation]);
          });
      };
      const arrive = (): void => {
        const fate = weather.calm ? 1 : chance.next();
        const { storeThrottles, storeFails, storeRepeats } = conditions;
        if (weather.outage) fails(noAnswer());
        else if (fate < storeThrottles) {
          // Sometimes an earlier try had its effect and no answer, and the last one is throttled.
          const isUncertain = chance.happens(0.1);
          verdicts.count(isUncertain ? 'table: unanswered, then throttled' : 'table: throttled');
          if (isUncertain) perform(() => {});
          fails(this.#throttled(operation, request, isUncertain));
        } else if (fate < storeThrottles + storeFails) {
          // Nobody knows whether it was done. It may be done later, or never.
          const kind = chance.between(0, 2);
          verdicts.count(`table: ${['unanswered', 'late', 'lost'][kind]}`);
          if (kind === 0) perform(() => {});
          if (kind === 1) time.after(chance.longTailed(500, 20_000), () => perform(() => {}));
          fails(noAnswer());
        } else if (fate < 1 - storeRepeats || weather.calm) perform((performed) => answers(performed, 1));
        else {
          // The answer was lost, so the SDK sends the request again. The caller sees the outcome of the second try.
          verdicts.count('table: sent again');
          perform(() => {});
          time.after(chance.longTailed(20, 500), () => perform((performed) => answers(performed, 2)));
        }
      };
      time.after(this.#legMs(), arrive);
    });
  }

  /** CloudTrail shows keys and the names of attributes, so no secret may be in them. */
  #checkNames(request: Request): void {
    const { Key: key, Item: item, TransactItems = [], ExpressionAttributeNames: names = {} } = request as Named;
    const { pk, sk } = key ?? item ?? {};
    const shown = [
      textOf(pk ?? { S: '' }),
      textOf(sk ?? { S: '' }),
      ...Object.values(names),
      ...Object.keys(item ?? {}),
    ];
    const named = shown.find((name) => name.length >= secretLength && secrets.test(name));
    if (named !== undefined) this.#parts.verdicts.breach('secrets', `${named} is a key, or the name of an attribute`);
    for (const one of TransactItems) for (const write of Object.values(one)) this.#checkNames(write as never);
  }

  /** As the SDK sends it: a transaction has a token, by which its repeat is recognized. */
  #asSent(operation: TableOperation, request: TableRequests[TableOperation]): Request {
    if (operation !== 'TransactWriteItems') return request;
    this.#transactions += 1;
    return { ...request, ClientRequestToken: `${this.#parts.process.name}-${this.#transactions}` } as Request;
  }

  #perform(cause: Cause, operation: TableOperation, request: Request, done: (performed: Performed) => void): void {
    const { transactions, time, chance, verdicts } = this.#parts;
    if (!writes.has(operation)) {
      done(this.#read(cause, operation, request));
      return;
    }
    const keys = keysIn(request);
    const other = transactions.on(keys);
    if (other !== undefined) {
      verdicts.count('table: a write meets a transaction');
      done({ error: conflictOf(operation, request, other) });
    } else if (operation === 'TransactWriteItems') {
      // A transaction takes a moment, in which others can't write to its items.
      const end = transactions.begin(keys, request.ClientRequestToken ?? '');
      time.after(chance.longTailed(3, 40), () => {
        end();
        done(this.#do(cause, operation, request));
      });
    } else if (operation === 'BatchWriteItem') done(this.#writeSome(cause, request as TableRequests['BatchWriteItem']));
    else done(this.#do(cause, operation, request));
  }

  #do(cause: Cause, operation: TableOperation, request: object): Performed {
    const { table, release } = this.#parts;
    return table.perform(cause, operation, request, release);
  }

  #read(cause: Cause, operation: TableOperation, request: Request): Performed {
    const { table, chance } = this.#parts;
    if (operation === 'GetItem') {
      const { Key: key, ConsistentRead: isConsistent = false } = request as TableRequests['GetItem'];
      const lagMs = isConsistent ? 0 : this.#lagMs();
      if (lagMs > 0) {
        const item = table.earlier(key, lagMs);
        return { answer: item === undefined ? {} : { Item: item } };
      }
    }
    if (operation === 'BatchGetItem') return this.#readSome(cause, request as TableRequests['BatchGetItem']);
    if (operation === 'Query' && chance.happens(0.1)) {
      // A page may end anywhere.
      const { Limit = Number.POSITIVE_INFINITY } = request as TableRequests['Query'];
      return this.#do(cause, operation, { ...request, Limit: Math.min(Limit, chance.between(1, 3)) });
    }
    return this.#do(cause, operation, request);
  }

  /** Some keys of a batch may stay unread, and the items come in any order. */
  #readSome(cause: Cause, request: TableRequests['BatchGetItem']): Performed {
    const { chance } = this.#parts;
    const { Keys: all = [], ...more } = request.RequestItems[defaultTableName] ?? { ConsistentRead: true };
    const [unread, read] = this.#split(all);
    const RequestItems = { [defaultTableName]: { ...more, Keys: read } };
    const performed = read.length === 0 ? { answer: {} } : this.#do(cause, 'BatchGetItem', { RequestItems });
    if ('error' in performed) return performed;
    const { Responses = {} } = performed.answer as TableAnswers['BatchGetItem'];
    const items = Responses[defaultTableName] ?? [];
    return {
      answer: {
        Responses: { [defaultTableName]: chance.happens(0.5) ? items : items.toReversed() },
        UnprocessedKeys: unread.length === 0 ? {} : { [defaultTableName]: { ...more, Keys: unread } },
      },
    };
  }

  #writeSome(cause: Cause, request: TableRequests['BatchWriteItem']): Performed {
    const [undone, written] = this.#split(request.RequestItems[defaultTableName] ?? []);
    const RequestItems = { [defaultTableName]: written };
    const performed = written.length === 0 ? { answer: {} } : this.#do(cause, 'BatchWriteItem', { RequestItems });
    if ('error' in performed) return performed;
    return { answer: { UnprocessedItems: undone.length === 0 ? {} : { [defaultTableName]: undone } } };
  }

  /** What a busy table leaves of a batch, and what it does. */
  #split<T>(all: readonly T[]): [left: T[], done: T[]] {
    const { chance, conditions, weather, verdicts } = this.#parts;
    const isLeft = all.map(() => !weather.calm && chance.happens(conditions.storeThrottles / 4));
    if (isLeft.includes(true)) verdicts.count('table: a part of a batch is left');
    return [all.filter((_, index) => isLeft[index]), all.filter((_, index) => !isLeft[index])];
  }

  /** A transaction is cancelled if one of its items is too busy. */
  #throttled(operation: TableOperation, request: Request, isUncertain: boolean): Error {
    const more = isUncertain ? { [mayHaveTakenEffect]: true } : {};
    if (operation !== 'TransactWriteItems')
      return failure(this.#parts.chance.pick(throttlings), 'The table is too busy.', attemptsMax, more);
    return cancelled(request, 'ThrottlingError', more);
  }

  /** A process that read of a session's end knows of it. */
  #noteDead({ knownDead }: Cause, request: Request, answer: object): void {
    const { Key: key, RequestItems = {} } = request as { Key?: StoredItem; RequestItems?: Record<string, unknown> };
    const { Keys: keys = [] } = (RequestItems[defaultTableName] ?? {}) as { Keys?: readonly StoredItem[] };
    for (const asked of key === undefined ? keys : [key]) {
      const sessionId = this.#parts.table.sessionOf(asked);
      if (sessionId === undefined) continue;
      const { Item: item, Responses = {} } = answer as TableAnswers['GetItem'] & TableAnswers['BatchGetItem'];
      const found = item ?? Responses[defaultTableName]?.find(({ pk }) => textOf(pk) === textOf(asked.pk));
      if (found === undefined || found[sessionWords.endedAt] !== undefined) knownDead.add(sessionId);
    }
  }

  /** How old the image is that a read without consistency shows. Half of them show the latest. */
  #lagMs(): number {
    const { chance, weather } = this.#parts;
    return chance.happens(0.5) ? 0 : chance.longTailed(weather.calm ? 20 : 300, 3_000);
  }

  #legMs(): number {
    const { chance, conditions, weather } = this.#parts;
    return 1 + (weather.calm ? chance.between(0, conditions.storeMs) : chance.longTailed(conditions.storeMs, 3_000));
  }
}

const textOf = (value: unknown): string => (value as { S: string }).S;

/** The items that a request writes. */
function keysIn(request: Request): string[] {
  const { Key, Item, TransactItems, RequestItems } = request as {
    Key?: StoredItem;
    Item?: StoredItem;
    TransactItems?: readonly Record<string, { Key?: StoredItem; Item?: StoredItem }>[];
    RequestItems?: Record<
      string,
      readonly { PutRequest?: { Item: StoredItem }; DeleteRequest?: { Key: StoredItem } }[]
    >;
  };
  const written = [
    Key ?? Item,
    ...(TransactItems ?? []).flatMap((one) => Object.values(one).map((write) => write.Key ?? write.Item)),
    ...Object.values(RequestItems ?? {})
      .flat()
      .map(({ PutRequest, DeleteRequest }) => PutRequest?.Item ?? DeleteRequest?.Key),
  ];
  return written.flatMap((key) => (key === undefined ? [] : [`${textOf(key.pk)} ${textOf(key.sk)}`]));
}

function conflictOf(operation: TableOperation, request: Request, other: string): Error {
  const message = 'Transaction is ongoing for the item';
  if (operation !== 'TransactWriteItems') return failure('TransactionConflictException', message, 1);
  if (request.ClientRequestToken === other)
    return failure('TransactionInProgressException', 'The transaction with the given request token is in progress', 1);
  return cancelled(request, 'TransactionConflict');
}

/** Cancelled because of its first item. */
const cancelled = (request: Request, code: string, more: object = {}): Error =>
  failure('TransactionCanceledException', `Transaction cancelled [${code}]`, 1, {
    CancellationReasons: (request as TableRequests['TransactWriteItems']).TransactItems.map((_, index) => ({
      Code: index === 0 ? code : 'None',
    })),
    ...more,
  });
