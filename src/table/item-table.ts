import { type Clock, systemClock } from '../time/clock.ts';
import { pauseFor, systemTimers, type Timers } from '../time/timers.ts';
import { backoffMs } from '../tools/backoff.ts';
import { defined } from '../tools/collections.ts';
import { type Condition, type Item, type ItemKey, Translation, text, type Update, type Words } from './attributes.ts';
import {
  attemptsOf,
  type ConditionFailure,
  isCancelledByTraffic,
  isConditionFailure,
  isConflict,
  isUncertain,
  mayHaveTakenEffect,
  toStoreError,
} from './failures.ts';
import { fromStored, type StoredItem, toStored } from './json.ts';
import type { BatchedWrite, QueryRequest, TablePort } from './port.ts';
import { StoreError } from './store-error.ts';

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
  readonly table: TablePort;
  readonly tableName: string;
  /** Other than the real ones in tests. */
  readonly clock?: Clock | undefined;
  readonly random?: (() => number) | undefined;
  readonly timers?: Timers | undefined;
}

/**
 * The table as every store uses it: plain values instead of DynamoDB's JSON. A refused condition is a value that has the
 * item. A conflict with a transaction is tried again. Pages are followed to their end. Every other failure is a StoreError.
 */
export class ItemTable {
  readonly #table: TablePort;
  readonly #tableName: string;
  readonly #random: () => number;
  readonly #timers: Timers;

  constructor({ table, tableName, random = Math.random, timers = systemTimers }: TableAccess) {
    this.#table = table;
    this.#tableName = tableName;
    this.#random = random;
    this.#timers = timers;
  }

  /** One read. If it need not be consistent, it costs half, and may show an older item. */
  async get(key: ItemKey, { consistent = true } = {}): Promise<Item | undefined> {
    const wanted = { TableName: this.#tableName, Key: keyOf(key), ...(consistent ? { ConsistentRead: true } : {}) };
    const { Item: item } = await this.#send(() => this.#table.call('GetItem', wanted));
    return item && fromStored(item);
  }

  /** Consistent reads of many, in the order of the keys. */
  async getMany(keys: readonly ItemKey[]): Promise<(Item | undefined)[]> {
    const found = new Map<string, Item>();
    let wanted: readonly StoredItem[] = keys.map(keyOf);
    for (let emptyReads = 0; wanted.length > 0; ) {
      const batch = wanted.slice(0, batchReadMax);
      const RequestItems = { [this.#tableName]: { Keys: batch, ConsistentRead: true } };
      const answer = await this.#send(() => this.#table.call('BatchGetItem', { RequestItems }));
      for (const stored of answer.Responses?.[this.#tableName] ?? []) {
        const item = fromStored(stored);
        found.set(idOf(item), item);
      }
      // DynamoDB returns the keys that it did not read.
      const unread = answer.UnprocessedKeys?.[this.#tableName]?.Keys ?? [];
      wanted = [...unread, ...wanted.slice(batchReadMax)];
      emptyReads = unread.length === batch.length ? emptyReads + 1 : 0;
      if (emptyReads >= conflictTriesMax) throw new StoreError('throttled', 'The store throttled the request.');
      if (unread.length > 0) await pauseFor(this.#timers, backoffMs(emptyReads, 10, 200, this.#random));
    }
    return keys.map((key) => found.get(idOf({ ...key })));
  }

  /** Returns the item as it is after the update, or an empty one if the caller does not want it. */
  update(key: ItemKey, update: Update, { wantsItem = true } = {}): Promise<ItemWritten> {
    const request = {
      TableName: this.#tableName,
      Key: keyOf(key),
      ...withValues(update),
      ReturnValues: wantsItem ? 'ALL_NEW' : 'NONE',
      ...(update.ConditionExpression === undefined ? {} : showingRefusal),
    } as const;
    return this.#write(async () => fromStored((await this.#table.call('UpdateItem', request)).Attributes ?? {}));
  }

  /** Updates an item on a condition and puts another one: both or neither. A refusal has the item that was to be updated. */
  updateWith(key: ItemKey, update: Update, beside: Item): Promise<ItemWritten> {
    const TableName = this.#tableName;
    const updated = { TableName, Key: keyOf(key), ...withValues(update), ...showingRefusal };
    const TransactItems = [{ Update: updated }, { Put: { TableName, Item: toStored(beside) } }];
    return this.#write(async () => {
      await this.#table.call('TransactWriteItems', { TransactItems });
      return {};
    });
  }

  put({ Item: item, ...condition }: ConditionalPut): Promise<ItemWritten> {
    const request = {
      TableName: this.#tableName,
      Item: toStored(item),
      ...withValues(condition),
      ...showingRefusal,
    };
    return this.#write(async () => {
      await this.#table.call('PutItem', request);
      return item;
    });
  }

  /** Puts an item without a condition. */
  async replace(item: Item): Promise<void> {
    const request = { TableName: this.#tableName, Item: toStored(item) };
    await this.#send(() => this.#table.call('PutItem', request));
  }

  /** Puts many items without a condition. Returns those that could not be written. */
  async replaceMany(items: readonly Item[]): Promise<readonly Item[]> {
    const left = await this.#writeBatches(items.map((item) => ({ PutRequest: { Item: toStored(item) } })));
    const unwritten = new Set(
      left.map((request) => ('PutRequest' in request ? idOf(fromStored(request.PutRequest.Item)) : '')),
    );
    return items.filter((item) => unwritten.has(idOf(item)));
  }

  /** Items that a busy table leaves are deleted later by their TTL. */
  async removeMany(keys: readonly ItemKey[]): Promise<void> {
    await this.#writeBatches(keys.map((key) => ({ DeleteRequest: { Key: keyOf(key) } })));
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
    const input: QueryRequest = {
      TableName: this.#tableName,
      KeyConditionExpression: translation.of(where),
      ...defined({
        IndexName: index,
        FilterExpression: filter && translation.of(filter),
        ConsistentRead: consistent,
        Limit: Number.isFinite(pageMax) ? pageMax : undefined,
      }),
      ...withValues(translation.names),
      ScanIndexForward: !newestFirst,
    };
    let start: StoredItem | undefined;
    do {
      const request = { ...input, ...defined({ ExclusiveStartKey: start }) };
      const page = await this.#send(() => this.#table.call('Query', request));
      yield* (page.Items ?? []).map(fromStored);
      start = page.LastEvaluatedKey;
    } while (start !== undefined);
  }

  /** Writes all or nothing. False if a condition was refused because another process wrote in between. */
  async writeAll(writes: readonly (ConditionalPut | KeyedUpdate)[]): Promise<boolean> {
    const TableName = this.#tableName;
    const TransactItems = writes.map((write) => {
      if ('update' in write) return { Update: { TableName, Key: keyOf(write.key), ...withValues(write.update) } };
      const { Item: item, ...condition } = write;
      return { Put: { TableName, Item: toStored(item), ...withValues(condition) } };
    });
    try {
      await this.#send(() => this.#table.call('TransactWriteItems', { TransactItems }));
      return true;
    } catch (error) {
      if (isConditionFailure(error)) return false;
      throw error;
    }
  }

  /** Returns the requests that were not done. */
  async #writeBatches(requests: readonly BatchedWrite[]): Promise<BatchedWrite[]> {
    const unwritten: BatchedWrite[] = [];
    for (let start = 0; start < requests.length; start += batchWriteMax) {
      unwritten.push(...(await this.#writeBatch(requests.slice(start, start + batchWriteMax))));
    }
    return unwritten;
  }

  async #writeBatch(batch: readonly BatchedWrite[]): Promise<readonly BatchedWrite[]> {
    let left = batch;
    for (let attempt = 0; attempt < batchTriesMax; attempt++) {
      if (attempt > 0) await pauseFor(this.#timers, backoffMs(attempt, 20, 200, this.#random));
      try {
        const RequestItems = { [this.#tableName]: left };
        const answer = await this.#send(() => this.#table.call('BatchWriteItem', { RequestItems }));
        left = answer.UnprocessedItems?.[this.#tableName] ?? [];
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

  constructor(access: TableAccess) {
    this.table = new ItemTable(access);
    this.clock = access.clock ?? systemClock;
  }
}

const showingRefusal = { ReturnValuesOnConditionCheckFailure: 'ALL_OLD' } as const;

const keyOf = ({ pk, sk }: ItemKey): StoredItem => ({ pk: { S: pk }, sk: { S: sk } });

/** The expressions with their values in DynamoDB's JSON. */
const withValues = <Expressions extends Condition>({
  ExpressionAttributeValues: values,
  ...rest
}: Expressions): Omit<Expressions, 'ExpressionAttributeValues'> & { ExpressionAttributeValues?: StoredItem } =>
  values === undefined ? rest : { ...rest, ExpressionAttributeValues: toStored(values) };

const idOf = (item: Item): string => `${text(item, 'pk')} ${text(item, 'sk')}`;

/** The item that refused the condition. */
function refusedItem({ Item: item, CancellationReasons: reasons = [] }: ConditionFailure): Item | undefined {
  const refused = item ?? reasons.find(({ Code }) => Code === 'ConditionalCheckFailed')?.Item;
  return refused && fromStored(refused);
}
