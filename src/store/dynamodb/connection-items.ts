/**
 * How a watcher lies in the table.
 *
 *     {ns}/watchers    watcher/{id}   what it watches, by namespace: one query finds everybody to be shown an event
 *     connection/{id}  connection     its namespace, by id: a goodbye tells nothing else
 *
 * The first one's arrival in the stream is what makes the notifier send the first message: before `$connect` has been
 * answered nothing can be posted to a connection, so the handler of `$connect` itself can't.
 */
import {
  BatchWriteCommand,
  type DynamoDBDocumentClient,
  GetCommand,
  PutCommand,
  QueryCommand,
  UpdateCommand,
} from '@aws-sdk/lib-dynamodb';
import type { DynamoDBRecord } from 'aws-lambda';
import { after, epochMs, toTtlSeconds } from '../../time/clock.ts';
import type { Watcher, WatcherStore } from '../watcher-store.ts';
import { isConditionFailure, toStoreError } from './failures.ts';
import type { ItemKey } from './keys.ts';
import { watcherSortPrefix } from './table.ts';
import { fromWireMap, type WireValue } from './values.ts';

/** API Gateway ends every connection after two hours; an hour more, and what is left over is nobody's. */
const connectionKeptMs = 3 * 3_600_000;

const watcherKey = (namespace: string, connectionId: string): ItemKey => ({
  pk: `${namespace}/watchers`,
  sk: `${watcherSortPrefix}${connectionId}`,
});
const connectionKey = (connectionId: string): ItemKey => ({ pk: `connection/${connectionId}`, sk: 'connection' });

export class DynamoDBWatchers implements WatcherStore {
  readonly #client: DynamoDBDocumentClient;
  readonly #tableName: string;

  constructor(options: { client: DynamoDBDocumentClient; tableName: string }) {
    this.#client = options.client;
    this.#tableName = options.tableName;
  }

  async add(watcher: Watcher): Promise<void> {
    const { namespace, connectionId, connectedAt, subject } = watcher;
    const ttl = toTtlSeconds(after(connectedAt, connectionKeptMs));
    // By id first: what the stream announces must be possible to say goodbye to.
    await this.#put({ ...connectionKey(connectionId), namespace, ttl });
    await this.#put({ ...watcherKey(namespace, connectionId), at: connectedAt, ...subject, ttl });
  }

  async welcome({ namespace, connectionId }: Watcher): Promise<boolean> {
    const input = {
      TableName: this.#tableName,
      Key: watcherKey(namespace, connectionId),
      UpdateExpression: 'SET #w = :yes',
      // Who left in the meantime must not come back as half an item.
      ConditionExpression: 'attribute_exists(#pk)',
      ExpressionAttributeNames: { '#w': 'welcomed', '#pk': 'pk' },
      ExpressionAttributeValues: { ':yes': true },
    };
    try {
      await this.#client.send(new UpdateCommand(input));
      return true;
    } catch (error) {
      if (isConditionFailure(error)) return false;
      throw toStoreError(error);
    }
  }

  async welcomed(namespace: string): Promise<readonly Watcher[]> {
    const watchers: Watcher[] = [];
    let start: Record<string, unknown> | undefined;
    do {
      const input = {
        TableName: this.#tableName,
        KeyConditionExpression: '#pk = :pk',
        FilterExpression: '#w = :yes',
        ExpressionAttributeNames: { '#pk': 'pk', '#w': 'welcomed' },
        ExpressionAttributeValues: { ':pk': watcherKey(namespace, '').pk, ':yes': true },
        ConsistentRead: true,
        ...(start === undefined ? {} : { ExclusiveStartKey: start }),
      };
      const page = await this.#client.send(new QueryCommand(input)).catch((error: unknown) => {
        throw toStoreError(error);
      });
      watchers.push(...(page.Items ?? []).map(fromItem));
      start = page.LastEvaluatedKey;
    } while (start !== undefined);
    return watchers;
  }

  async remove(connectionId: string): Promise<void> {
    try {
      const Key = connectionKey(connectionId);
      const { Item } = await this.#client.send(
        new GetCommand({ TableName: this.#tableName, Key, ConsistentRead: true }),
      );
      if (Item === undefined) return;
      const keys = [watcherKey(Item.namespace as string, connectionId), Key];
      const deletions = keys.map((key) => ({ DeleteRequest: { Key: { ...key } } }));
      // What is left unprocessed under pressure is found gone at the next event, or collected by its TTL.
      await this.#client.send(new BatchWriteCommand({ RequestItems: { [this.#tableName]: deletions } }));
    } catch (error) {
      throw toStoreError(error);
    }
  }

  async #put(item: Record<string, unknown>): Promise<void> {
    await this.#client.send(new PutCommand({ TableName: this.#tableName, Item: item })).catch((error: unknown) => {
      throw toStoreError(error);
    });
  }
}

function fromItem(item: Record<string, unknown>): Watcher {
  return {
    namespace: (item.pk as string).split('/')[0] as string,
    connectionId: (item.sk as string).slice(watcherSortPrefix.length),
    connectedAt: epochMs(item.at as number),
    subject: item.lock === undefined ? { prefix: item.prefix as string } : { lock: item.lock as string },
  };
}

/** Who has just connected, where that is what a stream record shows. */
export function arrivalOf({ eventName, dynamodb }: DynamoDBRecord): Watcher | undefined {
  const isWatcher = dynamodb?.Keys?.sk?.S?.startsWith(watcherSortPrefix) ?? false;
  if (eventName !== 'INSERT' || !isWatcher || dynamodb?.NewImage === undefined) return undefined;
  return fromItem(fromWireMap(dynamodb.NewImage as Record<string, WireValue>));
}
