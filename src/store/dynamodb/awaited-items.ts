import { type DynamoDBDocumentClient, QueryCommand, UpdateCommand } from '@aws-sdk/lib-dynamodb';
import type { AwaitedLocks } from '../awaited-locks.ts';
import type { LockKey } from '../lock-store.ts';
import { isConditionFailure, toStoreError } from './failures.ts';
import { type ItemKey, lockItemKey, lockKeyOf } from './keys.ts';
import { awaitedShards, tableShape } from './table.ts';

const { awaited } = tableShape.indexes;
/** As `awaitedKeyOf` names it. */
const partitionOf = (shard: number): string => `awaited/${shard}`;

/** The sparse index of locks that somebody waits for, oldest wait first. */
export class DynamoDBAwaitedLocks implements AwaitedLocks {
  readonly #client: DynamoDBDocumentClient;
  readonly #tableName: string;

  constructor(options: { client: DynamoDBDocumentClient; tableName: string }) {
    this.#client = options.client;
    this.#tableName = options.tableName;
  }

  async *list(): AsyncIterable<LockKey> {
    for (let shard = 0; shard < awaitedShards; shard++) yield* this.#inShard(shard);
  }

  async forget(key: LockKey): Promise<void> {
    const input = {
      TableName: this.#tableName,
      Key: lockItemKey(key),
      // The revision rises as by every write, so that a swap which was decided before this one notices.
      UpdateExpression: 'SET #rev = #rev + :one REMOVE #ap, #as',
      // Safe because nobody is in the queue in this very write: who arrives later puts the lock back.
      ConditionExpression: 'attribute_exists(#ap) AND attribute_not_exists(#q[0])',
      ExpressionAttributeNames: { '#rev': 'rev', '#ap': awaited.partitionKey, '#as': awaited.sortKey, '#q': 'q' },
      ExpressionAttributeValues: { ':one': 1 },
    };
    try {
      await this.#client.send(new UpdateCommand(input));
    } catch (error) {
      if (!isConditionFailure(error)) throw toStoreError(error);
    }
  }

  async *#inShard(shard: number): AsyncIterable<LockKey> {
    let start: Record<string, unknown> | undefined;
    do {
      const input = {
        TableName: this.#tableName,
        IndexName: awaited.name,
        KeyConditionExpression: '#ap = :ap',
        ExpressionAttributeNames: { '#ap': awaited.partitionKey },
        ExpressionAttributeValues: { ':ap': partitionOf(shard) },
        ...(start === undefined ? {} : { ExclusiveStartKey: start }),
      };
      const page = await this.#client.send(new QueryCommand(input)).catch((error: unknown) => {
        throw toStoreError(error);
      });
      for (const item of page.Items ?? []) {
        const key = lockKeyOf(item as unknown as ItemKey);
        if (key !== undefined) yield key;
      }
      start = page.LastEvaluatedKey;
    } while (start !== undefined);
  }
}
