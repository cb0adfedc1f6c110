import { describe, expect, it } from 'vitest';
import { unusedLock } from '../../../src/lock/state.ts';
import { changedLock, lockChangeOf, pageChangeOf, revisionOf } from '../../../src/notify/lock-change.ts';
import { createWorld, lockKey } from './world.ts';

describe('lockChangeOf', () => {
  it('shows the lock before and after the write', async () => {
    const world = createWorld();
    const { state: held } = await world.acquire('lease-holder-00001');
    const { state: free } = await world.release('lease-holder-00001');
    expect(world.records().map(lockChangeOf)).toEqual([
      { key: lockKey, before: unusedLock, after: held },
      { key: lockKey, before: held, after: free },
    ]);
  });

  it('ignores other items', () => {
    const Keys = { pk: { S: 'test/history/wallet' }, sk: { S: '1' } };
    expect(lockChangeOf({ dynamodb: { Keys } })).toBeUndefined();
  });
});

describe('a record of the stream', () => {
  const keys = (pk?: string, sk?: string) => ({
    dynamodb: {
      Keys: { ...(pk === undefined ? {} : { pk: { S: pk } }), ...(sk === undefined ? {} : { sk: { S: sk } }) },
    },
  });

  it.each([
    ['without anything', {}],
    ['without keys', { dynamodb: {} }],
    ['without a partition key', keys(undefined, 'lock')],
    ['without a sort key', keys('test/lock/a')],
    ['with keys that are no texts', { dynamodb: { Keys: { pk: { N: '1' }, sk: { N: '1' } } } }],
  ])('is about neither a lock nor a page: %s', (_, record) => {
    expect([changedLock(record), lockChangeOf(record), pageChangeOf(record)]).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
  });

  it('is about the lock or the page that its keys name', () => {
    expect(changedLock(keys('test/lock/a', 'lock'))).toEqual({ namespace: 'test', name: 'a' });
    expect(pageChangeOf(keys('test/page/a#7', 'page'))?.key).toEqual({ namespace: 'test', name: 'a' });
    expect(pageChangeOf(keys('test/lock/a', 'lock'))).toBeUndefined();
  });

  it('has the revision after the change, or none', async () => {
    const world = createWorld();
    await world.acquire('lease-holder-00001');
    await world.release('lease-holder-00001');
    expect(world.records().map(revisionOf)).toEqual([1, 2]);
    for (const record of [{}, { dynamodb: {} }, { dynamodb: { NewImage: {} } }]) expect(revisionOf(record)).toBe(0);
  });
});
