/** How the lock store combines its writes. The writes themselves are compared with the rules in lock-writes.test.ts. */

import { describe, expect, it } from 'vitest';
import { lockLimits } from '../../../src/lock/limits.ts';
import type { LockState } from '../../../src/lock/state.ts';
import { fromLockItem, lockItemKey, partitionOf, toLockItem } from '../../../src/queue/lock-item.ts';
import { LockStore, type LockWrite, retentionMsDefault, retentionMsMin } from '../../../src/queue/lock-store.ts';
import { moveUpPages, openPage, releaseAndHandOff, renewAllIfLive } from '../../../src/queue/lock-writes.ts';
import { appendTo, attendIn, leave, type PageKey, pageItemKey, stepAwayIn } from '../../../src/queue/page-item.ts';
import { PageStore, type PageWrite } from '../../../src/queue/page-store.ts';
import type { Page } from '../../../src/queue/pages.ts';
import type { Update } from '../../../src/table/attributes.ts';
import { toStored } from '../../../src/table/json.ts';
import { acquireOf } from '../../support/lock-worlds.ts';
import { toPageItem } from '../../support/page-items.ts';
import { type PlainRequest, plainTable } from '../../support/plain-table.ts';
import { alice, bob, LockStory } from '../lock/story.ts';

const key = { namespace: 'test', name: 'lock' };
const three = { limit: 3 };
const part = new LockStory().after(acquireOf(bob, three), acquireOf(alice, three));
const whole = new LockStory().after(acquireOf(alice));
const facts = { now: part.now, graceMs: lockLimits.graceMs };
const itemOf = (state: LockState) => toLockItem(key, state, retentionMsDefault);

const fromItem = (state: LockState) => fromLockItem(itemOf(state));

/** A table whose updates are refused with the attempts given, or applied if none is given. */
function storeThat(state: LockState, ...refusedAfterAttempts: (number | undefined)[]) {
  const { store, inputs } = storeThatAnswers(() => {
    const attempts = refusedAfterAttempts.shift();
    if (attempts === undefined) return { Attributes: itemOf(state) };
    const Item = toStored(itemOf(state));
    const refusal = { name: 'ConditionalCheckFailedException', Item, $metadata: { attempts } };
    throw Object.assign(new Error('refused'), refusal);
  });
  const slots = () => inputs.map(({ ExpressionAttributeNames: names }) => names['#holder'] ?? names['#part']);
  return { store, slots, inputs };
}

/** A table that answers every request in the same way, and notes the requests. */
function storeThatAnswers(answer: (input: PlainRequest) => object) {
  const inputs: PlainRequest[] = [];
  const table = plainTable((input) => {
    inputs.push(input);
    return answer(input);
  });
  const access = { table, tableName: 'locks' };
  return { store: new LockStore(access), pages: new PageStore(access), inputs };
}

describe.each(['renew', 'release'] as const)('%s', (kind) => {
  const command = { kind, leaseId: alice };

  it('tries the slot of the whole lock first, and then that of its part', async () => {
    const { store, slots } = storeThat(part.state, 1, undefined);
    expect(await store.attempt(key, command, facts)).toEqual({ applied: true, state: fromItem(part.state) });
    expect(slots()).toEqual(['h0', `h-${alice}`]);
  });

  it('tries only the slot of its part if it is known to hold one', async () => {
    const { store, slots } = storeThat(part.state, 1);
    const refused = { applied: false, state: fromItem(part.state), perhapsMine: false };
    expect(await store.attempt(key, command, facts, part.state)).toEqual(refused);
    expect(slots()).toEqual([`h-${alice}`]);
  });

  it('tries only the slot of the whole lock if it holds that, or nothing', async () => {
    for (const [state, known] of [
      [whole.state, whole.state],
      [whole.state, undefined],
      [new LockStory().after(acquireOf(bob, three)).state, undefined],
    ] as const) {
      const { store, slots } = storeThat(state, 2);
      expect(await store.attempt(key, command, facts, known)).toEqual({
        applied: false,
        state: fromItem(state),
        perhapsMine: true,
      });
      expect(slots()).toEqual(['h0']);
    }
  });

  it.each([
    [1, 1, false],
    [2, 1, true],
    [1, 2, true],
  ])('may have been done if one of its two writes was sent twice: %i, %i', async (first, second, perhapsMine) => {
    const { store } = storeThat(part.state, first, second);
    expect(await store.attempt(key, command, facts)).toEqual({
      applied: false,
      state: fromItem(part.state),
      perhapsMine,
    });
  });
});

describe('a write of the lock store', () => {
  const [waiter] = new LockStory().after(acquireOf(bob), acquireOf(alice, { waitMs: 1_000 })).state.queue;
  if (waiter === undefined) throw new Error('Nobody waits.');
  const { now } = facts;
  const sizes = { front: 1, page: 2 };
  const arrival = { waiter, limit: 1, frontLengthMax: 1 };
  const page: PageKey = { lock: key, number: 7 };
  const moved = { from: 7, to: 7, waiters: [waiter] };

  it.each<[LockWrite, Update]>([
    [{ kind: 'open-page', ...arrival, seen: undefined }, openPage(key, arrival, undefined)],
    [{ kind: 'move-up', pages: moved, now }, moveUpPages(moved, now)],
  ])('is one update of the lock: $kind', async (write, update) => {
    const { store, inputs } = storeThat(whole.state);
    expect(await store.write(key, write)).toEqual({ applied: true, state: whole.state });
    expect(inputs).toMatchObject([{ Key: lockItemKey(key), ...update }]);
  });

  it.each([
    [{ kind: 'renew', leaseId: alice } as const, renewAllIfLive],
    [{ kind: 'release', leaseId: alice } as const, releaseAndHandOff],
  ])('is one update of the lock for the common case of $kind', async (command, updateOf) => {
    const { store, inputs } = storeThat(whole.state);
    expect(await store.attempt(key, command, facts)).toEqual({ applied: true, state: whole.state });
    const update = updateOf(command as never, facts, retentionMsDefault);
    expect(inputs).toMatchObject([{ Key: lockItemKey(key), ...update }]);
  });

  const attendance = { leaseId: alice, presentUntil: now };
  it.each<[PageWrite, Update]>([
    [{ kind: 'join', waiter, fence: 3, sizes }, appendTo({ waiter, fence: 3 }, sizes)],
    [{ kind: 'attend', attendance }, attendIn(attendance)],
    [{ kind: 'step-away', absence: attendance }, stepAwayIn(attendance)],
    [{ kind: 'leave', leaseId: alice, how: 'released', now }, leave(alice, 'released', now)],
  ])('is one update of the page, and not of the lock: $kind', async (write, update) => {
    const stored: Page = { number: 7, waiters: [waiter], left: [], closedAt: null, fence: 3 };
    const { pages, inputs } = storeThatAnswers(() => ({ Attributes: toPageItem(key, stored, now) }));
    expect(await pages.write(page, write)).toEqual({ applied: true, page: stored });
    expect(inputs).toMatchObject([{ Key: pageItemKey(page), ...update }]);
    const read = storeThatAnswers(() => ({ Responses: { locks: [toPageItem(key, stored, now)] } }));
    expect(await read.pages.read([page, { ...page, number: 8 }])).toEqual([
      stored,
      { number: 8, waiters: [], left: [], closedAt: null, fence: 0 },
    ]);
  });

  it('makes a new item only if there is none, and otherwise replaces the revision that was read', async () => {
    const { store, inputs } = storeThatAnswers(() => ({}));
    await store.write(key, { kind: 'replace', next: { ...whole.state, rev: 1 } });
    await store.write(key, { kind: 'replace', next: { ...whole.state, rev: 9 } });
    expect(inputs[0].ConditionExpression).toBe('attribute_not_exists(#key)');
    expect(inputs[1]).toMatchObject({
      ConditionExpression: '#revision = :seen',
      ExpressionAttributeValues: { ':seen': 8 },
    });
  });

  it('of several locks is one transaction, in which a renewal writes only the lease', async () => {
    const { store, inputs } = storeThatAnswers(() => ({}));
    const other = { ...key, name: 'other' };
    const command = { kind: 'renew', leaseId: alice } as const;
    const swaps = [
      { key, next: whole.state, renewal: { command, facts } },
      { key: other, next: whole.state },
    ];
    expect(await store.writeAll(swaps)).toBe(true);
    const renewal = renewAllIfLive(command, facts, retentionMsDefault);
    expect(inputs).toMatchObject([
      {
        TransactItems: [
          { Update: { Key: lockItemKey(key), ...renewal } },
          { Put: { Item: toLockItem(other, whole.state, retentionMsDefault) } },
        ],
      },
    ]);
  });
});

describe('a read of the lock store', () => {
  it('is consistent, unless it only peeks', async () => {
    const { store, inputs } = storeThatAnswers(() => ({ Item: itemOf(whole.state) }));
    expect([await store.read(key), await store.peek(key)]).toEqual([whole.state, whole.state]);
    expect(inputs.map(({ ConsistentRead }) => ConsistentRead)).toEqual([true, undefined]);
  });

  it('takes the place of a write that the store does not have', async () => {
    const { store, inputs } = storeThatAnswers(() => ({ Item: itemOf(whole.state) }));
    const read = { applied: false, state: whole.state, perhapsMine: false };
    expect(await store.attempt(key, { kind: 'sweep' }, facts)).toEqual(read);
    expect(inputs).toMatchObject([{ ConsistentRead: true }]);
  });
});

describe('a listing', () => {
  /** A table whose index names these locks, and that has the items of some of them. */
  const tableWith = (indexed: string[], stored: string[]) => {
    let isFirst = true;
    return storeThatAnswers((input) => {
      if (input.IndexName === undefined) {
        const Items = stored.map((name) => toLockItem({ ...key, name }, whole.state, retentionMsDefault));
        return { Responses: { locks: Items } };
      }
      const Items = isFirst ? indexed.map((name) => ({ pk: partitionOf({ ...key, name }) })) : [];
      isFirst = false;
      return { Items };
    });
  };

  it('leaves out a lock whose item was deleted a moment ago', async () => {
    const { store } = tableWith(['a', 'b', 'c'], ['a', 'c']);
    expect(await store.list('test', { prefix: '', limit: 9 })).toStrictEqual({
      locks: ['a', 'c'].map((name) => ({ name, state: whole.state })),
    });
  });

  it('goes on after its last name only if there may be more', async () => {
    const full = tableWith(['a', 'b'], ['a', 'b']);
    expect((await full.store.list('test', { prefix: '', limit: 2 })).after).toBe('b');
    const empty = tableWith([], []);
    expect(await empty.store.list('test', { prefix: '', limit: 2 })).toStrictEqual({ locks: [] });
  });

  it.each([
    ['', undefined, '!'],
    ['job:', undefined, 'job:'],
    ['job:', 'job:7', 'job:7!'],
    ['job:', 'a', 'job:'],
  ])('of prefix %j after %j begins at %j, in the partition keys of the namespace', async (prefix, after, from) => {
    const { store, inputs } = tableWith([], []);
    await store.list('test', { prefix, limit: 2, ...(after === undefined ? {} : { after }) });
    expect(inputs[0].ExpressionAttributeValues).toMatchObject({
      ':from': partitionOf({ ...key, name: from }),
      ':to': partitionOf({ ...key, name: `${prefix}\u007f` }),
    });
  });
});

describe('the retention', () => {
  it('is at least two days', () => {
    const access = { table: plainTable(() => ({})), tableName: 'locks' };
    expect(() => new LockStore({ ...access, retentionMs: retentionMsMin })).not.toThrow();
    expect(() => new LockStore({ ...access, retentionMs: retentionMsMin - 1 })).toThrow(
      new RangeError('retentionMs must be at least two days (172800000), got 172799999.'),
    );
    expect(retentionMsDefault).toBe(30 * 86_400_000);
  });
});
