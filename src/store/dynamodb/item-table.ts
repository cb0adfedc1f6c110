import { setTimeout as pause } from 'node:timers/promises';
import {
  BatchGetCommand,
  DeleteCommand,
  type DynamoDBDocumentClient,
  QueryCommand,
  type QueryCommandInput,
  TransactWriteCommand,
} from '@aws-sdk/lib-dynamodb';
import { backoffMs } from '../../tools/backoff.ts';
import { StoreError } from '../store-error.ts';
import { attemptsOf, isConditionFailure, refusedItem, toStoreError } from './failures.ts';
import type { ItemKey } from './keys.ts';
import { sdkCalls, type TableCalls } from './table-calls.ts';

export type Item = Record<string, unknown>;

export interface Condition {
  readonly ConditionExpression: string;
  readonly ExpressionAttributeNames: Record<string, string>;
  readonly ExpressionAttributeValues?: Record<string, unknown>;
}

export interface ConditionalUpdate extends Condition {
  readonly UpdateExpression: string;
}

export interface ConditionalPut extends Condition {
  readonly Item: Item;
}

export type ItemWritten =
  | { readonly applied: true; readonly item: Item }
  | { readonly applied: false; readonly item: Item | undefined; readonly perhapsMine: boolean };

/** A transaction on the same item lasts milliseconds; five jittered tries outlast it. */
const conflictTriesMax = 5;
/** DynamoDB's own bound for one batch read. */
const batchReadMax = 100;

/** Where the stores' items are. */
export interface TableAccess {
  readonly client: DynamoDBDocumentClient;
  readonly tableName: string;
  /** A shorter way for the calls that matter most; by the client where absent. */
  readonly calls?: TableCalls | undefined;
  readonly random?: (() => number) | undefined;
}

/**
 * The table as the stores use it: a refused condition is a value that carries the item, a conflict with a transaction is
 * tried again, and everything else is a StoreError.
 */
export class ItemTable {
  readonly #client: DynamoDBDocumentClient;
  readonly #calls: TableCalls;
  readonly #tableName: string;
  readonly #random: () => number;

  constructor({ client, tableName, calls, random }: TableAccess) {
    this.#client = client;
    this.#calls = calls ?? sdkCalls(client);
    this.#tableName = tableName;
    this.#random = random ?? Math.random;
  }

  /** One consistent read. */
  get(key: ItemKey): Promise<Item | undefined> {
    return this.#send(() => this.#calls.get({ TableName: this.#tableName, Key: { ...key }, ConsistentRead: true }));
  }

  /** Consistent reads of many, in the order asked. */
  async getMany(keys: readonly ItemKey[]): Promise<(Item | undefined)[]> {
    const found = new Map<string, Item>();
    let wanted: Item[] = keys.map((key) => ({ ...key }));
    for (let fruitless = 0; wanted.length > 0; ) {
      const batch = wanted.slice(0, batchReadMax);
      const request = { RequestItems: { [this.#tableName]: { Keys: batch, ConsistentRead: true } } };
      const output = await this.#send(() => this.#client.send(new BatchGetCommand(request)));
      for (const item of output.Responses?.[this.#tableName] ?? []) found.set(idOf(item), item);
      // DynamoDB hands back what it did not get to.
      const unread = output.UnprocessedKeys?.[this.#tableName]?.Keys ?? [];
      wanted = [...unread, ...wanted.slice(batchReadMax)];
      fruitless = unread.length === batch.length ? fruitless + 1 : 0;
      if (fruitless >= conflictTriesMax) throw new StoreError('throttled', 'The store asked for less traffic.');
      if (unread.length > 0) await pause(backoffMs(fruitless, 10, 200, this.#random));
    }
    return keys.map((key) => found.get(idOf({ ...key })));
  }

  /** The item comes back as it is after the update, unless the caller knows it and would pay for bringing it home. */
  update(key: ItemKey, expressions: ConditionalUpdate, returned: 'ALL_NEW' | 'NONE' = 'ALL_NEW'): Promise<ItemWritten> {
    return this.#write(() =>
      this.#calls.update({
        TableName: this.#tableName,
        Key: { ...key },
        ...expressions,
        ReturnValues: returned,
        ReturnValuesOnConditionCheckFailure: 'ALL_OLD',
      }),
    );
  }

  put(put: ConditionalPut): Promise<ItemWritten> {
    return this.#write(async () => {
      await this.#calls.put({
        TableName: this.#tableName,
        ...put,
        ReturnValuesOnConditionCheckFailure: 'ALL_OLD',
      });
      return put.Item;
    });
  }

  async replace(item: Item): Promise<void> {
    await this.#send(() => this.#calls.put({ TableName: this.#tableName, Item: item }));
  }

  async remove(key: ItemKey): Promise<void> {
    await this.#send(() => this.#client.send(new DeleteCommand({ TableName: this.#tableName, Key: { ...key } })));
  }

  /** Everything that a query finds, page by page, up to `atMost` items. */
  async query(input: Omit<QueryCommandInput, 'TableName'>, atMost: number): Promise<Item[]> {
    const items: Item[] = [];
    let start: Item | undefined;
    do {
      const page = await this.#send(() =>
        this.#client.send(
          new QueryCommand({
            ...input,
            TableName: this.#tableName,
            Limit: atMost,
            ...(start === undefined ? {} : { ExclusiveStartKey: start }),
          }),
        ),
      );
      items.push(...(page.Items ?? []));
      start = page.LastEvaluatedKey;
    } while (start !== undefined && items.length < atMost);
    return items.slice(0, atMost);
  }

  /** A conditional update and an item beside it, both or neither. A refusal carries the item that was to be updated. */
  updateWith(key: ItemKey, expressions: ConditionalUpdate, beside: Item): Promise<ItemWritten> {
    const TableName = this.#tableName;
    const update = {
      TableName,
      Key: { ...key },
      ...expressions,
      ReturnValuesOnConditionCheckFailure: 'ALL_OLD' as const,
    };
    const TransactItems = [{ Update: update }, { Put: { TableName, Item: beside } }];
    return this.#write(async () => {
      await this.#client.send(new TransactWriteCommand({ TransactItems }));
      return {};
    });
  }

  /** All or nothing. False where a condition was refused: somebody wrote in between. */
  async putAll(puts: readonly ConditionalPut[]): Promise<boolean> {
    const TransactItems = puts.map((put) => ({ Put: { TableName: this.#tableName, ...put } }));
    try {
      await this.#send(() => this.#client.send(new TransactWriteCommand({ TransactItems })));
      return true;
    } catch (error) {
      if (isConditionFailure(error)) return false;
      throw error;
    }
  }

  async #write(send: () => Promise<Item>): Promise<ItemWritten> {
    try {
      return { applied: true, item: await this.#send(send) };
    } catch (error) {
      if (!isConditionFailure(error)) throw error;
      return { applied: false, item: refusedItem(error), perhapsMine: attemptsOf(error) > 1 };
    }
  }

  async #send<T>(send: () => Promise<T>): Promise<T> {
    for (let attempt = 0; ; attempt++) {
      try {
        return await send();
      } catch (error) {
        if (isConditionFailure(error)) throw error;
        const failure = toStoreError(error);
        if (failure.code !== 'conflict' || attempt + 1 >= conflictTriesMax) throw failure;
        await pause(backoffMs(attempt, 5, 100, this.#random));
      }
    }
  }
}

const idOf = (item: Item): string => `${item.pk} ${item.sk}`;
