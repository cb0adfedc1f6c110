/** What the stores ask of DynamoDB, seen on the requests themselves: consistency, times of collection, and repeats. */
import { ProvisionedThroughputExceededException, TransactionConflictException } from '@aws-sdk/client-dynamodb';
import type { DynamoDBDocumentClient } from '@aws-sdk/lib-dynamodb';
import { describe, expect, it } from 'vitest';
import { DynamoDBWatchers } from '../../../src/store/dynamodb/connection-items.ts';
import { mayHaveTakenEffect } from '../../../src/store/dynamodb/failures.ts';
import { DynamoDBHistory } from '../../../src/store/dynamodb/history-items.ts';
import { ItemTable } from '../../../src/store/dynamodb/item-table.ts';
import { DynamoDBLockStore } from '../../../src/store/dynamodb/lock-store.ts';
import { DynamoDBDeliveries, DynamoDBTimerNotes } from '../../../src/store/dynamodb/notifier-items.ts';
import { DynamoDBRecordStore } from '../../../src/store/dynamodb/record-items.ts';
import { DynamoDBSessionStore } from '../../../src/store/dynamodb/session-store.ts';
import { DynamoDBSockets } from '../../../src/store/dynamodb/socket-items.ts';
import { VirtualTime } from '../../../src/testing/virtual-time.ts';
import { after, epochMs } from '../../../src/time/clock.ts';
import { defined } from '../../../src/tools/collections.ts';
import { acquireOf } from '../../support/lock-worlds.ts';

const now = epochMs(1_800_000_000_000);
const [hour, day] = [3_600_000, 86_400_000];
const key = { namespace: 'test', name: 'lock' };
const session = { namespace: 'test', sessionId: 'session-1' };
const later = (ms: number) => after(now, ms);
const secondsAfterNow = (ttl: number): number => ttl - now / 1_000;

// biome-ignore lint/suspicious/noExplicitAny: each kind of request has its own shape.
type Input = any;

/** A table that notes each request and answers as the test says. */
function tableThat(answer: (input: Input) => unknown = () => ({})) {
  const inputs: Input[] = [];
  const client = {
    send: async ({ input }: { input: Input }) => {
      inputs.push(input);
      return answer(input);
    },
  } as unknown as DynamoDBDocumentClient;
  const time = new VirtualTime({ startAt: now });
  const pauses: number[] = [];
  const timers = {
    after: (ms: number, run: () => void) => {
      pauses.push(ms);
      return time.after(ms, run);
    },
  };
  // Each random pause is half of the longest one.
  return { inputs, time, pauses, access: { client, tableName: 'locks', clock: time, timers, random: () => 0.5 } };
}

/** The time of collection in a request, in seconds from now. */
function collectedAfter(input: Input): number {
  const [batch] = Object.values(input.RequestItems ?? {}) as { PutRequest: { Item: { ttl: number } } }[][];
  const put = input.Item ?? batch?.[0]?.PutRequest.Item ?? input.TransactItems?.[1].Put.Item;
  return secondsAfterNow(put?.ttl ?? input.ExpressionAttributeValues[':collectAt']);
}

describe('an item is collected', () => {
  const bySession = { sessionId: session.sessionId, owner: 'me', ttlMs: 30_000, createdAt: now, waits: [] };
  const waiter = {
    ...{ leaseId: 'lease-a-0000000000', owner: 'me', permits: 1, leaseMs: 1_000, queuedAt: now },
    ...{ deadlineAt: later(60_000), presentUntil: later(60_000) },
  };
  const put = { kind: 'put', value: '1', expects: { kind: 'version', version: 1 }, writeId: 'w', expiresInMs: 5_000 };
  const event = { at: now, type: 'released', fence: 1, owner: 'me' } as const;
  type Access = ReturnType<typeof tableThat>['access'];

  const kinds: [string, number, (access: Access) => Promise<unknown>][] = [
    ['a delivery', 2 * day, (access) => new DynamoDBDeliveries(access).begin(key, 1)],
    ['a delivery that was made', 2 * day, (access) => new DynamoDBDeliveries(access).markDelivered(key, 1)],
    ['the note of a timer', hour + 5_000, (access) => new DynamoDBTimerNotes(access).write(key, later(5_000))],
    [
      'a ticket',
      60_000,
      (access) =>
        new DynamoDBSockets(access).issue('secret', { namespace: 'a', caller: 'b', expiresAt: later(60_000) }),
    ],
    [
      'a wait on a connection',
      hour + 5_000,
      (access) => new DynamoDBSockets(access).noteWait('c', { key, leaseId: 'lease' }, later(5_000)),
    ],
    [
      'a connection',
      3 * hour,
      (access) =>
        new DynamoDBWatchers(access).add({
          ...{ namespace: 'test', caller: 'me', connectionId: 'c', connectedAt: now },
          subject: 'nothing',
        }),
    ],
    [
      'a session',
      7 * day + 30_000,
      (access) => new DynamoDBSessionStore(access).create('test', { ...bySession, expiresAt: later(30_000) }),
    ],
    [
      'a session with a keepalive',
      7 * day + hour,
      (access) => new DynamoDBSessionStore(access).keepAlive(session, now),
    ],
    ['a session that has ended', 7 * day, (access) => new DynamoDBSessionStore(access).end(session, now)],
    ['the note of a part', 37 * day, (access) => new DynamoDBSessionStore(access).notePart(session, 'lock', now)],
    [
      'an entry of a history',
      7 * day,
      (access) => new DynamoDBHistory(access).append([{ key, place: 'place', event }]),
    ],
    [
      'the value of a record',
      65_000,
      (access) => new DynamoDBRecordStore(access).attempt({ namespace: 'test', key: 'r' }, put as never, now),
    ],
    [
      'a page',
      30 * day,
      (access) =>
        new DynamoDBLockStore(access).appendToPage(
          { lock: key, number: 7 },
          { waiter, fence: 1 },
          { front: 2, page: 2 },
        ),
    ],
    ['a closed page', 30 * day, (access) => new DynamoDBLockStore(access).closePage({ lock: key, number: 7 }, now)],
    [
      'a lock',
      30 * day,
      (access) => new DynamoDBLockStore(access).attempt(key, acquireOf('lease-a-0000000000'), { now, graceMs: 250 }),
    ],
    [
      'a lock with the shortest retention and the longest lease',
      2 * day,
      (access) =>
        new DynamoDBLockStore({ ...access, retentionMs: 2 * day }).attempt(
          key,
          acquireOf('lease-a-0000000000', { leaseMs: day }),
          { now, graceMs: 250 },
        ),
    ],
  ];

  it.each(kinds)('in seconds, and at the right time: %s', async (_kind, afterMs, write) => {
    const { access, inputs } = tableThat();
    // Some answers are not what the store expects. Only the request matters here.
    await write(access).catch(() => undefined);
    expect(collectedAfter(inputs.at(-1))).toBe(afterMs / 1_000);
  });

  it('never while a session holds it', async () => {
    const { access, inputs } = tableThat();
    const acquire = acquireOf('lease-a-0000000000', { limit: 2, leaseMs: null, sessionId: session.sessionId });
    await new DynamoDBLockStore(access).attempt(key, acquire, { now, graceMs: 250 }).catch(() => undefined);
    expect(inputs[0].UpdateExpression).toMatch(/REMOVE #collectAt/);
  });
});

describe('a read that decides something', () => {
  const reads: [string, (access: ReturnType<typeof tableThat>['access']) => Promise<unknown>][] = [
    ['a lock', (access) => new DynamoDBLockStore(access).read(key)],
    ['many locks', (access) => new DynamoDBLockStore(access).readMany([key, { ...key, name: 'other' }])],
    ['pages', (access) => new DynamoDBLockStore(access).readPages([{ lock: key, number: 7 }])],
    ['a session', (access) => new DynamoDBSessionStore(access).read('test', ['one'])],
    ['several sessions', (access) => new DynamoDBSessionStore(access).read('test', ['one', 'other'])],
    ['a record', (access) => new DynamoDBRecordStore(access).read({ namespace: 'test', key: 'r' })],
    ['watchers', (access) => new DynamoDBWatchers(access).welcomed('test')],
    ['a connection', (access) => new DynamoDBSockets(access).connection('c')],
    ['the waits of a connection', (access) => new DynamoDBSockets(access).waitsOn('c', 'test')],
    ['a delivery', (access) => new DynamoDBDeliveries(access).read(key, 1)],
    ['the note of a timer', (access) => new DynamoDBTimerNotes(access).read(key)],
  ];

  it.each(reads)('is consistent: %s', async (_what, read) => {
    const { access, inputs } = tableThat();
    await read(access);
    const [batch] = Object.values(inputs[0].RequestItems ?? {}) as { ConsistentRead?: boolean }[];
    expect((batch ?? inputs[0]).ConsistentRead).toBe(true);
  });
});

describe('a table that does only a part', () => {
  const items = Array.from({ length: 30 }, (_, index) => ({ pk: `item-${index}`, sk: 'item' }));

  it('is asked again for keys that it did not read, in batches of a hundred', async () => {
    const many = Array.from({ length: 130 }, (_, index) => ({ pk: `item-${index}`, sk: 'item' }));
    const { access, inputs, time } = tableThat(({ RequestItems: { locks } }) => ({
      Responses: { locks: locks.Keys.slice(0, 20) },
      UnprocessedKeys: locks.Keys.length > 20 ? { locks: { Keys: locks.Keys.slice(20) } } : {},
    }));
    const read = new ItemTable(access).getMany(many);
    await time.advance(5_000);
    expect((await read).map((item) => item?.pk)).toEqual(many.map(({ pk }) => pk));
    for (const { RequestItems } of inputs) expect(RequestItems.locks.Keys.length).toBeLessThanOrEqual(100);
  });

  it('is given up if it reads nothing several times in a row', async () => {
    const { access, inputs, time, pauses } = tableThat(({ RequestItems }) => ({ UnprocessedKeys: RequestItems }));
    const read = new ItemTable(access).getMany(items).catch((error: unknown) => error);
    await time.advance(60_000);
    expect(await read).toMatchObject({ code: 'throttled', message: 'The store throttled the request.' });
    expect(inputs).toHaveLength(5);
    expect(pauses).toEqual([10, 20, 40, 80]);
  });

  it('is asked again for what it did not write, in batches of 25, and the rest is returned', async () => {
    const stuck = 'item-27';
    const { access, inputs, time, pauses } = tableThat(({ RequestItems: { locks } }) => ({
      UnprocessedItems: { locks: locks.filter((request: Input) => request.PutRequest.Item.pk === stuck) },
    }));
    const written = new ItemTable(access).replaceMany(items);
    await time.advance(60_000);
    expect(await written).toEqual([{ pk: stuck, sk: 'item' }]);
    expect(inputs.map(({ RequestItems }) => RequestItems.locks.length)).toEqual([25, 5, 1, 1, 1]);
    expect(pauses).toEqual([20, 40, 80]);
  });

  it.each([
    ['AccessDeniedException', 2],
    ['ThrottlingException', 8],
  ])('is not believed to have written batches that it refused by %s, after %i requests', async (name, requests) => {
    const { access, inputs, time } = tableThat(() => {
      throw Object.assign(new Error('no'), { name });
    });
    const written = new ItemTable(access).replaceMany(items);
    await time.advance(60_000);
    expect(await written).toEqual(items);
    expect(inputs).toHaveLength(requests);
  });

  it('is asked for the next page of a query until there is none', async () => {
    const { access } = tableThat(({ ExclusiveStartKey }) =>
      ExclusiveStartKey === undefined
        ? { Items: [{ pk: 'first' }], LastEvaluatedKey: { pk: 'first' } }
        : { Items: [{ pk: 'second' }] },
    );
    const query = { where: 'partition = :p', words: { partition: 'pk' }, values: { p: 'x' } };
    expect(await new ItemTable(access).query(query)).toEqual([{ pk: 'first' }, { pk: 'second' }]);
  });
});

describe('a request to the table', () => {
  const item = { pk: 'item', sk: 'item' };
  const raise = { UpdateExpression: 'SET #n = :one', ExpressionAttributeValues: { ':one': 1 } };
  const onlyIf = { ConditionExpression: 'attribute_exists(#n)' };
  const inLocks = { TableName: 'locks' };
  const ALL_OLD = 'ALL_OLD';

  it.each<[string, (table: ItemTable) => Promise<unknown>, object]>([
    ['reads an item', (table) => table.get(item), { ...inLocks, Key: item, ConsistentRead: true }],
    [
      'updates an item and returns it',
      (table) => table.update(item, { ...raise, ...onlyIf }),
      {
        ...{ ...inLocks, Key: item, ...raise, ...onlyIf },
        ...{ ReturnValues: 'ALL_NEW', ReturnValuesOnConditionCheckFailure: ALL_OLD },
      },
    ],
    [
      'updates an item without a condition, and does not return it',
      (table) => table.update(item, raise, { wantsItem: false }),
      { ...inLocks, Key: item, ...raise, ReturnValues: 'NONE' },
    ],
    [
      'updates one item and puts another',
      (table) => table.updateWith(item, { ...raise, ...onlyIf }, { ...item, sk: 'beside' }),
      {
        TransactItems: [
          { Update: { ...inLocks, Key: item, ...raise, ...onlyIf, ReturnValuesOnConditionCheckFailure: ALL_OLD } },
          { Put: { ...inLocks, Item: { ...item, sk: 'beside' } } },
        ],
      },
    ],
    [
      'puts an item on a condition',
      (table) => table.put({ Item: item, ...onlyIf }),
      { ...inLocks, Item: item, ...onlyIf, ReturnValuesOnConditionCheckFailure: ALL_OLD },
    ],
    ['replaces an item', (table) => table.replace(item), { ...inLocks, Item: item }],
    [
      'removes many items',
      (table) => table.removeMany([item]),
      { RequestItems: { locks: [{ DeleteRequest: { Key: item } }] } },
    ],
    [
      'writes all or nothing',
      (table) =>
        table.writeAll([
          { Item: item, ...onlyIf },
          { key: item, update: raise },
        ]),
      {
        TransactItems: [
          { Put: { ...inLocks, Item: item, ...onlyIf } },
          { Update: { ...inLocks, Key: item, ...raise } },
        ],
      },
    ],
    [
      'finds items',
      (table) => table.query({ where: 'partition = :p', words: { partition: 'pk' }, values: { p: 'x' } }),
      {
        ...{ ...inLocks, KeyConditionExpression: '#partition = :p' },
        ...{ ExpressionAttributeNames: { '#partition': 'pk' }, ExpressionAttributeValues: { ':p': 'x' } },
        ScanIndexForward: true,
      },
    ],
    [
      'finds a few items of an index, the newest first',
      (table) =>
        table.query(
          {
            ...{ index: 'listing', where: 'partition = :p', filter: 'name = :n', consistent: true, newestFirst: true },
            ...{ words: { partition: 'lp', name: 'ln' }, values: { p: 'x', n: 'y' } },
          },
          3,
        ),
      {
        ...{
          ...inLocks,
          IndexName: 'listing',
          KeyConditionExpression: '#partition = :p',
          FilterExpression: '#name = :n',
        },
        ExpressionAttributeNames: { '#partition': 'lp', '#name': 'ln' },
        ExpressionAttributeValues: { ':p': 'x', ':n': 'y' },
        ...{ ConsistentRead: true, ScanIndexForward: false, Limit: 3 },
      },
    ],
  ])('%s', async (_what, send, input) => {
    const { access, inputs } = tableThat();
    await send(new ItemTable(access));
    // What is undefined is not sent.
    expect(inputs.map((sent) => defined(sent as object))).toStrictEqual([input]);
  });

  it('returns what was written', async () => {
    const { access } = tableThat(({ UpdateExpression }) =>
      UpdateExpression === undefined ? {} : { Attributes: item },
    );
    const table = new ItemTable(access);
    expect(await table.update(item, raise)).toEqual({ applied: true, item });
    expect(await table.put({ Item: item })).toEqual({ applied: true, item });
    expect(await table.updateWith(item, raise, item)).toEqual({ applied: true, item: {} });
    expect(await table.writeAll([{ Item: item }])).toBe(true);
    expect(await table.get(item)).toBeUndefined();
  });

  const stored = { pk: { S: 'item' }, n: { N: '7' } };
  const plain = { pk: 'item', n: 7 };
  const named = (name: string, more: object = {}) => Object.assign(new Error('no'), { name, ...more });
  const refusedBy = (error: Error) => new ItemTable(tableThat(() => Promise.reject(error)).access);

  it('returns the item that refused its condition, and whether an earlier try may have written', async () => {
    const refused = (more: object) => refusedBy(named('ConditionalCheckFailedException', more)).update(item, raise);
    expect(await refused({ Item: stored })).toEqual({ applied: false, item: plain, perhapsMine: false });
    expect(await refused({ $metadata: { attempts: 2 } })).toEqual({
      applied: false,
      item: undefined,
      perhapsMine: true,
    });
  });

  it('returns the item that refused a transaction', async () => {
    const reasons = [
      { Code: 'None', Item: {} },
      { Code: 'ConditionalCheckFailed', Item: stored },
    ];
    const refused = named('TransactionCanceledException', { CancellationReasons: reasons });
    expect(await refusedBy(refused).updateWith(item, raise, item)).toMatchObject({ applied: false, item: plain });
    expect(await refusedBy(refused).writeAll([{ Item: item }])).toBe(false);
  });

  it('fails if it was not refused by a condition', async () => {
    const broken = named('ValidationException');
    await expect(refusedBy(broken).update(item, raise)).rejects.toMatchObject({ code: 'unavailable' });
    await expect(refusedBy(broken).writeAll([{ Item: item }])).rejects.toMatchObject({ code: 'unavailable' });
  });

  it('ends when enough items are found, and does not read the next page', async () => {
    const { access, inputs } = tableThat(() => ({ Items: [{ n: 1 }, { n: 2 }], LastEvaluatedKey: { pk: 'more' } }));
    const query = { where: 'partition = :p', words: { partition: 'pk' }, values: { p: 'x' } };
    expect(await new ItemTable(access).query(query, 3)).toEqual([{ n: 1 }, { n: 2 }, { n: 1 }]);
    expect(inputs.map(({ ExclusiveStartKey }) => ExclusiveStartKey)).toEqual([undefined, { pk: 'more' }]);
  });

  it('is not sent at all if nothing is wanted', async () => {
    const { access, inputs } = tableThat();
    expect(await new ItemTable(access).getMany([])).toEqual([]);
    await new ItemTable(access).removeMany([]);
    expect(inputs).toEqual([]);
  });
});

describe('a write that meets a transaction', () => {
  const conflict = () => new TransactionConflictException({ message: 'busy', $metadata: {} });
  const write = (table: ItemTable) => table.replace({ pk: 'item', sk: 'item' });

  it('is tried again a few times', async () => {
    let refusals = 2;
    const { access, inputs, time, pauses } = tableThat(() => {
      if (refusals-- > 0) throw conflict();
      return {};
    });
    const written = write(new ItemTable(access));
    await time.advance(1_000);
    await written;
    expect(inputs).toHaveLength(3);
    expect(pauses).toEqual([2.5, 5]);
  });

  it('is a conflict after that, and no other failure is repeated here', async () => {
    for (const [error, code, tries] of [
      [conflict(), 'conflict', 5],
      [new ProvisionedThroughputExceededException({ message: 'slow', $metadata: {} }), 'throttled', 1],
    ] as const) {
      const { access, inputs, time } = tableThat(() => {
        throw error;
      });
      const written = write(new ItemTable(access)).catch((failure: unknown) => failure);
      await time.advance(5_000);
      expect([await written, inputs.length]).toEqual([expect.objectContaining({ code }), tries]);
    }
  });

  it('is a transaction itself, and is tried again a few times if the table is too busy for it', async () => {
    for (const Code of ['ThrottlingError', 'ProvisionedThroughputExceeded']) {
      const CancellationReasons = [{ Code: 'None' }, { Code }];
      const busy = () =>
        Object.assign(new Error('busy'), { name: 'TransactionCanceledException', CancellationReasons });
      for (const [refusals, outcome] of [
        [2, true],
        [9, expect.objectContaining({ code: 'throttled' })],
      ] as const) {
        let left: number = refusals;
        const { access, inputs, time, pauses } = tableThat(() => {
          if (left-- > 0) throw busy();
          return {};
        });
        const written = new ItemTable(access)
          .writeAll([{ Item: { pk: 'item', sk: 'item' } }])
          .catch((failure: unknown) => failure);
        await time.advance(5_000);
        expect([await written, inputs.length, pauses]).toEqual([outcome, 3, [250, 500]]);
      }
    }
  });

  describe('after a try that had no answer', () => {
    const conflictAfterLoss = () => Object.assign(conflict(), { [mayHaveTakenEffect]: true });

    /** The first request had a try without an answer and then met a transaction. The second one fails so. */
    const failing = (name: string, more: object = {}) => {
      const failures = [conflictAfterLoss(), Object.assign(new Error(name), { name, ...more })];
      const { access, time } = tableThat(() => {
        throw failures.shift();
      });
      const written = new ItemTable(access)
        .update({ pk: 'item', sk: 'item' }, { UpdateExpression: 'SET n = :n' })
        .catch((failure: unknown) => failure);
      return time.advance(5_000).then(() => written);
    };

    it('may have been done, if its condition is refused', async () => {
      const Item = { n: { N: '1' } };
      expect(await failing('ConditionalCheckFailedException', { Item })).toEqual({
        applied: false,
        item: { n: 1 },
        perhapsMine: true,
      });
    });

    it('has an unknown outcome, if the table is too busy', async () => {
      expect(await failing('ThrottlingException')).toMatchObject({ code: 'unavailable' });
    });

    it('has an unknown outcome, if the conflicts do not end', async () => {
      let isFirst = true;
      const { access, inputs, time } = tableThat(() => {
        const error = isFirst ? conflictAfterLoss() : conflict();
        isFirst = false;
        throw error;
      });
      const written = write(new ItemTable(access)).catch((failure: unknown) => failure);
      await time.advance(5_000);
      expect([await written, inputs.length]).toEqual([expect.objectContaining({ code: 'unavailable' }), 5]);
    });
  });
});
