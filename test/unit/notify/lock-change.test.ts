import { describe, expect, it } from 'vitest';
import { unusedLock } from '../../../src/lock/state.ts';
import { lockChangeOf } from '../../../src/notify/lock-change.ts';
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
