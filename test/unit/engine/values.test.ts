/** What the engine stores: numbers in one spelling, and only values and names that DynamoDB takes. */
import { describe, expect, it } from 'vitest';
import { addNumbers, compareNumbers, spelled } from '../../../src/engine/numbers.ts';
import type { Item, Value } from '../../../src/engine/values.ts';
import { world } from './world.ts';

describe('a number', () => {
  it.each([
    ['1.0', '1'],
    ['-0', '0'],
    ['+7', '7'],
    ['007', '7'],
    ['1e3', '1000'],
    ['1E-2', '0.01'],
    ['-12.340', '-12.34'],
    ['.5', '0.5'],
    ['123456789012345678901234567890', '123456789012345678901234567890'],
    ['1e-130', `0.${'0'.repeat(129)}1`],
  ])('%s is stored as %s', (text, stored) => {
    expect(spelled(text)).toBe(stored);
  });

  it.each(['', ' 1', 'x', '0x10', 'Infinity', '1e126', '1e-131', '1'.repeat(39)])('"%s" is refused', (text) => {
    expect(() => spelled(text)).toThrow(expect.objectContaining({ name: 'ValidationException' }));
  });

  it('is exact in sums and comparisons, where JavaScript rounds', () => {
    expect(addNumbers('0.1', '0.2', 1)).toBe('0.3');
    expect(addNumbers('9007199254740993', '1', 1)).toBe('9007199254740994');
    expect(addNumbers('1800000000000', '1800000000001', -1)).toBe('-1');
    expect(compareNumbers('9007199254740993', '9007199254740992')).toBeGreaterThan(0);
    expect(compareNumbers('0.10', '0.1')).toBe(0);
  });
});

describe('an item', () => {
  it.each<[string, Value]>([
    ['an empty name in a map', { M: { '': { S: 'k' } } }],
    ['an empty name deep inside', { L: [{ M: { a: { M: { '': { S: 'k' } } } } }] }],
    ['an empty set', { SS: [] }],
    ['a set with duplicates', { SS: ['a', 'a'] }],
    ['a set with one number twice', { NS: ['1', '1.0'] }],
    ['two types at once', { S: 'a', N: '1' } as Value],
    ['no type', {} as Value],
  ])('is refused with %s', (_, value) => {
    const { put, get, update } = world();
    const refused = expect.objectContaining({ name: 'ValidationException' });
    expect(() => put('a', { value })).toThrow(refused);
    expect(() => update('a', 'SET x = :value', { ':value': value })).toThrow(refused);
    expect(get('a')).toBeUndefined();
  });

  it('may have attributes with names that every object inherits', () => {
    const { put, get, update } = world();
    put('a', { toString: { S: 'x' } } as Item);
    update('a', 'SET #p = :one REMOVE toString', { ':one': { N: '1' } }, { '#p': '__proto__' });
    const item = get('a') as Item;
    expect(Object.keys(item)).toEqual(['p', 's', '__proto__']);
    expect(Object.getPrototypeOf(item)).toBe(Object.prototype);
    expect(() => update('b', 'SET x = constructor')).toThrow('does not exist');
  });
});

describe('a transaction', () => {
  it('says which of its writes is wrong for its item, and writes nothing', () => {
    const { call, put, get, keyOf } = world();
    put('a', { n: { S: 'text' } });
    const values = { ExpressionAttributeValues: { ':one': { N: '1' } } };
    const add = { TableName: 't', Key: keyOf('a'), UpdateExpression: 'ADD n :one', ...values };
    const TransactItems = [{ Put: { TableName: 't', Item: keyOf('b') } }, { Update: add }];
    expect(() => call('TransactWriteItems', { TransactItems })).toThrow(
      expect.objectContaining({
        name: 'TransactionCanceledException',
        more: { CancellationReasons: [{ Code: 'None' }, expect.objectContaining({ Code: 'ValidationError' })] },
      }),
    );
    expect(get('b')).toBeUndefined();
  });

  it('is refused if two of its writes are about one item', () => {
    const { call, keyOf } = world();
    const Key = keyOf('a');
    const ConditionCheck = { TableName: 't', Key, ConditionExpression: 'attribute_not_exists(p)' };
    const TransactItems = [{ ConditionCheck }, { Put: { TableName: 't', Item: Key } }];
    expect(() => call('TransactWriteItems', { TransactItems })).toThrow('multiple operations on one item');
  });
});
