import { type DynamoDBDocumentClient, GetCommand, UpdateCommand } from '@aws-sdk/lib-dynamodb';
import type { RecordCommand } from '../../record/commands.ts';
import { stateAfter } from '../../record/decide.ts';
import type { RecordState } from '../../record/state.ts';
import type { EpochMs } from '../../time/clock.ts';
import type { RecordKey, RecordStore, RecordWritten } from '../record-store.ts';
import { StoreError } from '../store-error.ts';
import { attemptsOf, isConditionFailure, refusedItem, toStoreError } from './failures.ts';
import { fromRecordItem, recordItemKey } from './record-item.ts';
import { writeIfAllowed } from './record-writes.ts';

export interface DynamoDBRecordStoreOptions {
  readonly client: DynamoDBDocumentClient;
  readonly tableName: string;
}

export class DynamoDBRecordStore implements RecordStore {
  readonly #client: DynamoDBDocumentClient;
  readonly #tableName: string;

  constructor({ client, tableName }: DynamoDBRecordStoreOptions) {
    this.#client = client;
    this.#tableName = tableName;
  }

  async read(key: RecordKey): Promise<RecordState> {
    const input = { TableName: this.#tableName, Key: recordItemKey(key), ConsistentRead: true };
    try {
      const { Item } = await this.#client.send(new GetCommand(input));
      return fromRecordItem(Item);
    } catch (error) {
      throw toStoreError(error);
    }
  }

  async attempt(key: RecordKey, command: RecordCommand, now: EpochMs): Promise<RecordWritten> {
    const { expects } = command;
    const input = {
      TableName: this.#tableName,
      Key: recordItemKey(key),
      ...writeIfAllowed(command, now),
      // Who names a version knows the next one; asking for the item back would only bring home the value that was just sent.
      ReturnValues: expects.kind === 'version' ? ('NONE' as const) : ('ALL_NEW' as const),
      ReturnValuesOnConditionCheckFailure: 'ALL_OLD' as const,
    };
    try {
      const { Attributes } = await this.#client.send(new UpdateCommand(input));
      const version = expects.kind === 'version' ? expects.version + 1 : (Attributes?.v as number);
      return { applied: true, state: stateAfter(command, version, now) };
    } catch (error) {
      if (!isConditionFailure(error)) throw toStoreError(error);
      const state = fromRecordItem(refusedItem(error));
      if (attemptsOf(error) > 1 && mayHaveBeenReplaced(command, state))
        throw new StoreError(
          'unavailable',
          'Others wrote after a try whose answer was lost: whether it was written is not known.',
          error,
        );
      return { applied: false, state };
    }
  }
}

/** Whether an earlier try of this write may have been written, and replaced before the refused one: then a refusal would be a guess. */
function mayHaveBeenReplaced({ expects, writeId }: RecordCommand, { version, lastWrite }: RecordState): boolean {
  if (lastWrite?.id === writeId) return false;
  return expects.kind === 'version' ? version > expects.version + 1 : version > 1;
}
