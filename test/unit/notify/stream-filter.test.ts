import type { DynamoDBRecord } from 'aws-lambda';
import { describe, expect, it } from 'vitest';
import { notifierFilter, passesFilter, publisherFilter } from '../../../src/notify/stream-filter.ts';
import { createWorld } from './world.ts';

const recordOf = (sk: string, more: object = {}): DynamoDBRecord => ({
  dynamodb: { Keys: { pk: { S: 'test/lock/a' }, sk: { S: sk } }, ...more },
});
const awaited = { ap: { S: 'awaited/1' } };
const ownWrites = ['session', 'record', 'timer', 'connection', 'lock/x', '0001794836660898.0000000000000003.0001'];

describe('the filter of the publisher', () => {
  it.each(['lock', 'page', 'watcher/abc='])('passes %s', (sk) => {
    expect(passesFilter(recordOf(sk), publisherFilter)).toBe(true);
  });

  it.each(ownWrites)('stops %s, so writes of the functions do not call them again', (sk) => {
    expect(passesFilter(recordOf(sk), publisherFilter)).toBe(false);
  });

  it('stops a record without keys', () => {
    expect(passesFilter({}, publisherFilter)).toBe(false);
  });
});

describe('the filter of the notifier', () => {
  it('passes a lock that is awaited, before or after the change', () => {
    expect(passesFilter(recordOf('lock', { NewImage: awaited }), notifierFilter)).toBe(true);
    expect(passesFilter(recordOf('lock', { OldImage: awaited, NewImage: {} }), notifierFilter)).toBe(true);
  });

  it('stops locks that nobody waits for, and everything else', () => {
    expect(passesFilter(recordOf('lock', { NewImage: {}, OldImage: {} }), notifierFilter)).toBe(false);
    for (const sk of [...ownWrites, 'watcher/abc='])
      expect(passesFilter(recordOf(sk, { NewImage: awaited }), notifierFilter)).toBe(false);
  });

  it('passes a page with parked waiters, and stops one without', () => {
    const parked = { n: { S: 'parked' } };
    expect(passesFilter(recordOf('page', { NewImage: parked }), notifierFilter)).toBe(true);
    expect(passesFilter(recordOf('page', { NewImage: {} }), notifierFilter)).toBe(false);
    expect(passesFilter(recordOf('page', { OldImage: parked }), notifierFilter)).toBe(false);
    for (const sk of ['lock', ...ownWrites])
      expect(passesFilter(recordOf(sk, { NewImage: parked }), notifierFilter)).toBe(false);
  });

  it('names the fields by which Lambda tells whether somebody waits', () => {
    expect(notifierFilter).toEqual([
      { dynamodb: { Keys: { sk: { S: ['page'] } }, NewImage: { n: { S: [{ exists: true }] } } } },
      { dynamodb: { Keys: { sk: { S: ['lock'] } }, NewImage: { ap: { S: [{ exists: true }] } } } },
      { dynamodb: { Keys: { sk: { S: ['lock'] } }, OldImage: { ap: { S: [{ exists: true }] } } } },
    ]);
  });

  it('stops every record of a lock that is taken and released while nobody waits', async () => {
    const world = createWorld();
    await world.acquire('lease-holder-00001');
    await world.release('lease-holder-00001');
    expect(world.records().map((record) => passesFilter(record, notifierFilter))).toEqual([false, false]);
    expect(world.records().map((record) => passesFilter(record, publisherFilter))).toEqual([true, true]);
  });
});

describe('both filters', () => {
  it('have the form that Lambda reads: fields, with lists of rules', () => {
    const leaves = (value: unknown): unknown[] =>
      Array.isArray(value) ? [value] : Object.values(value as object).flatMap(leaves);
    for (const pattern of [...notifierFilter, ...publisherFilter]) {
      for (const rules of leaves(pattern)) expect(rules).toBeInstanceOf(Array);
    }
    expect(notifierFilter.length).toBeLessThanOrEqual(5);
  });
});
