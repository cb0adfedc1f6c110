import { setTimeout as pause } from 'node:timers/promises';
import { BatchWriteCommand, type DynamoDBDocumentClient, QueryCommand } from '@aws-sdk/lib-dynamodb';
import { after, type Clock, epochMs, systemClock, toTtlSeconds } from '../../time/clock.ts';
import { backoffMs } from '../../tools/backoff.ts';
import {
  type HistoryEntry,
  type HistoryEvent,
  type HistoryPage,
  type HistoryStore,
  historyKeptMs,
} from '../history-store.ts';
import type { LockKey } from '../lock-store.ts';
import { toStoreError } from './failures.ts';
import type { ItemKey } from './keys.ts';

/** DynamoDB writes at most this many items at once. */
const batchMax = 25;
/** What a table hands back unwritten for want of capacity is written within a moment, or left to the stream's own retry. */
const triesMax = 4;

const partitionOf = ({ namespace, name }: LockKey): string => `${namespace}/history/${name}`;
const itemKeyOf = ({ key, place }: HistoryEntry): ItemKey => ({ pk: partitionOf(key), sk: place });

/** Each event is an item under its lock, sorted by its place. */
export class DynamoDBHistory implements HistoryStore {
  readonly #client: DynamoDBDocumentClient;
  readonly #tableName: string;
  readonly #clock: Clock;

  constructor(options: { client: DynamoDBDocumentClient; tableName: string; clock?: Clock }) {
    this.#client = options.client;
    this.#tableName = options.tableName;
    this.#clock = options.clock ?? systemClock;
  }

  async append(entries: readonly HistoryEntry[]): Promise<readonly HistoryEntry[]> {
    // A repeated event has the same key, and DynamoDB refuses a batch that names a key twice.
    const byKey = new Map(entries.map((entry) => [idOf(itemKeyOf(entry)), entry]));
    const unique = [...byKey.values()];
    const unwritten = new Set<string>();
    for (let start = 0; start < unique.length; start += batchMax) {
      const batch = unique.slice(start, start + batchMax);
      for (const id of await this.#writeBatch(batch)) unwritten.add(id);
    }
    return entries.filter((entry) => unwritten.has(idOf(itemKeyOf(entry))));
  }

  async page(key: LockKey, { limit, before }: { limit: number; before?: string | undefined }): Promise<HistoryPage> {
    const values = { ':pk': partitionOf(key), ...(before === undefined ? {} : { ':before': before }) };
    const input = {
      TableName: this.#tableName,
      KeyConditionExpression: `#pk = :pk${before === undefined ? '' : ' AND #sk < :before'}`,
      ExpressionAttributeNames: { '#pk': 'pk', ...(before === undefined ? {} : { '#sk': 'sk' }) },
      ExpressionAttributeValues: values,
      ScanIndexForward: false,
      Limit: limit,
    };
    const found = await this.#client.send(new QueryCommand(input)).catch((error: unknown) => {
      throw toStoreError(error);
    });
    const items = found.Items ?? [];
    // Collection may lag by days; what is older than was promised isn't shown, and nothing behind it is younger.
    const keptSince = this.#clock.now() - historyKeptMs;
    const kept = items.filter((item) => (item.at as number) > keptSince);
    const last = kept.at(-1);
    return {
      events: kept.map(fromItem),
      ...(kept.length === limit && last !== undefined ? { before: last.sk as string } : {}),
    };
  }

  /** Comes back with the ids of those that were not written. */
  async #writeBatch(batch: readonly HistoryEntry[]): Promise<string[]> {
    let requests = batch.map((entry) => ({ PutRequest: { Item: toItem(entry) as Record<string, unknown> } }));
    const idsOf = (left: typeof requests) => left.map(({ PutRequest: { Item } }) => idOf(Item as unknown as ItemKey));
    for (let attempt = 0; attempt < triesMax; attempt++) {
      if (attempt > 0) await pause(backoffMs(attempt, 20, 200, Math.random));
      try {
        const output = await this.#client.send(
          new BatchWriteCommand({ RequestItems: { [this.#tableName]: requests } }),
        );
        requests = (output.UnprocessedItems?.[this.#tableName] ?? []) as typeof requests;
      } catch (error) {
        // A table that is out of reach has been tried by the client already; the caller is told what is missing.
        if (toStoreError(error).code === 'unavailable') break;
      }
      if (requests.length === 0) return [];
    }
    return idsOf(requests);
  }
}

const idOf = ({ pk, sk }: ItemKey): string => `${pk} ${sk}`;

const toItem = (entry: HistoryEntry) => ({
  ...itemKeyOf(entry),
  ...entry.event,
  ttl: toTtlSeconds(after(epochMs(entry.event.at), historyKeptMs)),
});

function fromItem(item: Record<string, unknown>): HistoryEvent {
  const { pk: _pk, sk: _sk, ttl: _ttl, ...event } = item;
  return event as unknown as HistoryEvent;
}
