import { ConditionalCheckFailedException } from '@aws-sdk/client-dynamodb';
import type { DynamoDBDocumentClient } from '@aws-sdk/lib-dynamodb';
import { marshall } from '@aws-sdk/util-dynamodb';
import { describe, expect, it } from 'vitest';
import type { Put } from '../../../src/record/commands.ts';
import { stateAfter } from '../../../src/record/decide.ts';
import { DynamoDBRecordStore } from '../../../src/store/dynamodb/record-items.ts';
import { epochMs } from '../../../src/time/clock.ts';
import { toRecordItems } from '../../support/record-worlds.ts';

const key = { namespace: 'test', key: 'record' };
const now = epochMs(1_800_000_000_000);
const put: Put = { kind: 'put', value: '1', expects: { kind: 'version', version: 4 }, writeId: 'write-of-mine-00000' };
const theirs: Put = { ...put, writeId: 'write-of-theirs-000' };

/** A table that refuses the write because of its current state, after the request was sent this many times. */
function storeThatRefuses(by: Put, version: number, attempts: number): DynamoDBRecordStore {
  const error = new ConditionalCheckFailedException({
    message: 'The conditional request failed',
    $metadata: { attempts },
    Item: marshall(toRecordItems(key, stateAfter(by, { version, earlier: [] }, now))[0]),
  });
  const client = { send: () => Promise.reject(error) } as unknown as DynamoDBDocumentClient;
  return new DynamoDBRecordStore({ client, tableName: 'any' });
}

describe('a refused write of a record', () => {
  it('is a refusal if it was sent once', async () => {
    const { applied, state } = await storeThatRefuses(theirs, 6, 1).attempt(key, put, now);
    expect({ applied, version: state.version }).toEqual({ applied: false, version: 6 });
  });

  it('is unknown if it was sent twice and others wrote after the version that it would have made', async () => {
    await expect(storeThatRefuses(theirs, 6, 2).attempt(key, put, now)).rejects.toMatchObject({ code: 'unavailable' });
  });

  it('is a refusal if nobody but the first writer can have written', async () => {
    const { applied } = await storeThatRefuses(theirs, 5, 2).attempt(key, put, now);
    expect(applied).toBe(false);
  });

  it('is its own first try if that is still the current version', async () => {
    const { applied, state } = await storeThatRefuses(put, 5, 2).attempt(key, put, now);
    expect({ applied, by: state.writeIds[0] }).toEqual({ applied: false, by: put.writeId });
  });
});
