import { type DynamoDBDocumentClient, GetCommand, PutCommand } from '@aws-sdk/lib-dynamodb';
import { after, type Clock, systemClock, toTtlSeconds } from '../../time/clock.ts';
import type { LockKey } from '../lock-store.ts';
import type { TellingStore } from '../telling-store.ts';
import { toStoreError } from './failures.ts';
import type { ItemKey } from './keys.ts';

/** A stream keeps its records for a day; twice that, and no repeat can come any more. */
const tellingKeptMs = 2 * 86_400_000;

const tellingKey = ({ namespace, name }: LockKey, fence: number): ItemKey => ({
  pk: `${namespace}/told/${name}`,
  sk: String(fence),
});

export class DynamoDBTellings implements TellingStore {
  readonly #client: DynamoDBDocumentClient;
  readonly #tableName: string;
  readonly #clock: Clock;

  constructor(options: { client: DynamoDBDocumentClient; tableName: string; clock?: Clock }) {
    this.#client = options.client;
    this.#tableName = options.tableName;
    this.#clock = options.clock ?? systemClock;
  }

  async wasTold(key: LockKey, fence: number): Promise<boolean> {
    const input = { TableName: this.#tableName, Key: tellingKey(key, fence), ConsistentRead: true };
    const { Item } = await this.#client.send(new GetCommand(input)).catch((error: unknown) => {
      throw toStoreError(error);
    });
    return Item !== undefined;
  }

  async noteTold(key: LockKey, fence: number): Promise<void> {
    const ttl = toTtlSeconds(after(this.#clock.now(), tellingKeptMs));
    const input = { TableName: this.#tableName, Item: { ...tellingKey(key, fence), ttl } };
    await this.#client.send(new PutCommand(input)).catch((error: unknown) => {
      throw toStoreError(error);
    });
  }
}
