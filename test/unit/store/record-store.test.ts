import { ConditionalCheckFailedException, TransactionCanceledException } from '@aws-sdk/client-dynamodb';
import { marshall } from '@aws-sdk/util-dynamodb';
import { describe, expect, it } from 'vitest';
import type { Put } from '../../../src/record/commands.ts';
import { stateAfter } from '../../../src/record/decide.ts';
import { RecordStore } from '../../../src/store/records.ts';
import type { Item } from '../../../src/table/attributes.ts';
import { epochMs } from '../../../src/time/clock.ts';
import { type PlainRequest, plainTable } from '../../support/plain-table.ts';
import { toRecordItems } from '../../support/record-worlds.ts';

const key = { namespace: 'test', key: 'record' };
const now = epochMs(1_800_000_000_000);
const put: Put = { kind: 'put', value: '1', expects: { kind: 'version', version: 4 }, writeId: 'write-of-mine-00000' };
const theirs: Put = { ...put, writeId: 'write-of-theirs-000' };

/** A table that refuses the write because of its current state, after the request was sent this many times. */
function storeThatRefuses(by: Put, version: number, attempts: number): RecordStore {
  const error = new ConditionalCheckFailedException({
    message: 'The conditional request failed',
    $metadata: { attempts },
    Item: marshall(toRecordItems(key, stateAfter(by, { version, earlier: [] }, now))[0]),
  });
  return new RecordStore({ table: plainTable(() => Promise.reject(error)), tableName: 'any' });
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

  it('is its own first try if that is one of the latest writes', async () => {
    const earlier = [put.writeId];
    const error = new ConditionalCheckFailedException({
      message: 'The conditional request failed',
      $metadata: { attempts: 2 },
      Item: marshall(toRecordItems(key, stateAfter(theirs, { version: 6, earlier }, now))[0]),
    });
    const { applied, state } = await tableThatAnswers(error).store.attempt(key, put, now);
    expect({ applied, writeIds: state.writeIds }).toEqual({ applied: false, writeIds: [theirs.writeId, put.writeId] });
  });

  it.each(['absent', 'present'] as const)(
    'is unknown if it named no version, was sent twice, and a second version is there: %s',
    async (kind) => {
      const unnamed: Put = { ...put, expects: { kind } };
      const refused = await storeThatRefuses(theirs, 1, 2).attempt(key, unnamed, now);
      expect({ applied: refused.applied, version: refused.state.version }).toEqual({ applied: false, version: 1 });
      await expect(storeThatRefuses(theirs, 2, 2).attempt(key, unnamed, now)).rejects.toMatchObject({
        code: 'unavailable',
      });
    },
  );
});

type Input = PlainRequest;

/** A table that gives the set answers, one after the other, and notes each request. */
function tableThatAnswers(...answers: (object | Error)[]) {
  const inputs: Input[] = [];
  const table = plainTable((input) => {
    inputs.push(input);
    const answer = answers.shift() ?? {};
    if (answer instanceof Error) throw answer;
    return answer;
  });
  return { store: new RecordStore({ table, tableName: 'any' }), inputs };
}

/** The items of a record as this write left them: the head, and the value if it has an end. */
const itemsAfter = (by: Put, version: number): Item[] =>
  toRecordItems(key, stateAfter(by, { version, earlier: [] }, now)) as Item[];

const withEnd: Put = { ...put, expects: { kind: 'present' }, expiresInMs: 60_000 };
const refusedBy = (by: Put, version: number) => {
  const Item = marshall(itemsAfter(by, version)[0] as Item);
  return new TransactionCanceledException({
    message: 'cancelled',
    $metadata: { attempts: 1 },
    CancellationReasons: [{ Code: 'ConditionalCheckFailed', Item }],
  });
};

describe('a write of a record', () => {
  it('asks for the item only if its caller does not know the version', async () => {
    const named = tableThatAnswers();
    expect(await named.store.attempt(key, put, now)).toMatchObject({ applied: true, state: { version: 5 } });
    expect(named.inputs).toMatchObject([{ ReturnValues: 'NONE' }]);
    const unnamed = tableThatAnswers({ Attributes: itemsAfter(put, 9)[0] });
    const written = await unnamed.store.attempt(key, { ...put, expects: { kind: 'present' } }, now);
    expect(written).toMatchObject({ applied: true, state: { version: 9 } });
    expect(unnamed.inputs).toMatchObject([{ ReturnValues: 'ALL_NEW' }]);
  });

  it('with an end reads the version first, unless its caller names it', async () => {
    const [head] = itemsAfter(theirs, 7);
    const unnamed = tableThatAnswers({ Item: head });
    expect(await unnamed.store.attempt(key, withEnd, now)).toMatchObject({ applied: true, state: { version: 8 } });
    expect(unnamed.inputs).toHaveLength(2);
    const named = tableThatAnswers();
    const expects = { kind: 'version', version: 7 } as const;
    expect(await named.store.attempt(key, { ...withEnd, expects }, now)).toMatchObject({
      applied: true,
      state: { version: 8 },
    });
    expect(named.inputs).toHaveLength(1);
  });

  it('with an end is tried again if others wrote after the version was read', async () => {
    const { store, inputs } = tableThatAnswers(
      { Item: itemsAfter(theirs, 7)[0] },
      refusedBy(theirs, 8),
      { Item: itemsAfter(theirs, 8)[0] },
      {},
    );
    expect(await store.attempt(key, withEnd, now)).toMatchObject({ applied: true, state: { version: 9 } });
    expect(inputs).toHaveLength(4);
  });

  it('of a record that was never written makes the first version, or is refused with nothing', async () => {
    const first: Put = { ...withEnd, expects: { kind: 'absent' } };
    expect(await tableThatAnswers().store.attempt(key, first, now)).toMatchObject({
      applied: true,
      state: { version: 1 },
    });
    const refusal = new ConditionalCheckFailedException({ message: 'no', $metadata: { attempts: 1 } });
    expect(await tableThatAnswers(refusal).store.attempt(key, put, now)).toMatchObject({
      applied: false,
      state: { version: 0 },
    });
  });

  it('with an end is refused if the record is as it was read', async () => {
    const { store, inputs } = tableThatAnswers({ Item: itemsAfter(theirs, 7)[0] }, refusedBy(theirs, 7));
    expect(await store.attempt(key, withEnd, now)).toMatchObject({ applied: false, state: { version: 7 } });
    expect(inputs).toHaveLength(2);
  });

  it('is a conflict if others wrote in between five times in a row', async () => {
    const answers = Array.from({ length: 20 }, (_, index) =>
      index % 2 === 0 ? { Item: itemsAfter(theirs, 7 + index)[0] } : refusedBy(theirs, 8 + index),
    );
    const { store, inputs } = tableThatAnswers(...answers);
    await expect(store.attempt(key, withEnd, now)).rejects.toMatchObject({ code: 'conflict' });
    expect(inputs).toHaveLength(10);
  });

  it('is decided on a head and a value of the same write', async () => {
    const [head] = itemsAfter(withEnd, 6);
    const [newHead, newValue] = itemsAfter({ ...withEnd, value: '2', writeId: 'write-of-others-00' }, 7);
    const refusal = (item: Item | undefined) =>
      new ConditionalCheckFailedException({ message: 'no', $metadata: { attempts: 1 }, Item: marshall(item) });
    const { store } = tableThatAnswers(refusal(head), { Item: newValue }, refusal(newHead), { Item: newValue });
    expect(await store.attempt(key, put, now)).toMatchObject({ applied: false, state: { version: 7, value: '2' } });
  });
});

describe('a read of a record', () => {
  it('is one consistent query', async () => {
    const { store, inputs } = tableThatAnswers({ Items: itemsAfter(withEnd, 6) });
    expect(await store.read(key)).toMatchObject({ version: 6, value: '1' });
    expect(inputs).toMatchObject([
      {
        KeyConditionExpression: '#partition = :partition',
        ExpressionAttributeNames: { '#partition': 'pk' },
        ExpressionAttributeValues: { ':partition': 'test/record/record' },
        ConsistentRead: true,
      },
    ]);
  });

  it('finds no record if only a value is left', async () => {
    const { store } = tableThatAnswers({ Items: itemsAfter(withEnd, 6).slice(1) });
    expect(await store.read(key)).toMatchObject({ version: 0, value: null });
  });
});
