/** How the lock store combines its writes. The writes themselves are compared with the rules in lock-writes.test.ts. */

import { describe, expect, it } from 'vitest';
import { lockLimits } from '../../../src/lock/limits.ts';
import type { LockState } from '../../../src/lock/state.ts';
import type { TableAccess } from '../../../src/store/dynamodb/item-table.ts';
import { toLockItem } from '../../../src/store/dynamodb/lock-item.ts';
import { DynamoDBLockStore, retentionMsDefault, retentionMsMin } from '../../../src/store/dynamodb/lock-store.ts';
import type { TableCalls } from '../../../src/store/dynamodb/wire.ts';
import { toWireMap } from '../../../src/store/dynamodb/wire.ts';
import { acquireOf } from '../../support/lock-worlds.ts';
import { alice, bob, LockStory } from '../lock/story.ts';

const key = { namespace: 'test', name: 'lock' };
const three = { limit: 3 };
const part = new LockStory().after(acquireOf(bob, three), acquireOf(alice, three));
const whole = new LockStory().after(acquireOf(alice));
const facts = { now: part.now, graceMs: lockLimits.graceMs };
const itemOf = (state: LockState) => toLockItem(key, state, retentionMsDefault);

type Input = Parameters<TableCalls['update']>[0];

/** A table whose updates are refused with the attempts given, or applied if none is given. */
function storeThat(state: LockState, ...refusedAfterAttempts: (number | undefined)[]) {
  const inputs: Input[] = [];
  const update = (input: Input) => {
    inputs.push(input);
    const attempts = refusedAfterAttempts.shift();
    if (attempts === undefined) return Promise.resolve(itemOf(state));
    const Item = toWireMap(itemOf(state));
    const refusal = { name: 'ConditionalCheckFailedException', Item, $metadata: { attempts } };
    return Promise.reject(Object.assign(new Error('refused'), refusal));
  };
  const access = { calls: { update }, client: {}, tableName: 'locks' } as unknown as TableAccess;
  const slots = () => inputs.map(({ ExpressionAttributeNames: names }) => names?.['#holder']);
  return { store: new DynamoDBLockStore(access), slots };
}

describe.each(['renew', 'release'] as const)('%s', (kind) => {
  const command = { kind, leaseId: alice };

  it('tries the slot of the whole lock first, and then that of its part', async () => {
    const { store, slots } = storeThat(part.state, 1, undefined);
    expect(await store.attempt(key, command, facts)).toEqual({ applied: true, state: part.state });
    expect(slots()).toEqual(['h#0', `h#${alice}`]);
  });

  it('tries only the slot of its part if it is known to hold one', async () => {
    const { store, slots } = storeThat(part.state, 1);
    const refused = { applied: false, state: part.state, perhapsMine: false };
    expect(await store.attempt(key, command, facts, part.state)).toEqual(refused);
    expect(slots()).toEqual([`h#${alice}`]);
  });

  it('tries only the slot of the whole lock if it holds that, or nothing', async () => {
    for (const [state, known] of [
      [whole.state, whole.state],
      [whole.state, undefined],
      [new LockStory().after(acquireOf(bob, three)).state, undefined],
    ] as const) {
      const { store, slots } = storeThat(state, 2);
      expect(await store.attempt(key, command, facts, known)).toEqual({ applied: false, state, perhapsMine: true });
      expect(slots()).toEqual(['h#0']);
    }
  });

  it.each([
    [1, 1, false],
    [2, 1, true],
    [1, 2, true],
  ])('may have been done if one of its two writes was sent twice: %i, %i', async (first, second, perhapsMine) => {
    const { store } = storeThat(part.state, first, second);
    expect(await store.attempt(key, command, facts)).toEqual({ applied: false, state: part.state, perhapsMine });
  });
});

describe('the retention', () => {
  it('is at least two days', () => {
    const access = { client: {}, tableName: 'locks' } as unknown as TableAccess;
    expect(() => new DynamoDBLockStore({ ...access, retentionMs: retentionMsMin })).not.toThrow();
    expect(() => new DynamoDBLockStore({ ...access, retentionMs: retentionMsMin - 1 })).toThrow(
      new RangeError('retentionMs must be at least two days (172800000), got 172799999.'),
    );
    expect(retentionMsDefault).toBe(30 * 86_400_000);
  });
});
