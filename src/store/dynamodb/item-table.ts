import type { ConditionalCheckFailedException, TransactionCanceledException } from '@aws-sdk/client-dynamodb';
import {
  BatchGetCommand,
  BatchWriteCommand,
  type DynamoDBDocumentClient,
  QueryCommand,
  TransactWriteCommand,
} from '@aws-sdk/lib-dynamodb';
import { type Clock, systemClock } from '../../time/clock.ts';
import { pauseFor, systemTimers, type Timers } from '../../time/timers.ts';
import { backoffMs } from '../../tools/backoff.ts';
import { StoreError } from '../store-error.ts';
import { type Condition, type Item, type ItemKey, Translation, text, type Update, type Words } from './attributes.ts';
import {
  attemptsOf,
  isCancelledByTraffic,
  isConditionFailure,
  isConflict,
  isUncertain,
  mayHaveTakenEffect,
  toStoreError,
} from './failures.ts';
import { fromWireMap, sdkCalls, type TableCalls, type WireValue } from './wire.ts';

export interface ConditionalPut extends Condition {
  readonly Item: Item;
}

export interface KeyedUpdate {
  readonly key: ItemKey;
  readonly update: Update;
}

export type ItemWritten =
  | { readonly applied: true; readonly item: Item }
  | { readonly applied: false; readonly item: Item | undefined; readonly perhapsMine: boolean };

export interface Query {
  readonly index?: string;
  /** In words, like every expression. */
  readonly where: string;
  readonly filter?: string;
  readonly words: Words;
  readonly values: Readonly<Record<string, unknown>>;
  readonly consistent?: boolean;
  readonly newestFirst?: boolean;
}

/** A transaction on the same item lasts milliseconds. Five tries with random pauses take longer. */
const conflictTriesMax = 5;
/** Failures after which the same request may succeed, and which the SDK does not repeat. */
const repeats = [
  { is: isConflict, triesMax: conflictTriesMax, baseMs: 5, mostMs: 100 },
  // As often as the SDK repeats other requests that are throttled, and after pauses of the same length.
  { is: isCancelledByTraffic, triesMax: 3, baseMs: 500, mostMs: 1_000 },
] as const;
/** DynamoDB's own limits for one batch. */
const batchReadMax = 100;
const batchWriteMax = 25;
/** A busy table leaves items of a batch unwritten. They are tried again for a moment, and then reported. */
const batchTriesMax = 4;

/** Where the stores' items are. */
export interface TableAccess {
  readonly client: DynamoDBDocumentClient;
  readonly tableName: string;
  /** A faster way for the most frequent calls. If undefined, the client makes them. */
  readonly calls?: TableCalls | undefined;
  readonly random?: (() => number) | undefined;
  readonly timers?: Timers | undefined;
}

type Batched = { PutRequest: { Item: Item } } | { DeleteRequest: { Key: Item } };

/**
 * The table as every store uses it. A refused condition is a value that has the item. A conflict with a transaction is
 * tried again. Pages are followed to their end. Every other failure is a StoreError.
 */
export class ItemTable {
  readonly #client: DynamoDBDocumentClient;
  readonly #calls: TableCalls;
  readonly #tableName: string;
  readonly #random: () => number;
  readonly #timers: Timers;

  constructor({ client, tableName, calls, random, timers }: TableAccess) {
    this.#client = client;
    this.#calls = calls ?? sdkCalls(client);
    this.#tableName = tableName;
    this.#random = random ?? Math.random;
    this.#timers = timers ?? systemTimers;
  }

  /** One read. If it need not be consistent, it costs half, and may show an older item. */
  get(key: ItemKey, { consistent = true } = {}): Promise<Item | undefined> {
    const wanted = { TableName: this.#tableName, Key: { ...key }, ...(consistent ? { ConsistentRead: true } : {}) };
    return this.#send(() => this.#calls.get(wanted));
  }

  /** Consistent reads of many, in the order of the keys. */
  async getMany(keys: readonly ItemKey[]): Promise<(Item | undefined)[]> {
    const found = new Map<string, Item>();
    let wanted: Item[] = keys.map((key) => ({ ...key }));
    for (let emptyReads = 0; wanted.length > 0; ) {
      const batch = wanted.slice(0, batchReadMax);
      const request = { RequestItems: { [this.#tableName]: { Keys: batch, ConsistentRead: true } } };
      const output = await this.#send(() => this.#client.send(new BatchGetCommand(request)));
      for (const item of output.Responses?.[this.#tableName] ?? []) found.set(idOf(item), item);
      // DynamoDB returns the keys that it did not read.
      const unread = output.UnprocessedKeys?.[this.#tableName]?.Keys ?? [];
      wanted = [...unread, ...wanted.slice(batchReadMax)];
      emptyReads = unread.length === batch.length ? emptyReads + 1 : 0;
      if (emptyReads >= conflictTriesMax) throw new StoreError('throttled', 'The store throttled the request.');
      if (unread.length > 0) await pauseFor(this.#timers, backoffMs(emptyReads, 10, 200, this.#random));
    }
    return keys.map((key) => found.get(idOf({ ...key })));
  }

  /** Returns the item as it is after the update, or an empty one if the caller does not want it. */
  update(key: ItemKey, update: Update, { wantsItem = true } = {}): Promise<ItemWritten> {
    return this.#write(() =>
      this.#calls.update({
        TableName: this.#tableName,
        Key: { ...key },
        ...update,
        ReturnValues: wantsItem ? 'ALL_NEW' : 'NONE',
        ...(update.ConditionExpression === undefined ? {} : { ReturnValuesOnConditionCheckFailure: 'ALL_OLD' }),
      }),
    );
  }

  /** Updates an item on a condition and puts another one: both or neither. A refusal has the item that was to be updated. */
  updateWith(key: ItemKey, update: Update, beside: Item): Promise<ItemWritten> {
    const TableName = this.#tableName;
    const updated = { TableName, Key: { ...key }, ...update, ReturnValuesOnConditionCheckFailure: 'ALL_OLD' as const };
    const TransactItems = [{ Update: updated }, { Put: { TableName, Item: beside } }];
    return this.#write(async () => {
      await this.#client.send(new TransactWriteCommand({ TransactItems }));
      return {};
    });
  }

  put(put: ConditionalPut): Promise<ItemWritten> {
    return this.#write(async () => {
      await this.#calls.put({ TableName: this.#tableName, ...put, ReturnValuesOnConditionCheckFailure: 'ALL_OLD' });
      return put.Item;
    });
  }

  /** Puts an item without a condition. */
  async replace(item: Item): Promise<void> {
    await this.#send(() => this.#calls.put({ TableName: this.#tableName, Item: item }));
  }

  /** Puts many items without a condition. Returns those that could not be written. */
  async replaceMany(items: readonly Item[]): Promise<readonly Item[]> {
    const left = await this.#writeBatches(items.map((item) => ({ PutRequest: { Item: item } })));
    const unwritten = new Set(left.map((request) => ('PutRequest' in request ? idOf(request.PutRequest.Item) : '')));
    return items.filter((item) => unwritten.has(idOf(item)));
  }

  /** Items that a busy table leaves are deleted later by their TTL. */
  async removeMany(keys: readonly ItemKey[]): Promise<void> {
    await this.#writeBatches(keys.map((key) => ({ DeleteRequest: { Key: { ...key } } })));
  }

  /** All items that a query finds, up to `atMost`. */
  async query(query: Query, atMost = Number.POSITIVE_INFINITY): Promise<Item[]> {
    const items: Item[] = [];
    for await (const item of this.queried(query, atMost)) {
      items.push(item);
      if (items.length >= atMost) break;
    }
    return items;
  }

  /** The items that a query finds, one by one. The next page is read only when it is needed. */
  async *queried(query: Query, pageMax = Number.POSITIVE_INFINITY): AsyncIterable<Item> {
    const { index, where, filter, words, values, consistent, newestFirst } = query;
    const translation = new Translation(words, values);
    const input = {
      TableName: this.#tableName,
      IndexName: index,
      KeyConditionExpression: translation.of(where),
      FilterExpression: filter && translation.of(filter),
      ...translation.names,
      ConsistentRead: consistent,
      ScanIndexForward: !newestFirst,
      Limit: Number.isFinite(pageMax) ? pageMax : undefined,
    };
    let ExclusiveStartKey: Item | undefined;
    do {
      const request = new QueryCommand({ ...input, ExclusiveStartKey });
      const page = await this.#send(() => this.#client.send(request));
      yield* page.Items ?? [];
      ExclusiveStartKey = page.LastEvaluatedKey;
    } while (ExclusiveStartKey !== undefined);
  }

  /** Writes all or nothing. False if a condition was refused because another process wrote in between. */
  async writeAll(writes: readonly (ConditionalPut | KeyedUpdate)[]): Promise<boolean> {
    const TransactItems = writes.map((write) =>
      'Item' in write
        ? { Put: { TableName: this.#tableName, ...write } }
        : { Update: { TableName: this.#tableName, Key: { ...write.key }, ...write.update } },
    );
    try {
      await this.#send(() => this.#client.send(new TransactWriteCommand({ TransactItems })));
      return true;
    } catch (error) {
      if (isConditionFailure(error)) return false;
      throw error;
    }
  }

  /** Returns the requests that were not done. */
  async #writeBatches(requests: readonly Batched[]): Promise<Batched[]> {
    const unwritten: Batched[] = [];
    for (let start = 0; start < requests.length; start += batchWriteMax) {
      unwritten.push(...(await this.#writeBatch(requests.slice(start, start + batchWriteMax))));
    }
    return unwritten;
  }

  async #writeBatch(batch: readonly Batched[]): Promise<readonly Batched[]> {
    let left = [...batch];
    for (let attempt = 0; attempt < batchTriesMax; attempt++) {
      if (attempt > 0) await pauseFor(this.#timers, backoffMs(attempt, 20, 200, this.#random));
      try {
        const request = new BatchWriteCommand({ RequestItems: { [this.#tableName]: left } });
        const output = await this.#send(() => this.#client.send(request));
        left = (output.UnprocessedItems?.[this.#tableName] ?? []) as Batched[];
      } catch (error) {
        // The client has already tried an unreachable table several times. The caller gets what is missing.
        if (toStoreError(error).code === 'unavailable') return left;
      }
      if (left.length === 0) return [];
    }
    return left;
  }

  async #write(send: () => Promise<Item>): Promise<ItemWritten> {
    try {
      return { applied: true, item: await this.#send(send) };
    } catch (error) {
      if (!isConditionFailure(error)) throw error;
      return { applied: false, item: refusedItem(error), perhapsMine: attemptsOf(error) > 1 || isUncertain(error) };
    }
  }

  async #send<T>(send: () => Promise<T>): Promise<T> {
    let hadNoAnswer = false;
    for (let attempt = 0; ; attempt++) {
      try {
        return await send();
      } catch (error) {
        // A try without an answer may have written. A conflict after it does not change that, nor does any later refusal.
        hadNoAnswer ||= isUncertain(error);
        if (hadNoAnswer) Object.assign(error as Error, { [mayHaveTakenEffect]: true });
        if (isConditionFailure(error)) throw error;
        const again = repeats.find(({ is }) => is(error));
        if (again === undefined || attempt + 1 >= again.triesMax) throw toStoreError(error);
        await pauseFor(this.#timers, backoffMs(attempt, again.baseMs, again.mostMs, this.#random));
      }
    }
  }
}

/** A store on the table. */
export abstract class TableStore {
  protected readonly table: ItemTable;
  protected readonly clock: Clock;

  constructor({ clock = systemClock, ...access }: TableAccess & { readonly clock?: Clock | undefined }) {
    this.table = new ItemTable(access);
    this.clock = clock;
  }
}

const idOf = (item: Item): string => `${text(item, 'pk')} ${text(item, 'sk')}`;

/** The item that refused the condition. The document client converts results to plain values, but not errors. */
function refusedItem(error: ConditionalCheckFailedException | TransactionCanceledException) {
  const item =
    'CancellationReasons' in error
      ? error.CancellationReasons?.find(({ Code }) => Code === 'ConditionalCheckFailed')?.Item
      : (error as ConditionalCheckFailedException).Item;
  return item === undefined ? undefined : fromWireMap(item as Record<string, WireValue>);
}
