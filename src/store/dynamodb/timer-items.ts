import { type DynamoDBDocumentClient, GetCommand, PutCommand } from '@aws-sdk/lib-dynamodb';
import { after, type EpochMs, epochMs, toTtlSeconds } from '../../time/clock.ts';
import type { LockKey } from '../lock-store.ts';
import type { TimerNotes } from '../timer-notes.ts';
import { toStoreError } from './failures.ts';
import type { ItemKey } from './keys.ts';

/** A note about a timer that has fired says nothing; an hour covers whatever a queue is late by. */
const noteKeptMs = 3_600_000;

const timerKey = ({ namespace, name }: LockKey): ItemKey => ({ pk: `${namespace}/timer/${name}`, sk: 'timer' });

export class DynamoDBTimerNotes implements TimerNotes {
  readonly #client: DynamoDBDocumentClient;
  readonly #tableName: string;

  constructor(options: { client: DynamoDBDocumentClient; tableName: string }) {
    this.#client = options.client;
    this.#tableName = options.tableName;
  }

  async read(key: LockKey): Promise<EpochMs | undefined> {
    const input = { TableName: this.#tableName, Key: timerKey(key), ConsistentRead: true };
    const { Item } = await this.#client.send(new GetCommand(input)).catch((error: unknown) => {
      throw toStoreError(error);
    });
    return Item === undefined ? undefined : epochMs(Item.firesAt as number);
  }

  async write(key: LockKey, firesAt: EpochMs): Promise<void> {
    const ttl = toTtlSeconds(after(firesAt, noteKeptMs));
    const input = { TableName: this.#tableName, Item: { ...timerKey(key), firesAt, ttl } };
    await this.#client.send(new PutCommand(input)).catch((error: unknown) => {
      throw toStoreError(error);
    });
  }
}
