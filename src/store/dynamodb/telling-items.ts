import { type DynamoDBDocumentClient, GetCommand, UpdateCommand } from '@aws-sdk/lib-dynamodb';
import { after, type Clock, systemClock, toTtlSeconds } from '../../time/clock.ts';
import type { LockKey } from '../lock-store.ts';
import type { Telling, TellingStore } from '../telling-store.ts';
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

  async begin(key: LockKey, fence: number): Promise<Telling> {
    // No condition: every try has to be counted, whatever was noted before.
    return fromItem(
      await this.#update(key, fence, 'SET #ttl = :ttl ADD #tries :one', { '#tries': 'tries' }, { ':one': 1 }),
    );
  }

  async read(key: LockKey, fence: number): Promise<Telling> {
    const input = { TableName: this.#tableName, Key: tellingKey(key, fence), ConsistentRead: true };
    const { Item } = await this.#client.send(new GetCommand(input)).catch((error: unknown) => {
      throw toStoreError(error);
    });
    return fromItem(Item);
  }

  async noteTold(key: LockKey, fence: number): Promise<void> {
    await this.#update(key, fence, 'SET #ttl = :ttl, #told = :yes', { '#told': 'told' }, { ':yes': true });
  }

  async #update(
    key: LockKey,
    fence: number,
    expression: string,
    names: Record<string, string>,
    values: Record<string, unknown>,
  ): Promise<Record<string, unknown> | undefined> {
    const ttl = toTtlSeconds(after(this.#clock.now(), tellingKeptMs));
    const input = {
      TableName: this.#tableName,
      Key: tellingKey(key, fence),
      UpdateExpression: expression,
      ExpressionAttributeNames: { '#ttl': 'ttl', ...names },
      ExpressionAttributeValues: { ':ttl': ttl, ...values },
      ReturnValues: 'ALL_NEW' as const,
    };
    const { Attributes } = await this.#client.send(new UpdateCommand(input)).catch((error: unknown) => {
      throw toStoreError(error);
    });
    return Attributes;
  }
}

const fromItem = (item: Record<string, unknown> | undefined): Telling => ({
  tries: (item?.tries as number | undefined) ?? 0,
  told: item?.told === true,
});
