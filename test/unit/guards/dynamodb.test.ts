import type { PutItemCommandInput } from '@aws-sdk/client-dynamodb';
import type { TransactWriteCommandInput } from '@aws-sdk/lib-dynamodb';
import { describe, expect, expectTypeOf, it } from 'vitest';
import { fenceDynamoDB, judgeDynamoDBError, tombstoneDynamoDB } from '../../../src/guards/dynamodb.ts';

describe('fenceDynamoDB', () => {
  it('adds the condition and the floor to a put', () => {
    expect(fenceDynamoDB({ Put: { TableName: 't', Item: { id: 1 } } }, { fence: 34 })).toEqual({
      Put: {
        TableName: 't',
        Item: { id: 1, fence: 34 },
        ConditionExpression: '(attribute_not_exists(#holdfastFence) OR #holdfastFence <= :holdfastFence)',
        ExpressionAttributeNames: { '#holdfastFence': 'fence' },
        ExpressionAttributeValues: { ':holdfastFence': 34 },
        ReturnValuesOnConditionCheckFailure: 'ALL_OLD',
      },
    });
  });

  it('uses the marshalled form on request', () => {
    const { Put } = fenceDynamoDB(
      { Put: { TableName: 't', Item: { id: { S: 'a' } } } },
      { fence: 34, attribute: 'f', marshalled: true },
    );
    expect(Put.Item).toEqual({ id: { S: 'a' }, f: { N: '34' } });
    expect(Put).toMatchObject({
      ExpressionAttributeNames: { '#holdfastFence': 'f' },
      ExpressionAttributeValues: { ':holdfastFence': { N: '34' } },
    });
  });

  it('replaces the floor of an item that was read before', () => {
    expect(fenceDynamoDB({ Put: { TableName: 't', Item: { fence: 12 } } }, { fence: 34 }).Put.Item).toEqual({
      fence: 34,
    });
  });

  const unfenced = '(attribute_not_exists(#holdfastFence) OR #holdfastFence <= :holdfastFence)';

  it.each([
    ['a = :a OR b = :b', '(a = :a OR b = :b)'],
    ['attribute_exists(id)', '(attribute_exists(id))'],
    ['(a = :a) OR (b = :b)', '((a = :a) OR (b = :b))'],
    // DynamoDB refuses doubled parentheses.
    ['(a = :a OR b = :b)', '(a = :a OR b = :b)'],
    [' ((a = :a) OR (b = :b)) ', '((a = :a) OR (b = :b))'],
  ])("demands the caller's own condition %s as a whole, besides the fence", (own, enclosed) => {
    const Key = { id: 1 };
    const input = { TableName: 't', Key, ConditionExpression: own };
    const ConditionExpression = `${enclosed} AND ${unfenced}`;
    expect(fenceDynamoDB({ Delete: input }, { fence: 34 })).toMatchObject({ Delete: { Key, ConditionExpression } });
    expect(fenceDynamoDB({ ConditionCheck: input }, { fence: 34 })).toMatchObject({
      ConditionCheck: { Key, ConditionExpression },
    });
  });

  it.each([
    [undefined, 'SET #holdfastFence = :holdfastFence'],
    ['REMOVE draft', 'SET #holdfastFence = :holdfastFence REMOVE draft'],
    ['SET a = :a', 'SET #holdfastFence = :holdfastFence, a = :a'],
    ['REMOVE #set set a = :a', 'REMOVE #set set #holdfastFence = :holdfastFence, a = :a'],
  ])('raises the floor in the update %s', (own, UpdateExpression) => {
    const input = { TableName: 't', Key: { id: 1 }, ...(own === undefined ? {} : { UpdateExpression: own }) };
    expect(fenceDynamoDB({ Update: input }, { fence: 34 }).Update).toMatchObject({ UpdateExpression });
  });

  it('does not modify its input', () => {
    const input = {
      Update: {
        TableName: 't',
        Key: { id: 1 },
        UpdateExpression: 'SET a = :a',
        ExpressionAttributeValues: { ':a': 1 },
      },
    };
    const before = structuredClone(input);
    fenceDynamoDB(input, { fence: 34 });
    expect(input).toEqual(before);
  });

  it('takes aliases that the caller has not taken', () => {
    const Delete = {
      TableName: 't',
      Key: { id: 1 },
      ExpressionAttributeNames: { '#holdfastFence': 'mine', '#holdfastFence2': 'too' },
      ExpressionAttributeValues: { ':holdfastFence': 'mine' },
    };
    const fenced = fenceDynamoDB({ Delete }, { fence: 34 }).Delete;
    expect(fenced.ExpressionAttributeNames).toEqual({
      '#holdfastFence': 'mine',
      '#holdfastFence2': 'too',
      '#holdfastFence3': 'fence',
    });
    expect(fenced.ExpressionAttributeValues).toEqual({ ':holdfastFence': 'mine', ':holdfastFence2': 34 });
  });

  it('refuses a write that names no operation, or two', () => {
    expect(() => fenceDynamoDB({}, { fence: 34 })).toThrow('got none');
    const Key = { id: 1 };
    expect(() =>
      fenceDynamoDB({ Delete: { TableName: 't', Key }, Update: { TableName: 't', Key } }, { fence: 34 }),
    ).toThrow('got Delete, Update');
  });

  it("keeps the types of either client's inputs", () => {
    const put = {} as { Put: PutItemCommandInput };
    expectTypeOf(fenceDynamoDB<typeof put>).returns.toEqualTypeOf<typeof put>();
    type Item = NonNullable<TransactWriteCommandInput['TransactItems']>[number];
    expectTypeOf(fenceDynamoDB<Item>).returns.toEqualTypeOf<Item>();
  });
});

describe('tombstoneDynamoDB', () => {
  it('leaves the key, the floor and a marker of the item', () => {
    const plain = tombstoneDynamoDB({ TableName: 't', Key: { id: 1 } }, { fence: 34 });
    expect(plain.Put).toMatchObject({ TableName: 't', Item: { id: 1, deleted: true, fence: 34 } });
    expect(plain.Put).not.toHaveProperty('Key');
    const options = { fence: 34, marshalled: true, marker: 'gone' };
    expect(tombstoneDynamoDB({ TableName: 't', Key: { id: { N: '1' } } }, options).Put.Item).toEqual({
      ...{ id: { N: '1' }, gone: { BOOL: true }, fence: { N: '34' } },
    });
  });

  it("refuses a marker that is a part of the item's key", () => {
    expect(() => tombstoneDynamoDB({ TableName: 't', Key: { deleted: 'x' } }, { fence: 34 })).toThrow('key attribute');
  });
});

describe('judgeDynamoDBError', () => {
  const refused = (Item?: object) => Object.assign(new Error(), { name: 'ConditionalCheckFailedException', Item });

  it.each([[{ N: '34' }], [34], [34n], [{ value: '34' }]])('reads the floor %o of the old item', (fence) => {
    expect(judgeDynamoDBError(refused({ fence }), { fence: 33 })).toEqual({ kind: 'stale', fence: 33, floor: 34 });
  });

  it.each([undefined, {}, { fence: { N: '33' } }, { fence: { N: '32' } }])(
    "blames the caller's condition when the floor is not above the fence: %o",
    (item) => {
      expect(judgeDynamoDBError(refused(item), { fence: 33 })).toEqual({ kind: 'condition' });
    },
  );

  it('throws on a floor that is not a number', () => {
    expect(() => judgeDynamoDBError(refused({ fence: { S: '34' } }), { fence: 33 })).toThrow('attribute "fence"');
  });

  it('finds the stale item among the reasons of a transaction', () => {
    const CancellationReasons = [
      { Code: 'None' },
      { Code: 'ConditionalCheckFailed', Item: { fence: { N: '30' } } },
      { Code: 'ConditionalCheckFailed', Item: { fence: { N: '34' } } },
      { Code: 'TransactionConflict' },
      // There was no item, so there was no floor either.
      { Code: 'ConditionalCheckFailed' },
    ];
    const error = { name: 'TransactionCanceledException', CancellationReasons };
    expect(judgeDynamoDBError(error, { fence: 33 })).toEqual({ kind: 'stale', fence: 33, floor: 34 });
    const kinds = [0, 1, 2, 3, 4, 5].map((index) => judgeDynamoDBError(error, { fence: 33, index }).kind);
    expect(kinds).toEqual(['unrelated', 'condition', 'stale', 'conflict', 'condition', 'unrelated']);
  });

  it.each([[null], ['text'], [new Error('x')], [{ name: 'TransactionCanceledException' }]])(
    'calls %o unrelated',
    (error) => {
      expect(judgeDynamoDBError(error, { fence: 33 })).toEqual({ kind: 'unrelated' });
    },
  );

  it('calls a conflict with a transaction a conflict', () => {
    expect(judgeDynamoDBError({ name: 'TransactionConflictException' }, { fence: 33 })).toEqual({ kind: 'conflict' });
  });
});
