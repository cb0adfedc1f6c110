import { describe, expect, it } from 'vitest';
import {
  asMap,
  asText,
  condition,
  instant,
  integer,
  list,
  map,
  oneOf,
  optional,
  text,
  update,
} from '../../../src/table/attributes.ts';

const words = { front: 'q', presentUntil: 'k', limit: 'lim', queuedLeases: 'w' };

describe('an expression', () => {
  it('names attributes and values, and no functions or operators', () => {
    const when = 'attribute_exists(front[0]) AND front[0].presentUntil > :now OR size (front) < :longest';
    expect(condition(when, words, { now: 5, longest: 3, unused: 1 })).toEqual({
      ConditionExpression: 'attribute_exists(#front[0]) AND #front[0].#presentUntil > :now OR size (#front) < :longest',
      ExpressionAttributeNames: { '#front': 'q', '#presentUntil': 'k' },
      ExpressionAttributeValues: { ':now': 5, ':longest': 3 },
    });
  });

  it('takes only a word of capitals alone for an operator', () => {
    const { ConditionExpression } = condition('leaseMS = Xray AND AB = leaseMS', { leaseMS: 'l', Xray: 'x' });
    expect(ConditionExpression).toBe('#leaseMS = #Xray AND AB = #leaseMS');
  });

  it('has a part for each clause of an update, and none for one that is not given', () => {
    const clauses = {
      set: ['limit = :one', 'presentUntil = :one'],
      remove: ['front[0]', 'front[1]'],
      add: 'queuedLeases :lease',
      take: 'queuedLeases :other',
      when: 'limit = :one',
    };
    expect(update(clauses, words, { one: 1, lease: 'a', other: 'b' })).toEqual({
      UpdateExpression:
        'SET #limit = :one, #presentUntil = :one REMOVE #front[0], #front[1] ADD #queuedLeases :lease DELETE #queuedLeases :other',
      ConditionExpression: '#limit = :one',
      ExpressionAttributeNames: { '#limit': 'lim', '#presentUntil': 'k', '#front': 'q', '#queuedLeases': 'w' },
      ExpressionAttributeValues: { ':one': 1, ':lease': 'a', ':other': 'b' },
    });
    const ofLimit = { ExpressionAttributeNames: { '#limit': 'lim' } };
    expect(update({ remove: ['limit'] }, words)).toStrictEqual({ UpdateExpression: 'REMOVE #limit', ...ofLimit });
    expect(update({ set: ['limit = limit'] }, words)).toStrictEqual({
      UpdateExpression: 'SET #limit = #limit',
      ...ofLimit,
    });
    expect(condition('TRUE', words)).toEqual({ ConditionExpression: 'TRUE' });
  });

  it('does not take a word or a value that it does not know', () => {
    expect(() => condition('owner = :now', words, { now: 1 })).toThrow(
      new TypeError('No attribute is called "owner" here.'),
    );
    expect(() => condition('limit = :now', words)).toThrow(new TypeError('No value is given for :now.'));
  });
});

describe('a stored value', () => {
  it('is read as what it is', () => {
    const item = { a: 'text', b: 7, c: [1], d: { e: 1 } };
    expect([text(item, 'a'), integer(item, 'b'), instant(item, 'b')]).toEqual(['text', 7, 7]);
    expect([list(item, 'c'), map(item, 'd'), asMap(item.d, 'd'), asText('x', 'a')]).toEqual([
      [1],
      { e: 1 },
      { e: 1 },
      'x',
    ]);
    expect(oneOf({ a: 'two' }, 'a', ['one', 'two'])).toBe('two');
    expect([optional(text, item, 'a'), optional(text, item, 'z')]).toEqual(['text', undefined]);
  });

  it.each<[string, () => unknown, string]>([
    ['a text', () => text({ a: 7 }, 'a'), '"a" should be a string and is a number'],
    ['a text by itself', () => asText(null, 'a'), '"a" should be a string and is null'],
    ['a whole number', () => integer({ a: 1.5 }, 'a'), '"a" should be a whole number and is a number'],
    ['a list', () => list({ a: 'x' }, 'a'), '"a" should be a list and is a string'],
    ['a map', () => map({ a: [] }, 'a'), '"a" should be a map and is a list'],
    ['a map and not missing', () => map({}, 'a'), '"a" should be a map and is missing'],
    ['a map and not null', () => asMap(null, 'a'), '"a" should be a map and is null'],
    ['one of some', () => oneOf({ a: 'three' }, 'a', ['one', 'two']), '"a" is none of one, two'],
    ['an optional text', () => optional(text, { a: 7 }, 'a'), '"a" should be a string and is a number'],
  ])('that should be %s fails closed, and the error names no value', (_what, read, why) => {
    expect(read).toThrow(
      expect.objectContaining({ code: 'unreadable', message: `A stored item can't be used: ${why}.` }),
    );
  });
});
