/** What the stores ask of DynamoDB, seen on the requests themselves: consistency, times of collection, and repeats. */
import { ProvisionedThroughputExceededException, TransactionConflictException } from '@aws-sdk/client-dynamodb';
import type { DynamoDBRecord } from 'aws-lambda';
import { describe, expect, it } from 'vitest';
import { LockStore } from '../../../src/queue/lock-store.ts';
import { PageStore } from '../../../src/queue/page-store.ts';
import { HistoryStore } from '../../../src/store/history.ts';
import { AwaitedLocks, DeliveryStore, TimerNotes } from '../../../src/store/notices.ts';
import { RecordStore } from '../../../src/store/records.ts';
import { SessionStore } from '../../../src/store/session-store.ts';
import { SocketStore } from '../../../src/store/sockets.ts';
import { arrivalOf, isWatching, type Subject, WatcherStore } from '../../../src/store/watchers.ts';
import { mayHaveTakenEffect } from '../../../src/table/failures.ts';
import { ItemTable } from '../../../src/table/item-table.ts';
import { awaitedShards } from '../../../src/table/shape.ts';
import { VirtualTime } from '../../../src/testing/virtual-time.ts';
import { after, epochMs } from '../../../src/time/clock.ts';
import { defined } from '../../../src/tools/collections.ts';
import { acquireOf } from '../../support/lock-worlds.ts';
import { type PlainRequest, plainTable } from '../../support/plain-table.ts';

const now = epochMs(1_800_000_000_000);
const [hour, day] = [3_600_000, 86_400_000];
const key = { namespace: 'test', name: 'lock' };
const session = { namespace: 'test', sessionId: 'session-1' };
const later = (ms: number) => after(now, ms);
const secondsAfterNow = (ttl: number): number => ttl - now / 1_000;

type Input = PlainRequest;

/** A table that notes each request and answers as the test says. */
function tableThat(answer: (input: Input) => unknown = () => ({})) {
  const inputs: Input[] = [];
  const table = plainTable((input) => {
    inputs.push(input);
    return answer(input);
  });
  const time = new VirtualTime({ startAt: now });
  const pauses: number[] = [];
  const timers = {
    after: (ms: number, run: () => void) => {
      pauses.push(ms);
      return time.after(ms, run);
    },
  };
  // Each random pause is half of the longest one.
  return { inputs, time, pauses, access: { table, tableName: 'locks', clock: time, timers, random: () => 0.5 } };
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
    ['a delivery', 2 * day, (access) => new DeliveryStore(access).begin(key, 1)],
    ['a delivery that was made', 2 * day, (access) => new DeliveryStore(access).markDelivered(key, 1)],
    ['the note of a timer', hour + 5_000, (access) => new TimerNotes(access).write(key, later(5_000))],
    [
      'a ticket',
      60_000,
      (access) => new SocketStore(access).issue('secret', { namespace: 'a', caller: 'b', expiresAt: later(60_000) }),
    ],
    [
      'a wait on a connection',
      hour + 5_000,
      (access) => new SocketStore(access).noteWait('c', { key, leaseId: 'lease' }, later(5_000)),
    ],
    [
      'a connection',
      3 * hour,
      (access) =>
        new WatcherStore(access).add({
          ...{ namespace: 'test', caller: 'me', connectionId: 'c', connectedAt: now },
          subject: 'nothing',
        }),
    ],
    [
      'a session',
      7 * day + 30_000,
      (access) => new SessionStore(access).create('test', { ...bySession, expiresAt: later(30_000) }),
    ],
    ['a session with a keepalive', 7 * day + hour, (access) => new SessionStore(access).keepAlive(session, now)],
    ['a session that has ended', 7 * day, (access) => new SessionStore(access).end(session, now)],
    ['the note of a part', 37 * day, (access) => new SessionStore(access).notePart(session, 'lock', now)],
    ['an entry of a history', 7 * day, (access) => new HistoryStore(access).append([{ key, place: 'place', event }])],
    [
      'the value of a record',
      65_000,
      (access) => new RecordStore(access).attempt({ namespace: 'test', key: 'r' }, put as never, now),
    ],
    [
      'a page',
      30 * day,
      (access) =>
        new PageStore(access).write(
          { lock: key, number: 7 },
          { kind: 'join', waiter, fence: 1, sizes: { front: 2, page: 2 } },
        ),
    ],
    [
      'a closed page',
      30 * day,
      (access) => new PageStore(access).write({ lock: key, number: 7 }, { kind: 'close', now: now }),
    ],
    [
      'a lock',
      30 * day,
      (access) => new LockStore(access).attempt(key, acquireOf('lease-a-0000000000'), { now, graceMs: 250 }),
    ],
    [
      'a lock with the shortest retention and the longest lease',
      2 * day,
      (access) =>
        new LockStore({ ...access, retentionMs: 2 * day }).attempt(
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
    await new LockStore(access).attempt(key, acquire, { now, graceMs: 250 }).catch(() => undefined);
    expect(inputs[0].UpdateExpression).toMatch(/REMOVE #collectAt/);
  });
});

describe('a read that decides something', () => {
  const reads: [string, (access: ReturnType<typeof tableThat>['access']) => Promise<unknown>][] = [
    ['a lock', (access) => new LockStore(access).read(key)],
    ['many locks', (access) => new LockStore(access).readMany([key, { ...key, name: 'other' }])],
    ['pages', (access) => new PageStore(access).read([{ lock: key, number: 7 }])],
    ['a session', (access) => new SessionStore(access).read('test', ['one'])],
    ['several sessions', (access) => new SessionStore(access).read('test', ['one', 'other'])],
    ['a record', (access) => new RecordStore(access).read({ namespace: 'test', key: 'r' })],
    ['watchers', (access) => new WatcherStore(access).welcomed('test')],
    ['a connection', (access) => new SocketStore(access).connection('c')],
    ['the waits of a connection', (access) => new SocketStore(access).waitsOn('c', 'test')],
    ['a delivery', (access) => new DeliveryStore(access).read(key, 1)],
    ['the note of a timer', (access) => new TimerNotes(access).read(key)],
  ];

  it.each(reads)('is consistent: %s', async (_what, read) => {
    const { access, inputs } = tableThat();
    await read(access);
    const [batch] = Object.values(inputs[0].RequestItems ?? {}) as { ConsistentRead?: boolean }[];
    expect((batch ?? inputs[0]).ConsistentRead).toBe(true);
  });
});

describe('a listing of a history', () => {
  const place = (fence: number) => `${String(fence).padStart(16, '0')}.${'1'.padStart(16, '0')}.0000`;
  const itemOf = (fence: number, more: object) => ({ sk: place(fence), type: 'queued', fence, owner: 'me', ...more });

  it('shows what is younger than seven days by the clock of the store, with every field', async () => {
    const items = [itemOf(2, { at: now - 7 * day + 1, waitedMs: 5 }), itemOf(1, { at: now - 7 * day })];
    const { access } = tableThat(() => ({ Items: items }));
    const { events } = await new HistoryStore(access).page(key, { limit: 10, standing: [] });
    expect(events).toEqual([{ at: now - 7 * day + 1, type: 'queued', fence: 2, owner: 'me', waitedMs: 5 }]);
  });

  it('goes on without a hold that its cursor names, if that has been deleted since', async () => {
    const { access, inputs } = tableThat(() => ({ Items: [itemOf(1, { at: now })] }));
    const before = [place(2), place(3)].join('~');
    const { events } = await new HistoryStore(access).page(key, { limit: 10, before, standing: [] });
    expect(events).toEqual([{ at: now, type: 'queued', fence: 1, owner: 'me' }]);
    expect(inputs[1].RequestItems.locks.Keys).toEqual([{ pk: 'test/history/lock', sk: place(3) }]);
  });
});

describe('what the notifier and the reaper note', () => {
  it('has the keys and attributes that releases before and after this one read', async () => {
    const { access, inputs } = tableThat();
    await new DeliveryStore(access).begin(key, 7);
    await new DeliveryStore(access).markDelivered(key, 7);
    await new TimerNotes(access).write(key, later(5_000));
    await new TimerNotes(access).read(key);
    const delivery = { pk: 'test/told/lock', sk: '7' };
    const timer = { pk: 'test/timer/lock', sk: 'timer' };
    expect(inputs.map(({ Key, Item }) => Key ?? Item)).toEqual([
      delivery,
      delivery,
      { ...timer, firesAt: later(5_000), ttl: expect.any(Number) },
      timer,
    ]);
    expect(inputs[0].ExpressionAttributeNames).toEqual({ '#tries': 'tries', '#collectAt': 'ttl' });
    expect(inputs[1].ExpressionAttributeNames).toEqual({ '#delivered': 'told', '#collectAt': 'ttl' });
  });

  it('is read as it was written', async () => {
    const { access } = tableThat(() => ({ Item: { tries: 2, told: true, firesAt: later(5_000) } }));
    expect(await new DeliveryStore(access).read(key, 7)).toEqual({ tries: 2, delivered: true });
    expect(await new TimerNotes(access).read(key)).toBe(later(5_000));
    const none = tableThat();
    expect(await new DeliveryStore(none.access).read(key, 7)).toEqual({ tries: 0, delivered: false });
    expect(await new TimerNotes(none.access).read(key)).toBeUndefined();
  });

  it('lists the awaited locks of every shard, and nothing else that may be in the index', async () => {
    const { access, inputs } = tableThat(({ ExpressionAttributeValues }) => ({
      Items: [
        { pk: `test/lock/${ExpressionAttributeValues[':shard']}`, sk: 'lock' },
        { pk: 'test/page/x', sk: 'page' },
      ],
    }));
    const found = [];
    for await (const { namespace, name } of new AwaitedLocks(access).list()) found.push([namespace, name]);
    expect(found).toEqual(Array.from({ length: awaitedShards }, () => ['test', 'awaited']));
    expect(inputs.map(({ ExpressionAttributeValues }) => ExpressionAttributeValues[':shard'])).toEqual(
      Array.from({ length: awaitedShards }, (_, shard) => `awaited/${shard}`),
    );
  });

  it('forgets that a lock is awaited without reading the lock', async () => {
    const { access, inputs } = tableThat();
    await new AwaitedLocks(access).forget(key);
    expect(inputs[0].ReturnValues).toBe('NONE');
  });
});

describe('what a socket needs', () => {
  const sockets = (answer?: (input: Input) => unknown) => {
    const { access, inputs } = tableThat(answer);
    return { store: new SocketStore(access), inputs };
  };

  it('is a ticket that works once and until its end, whose secret is not in the table', async () => {
    const { store, inputs } = sockets(({ ExpressionAttributeValues: values = {} }) => ({
      Attributes: { namespace: 'a', caller: 'b', used: values[':by'] },
    }));
    await store.issue('secret', { namespace: 'a', caller: 'b', expiresAt: later(60_000) });
    expect(await store.redeem('secret', now)).toEqual({ namespace: 'a', caller: 'b' });
    const [{ Item }, redeemed] = inputs;
    expect(Item).toMatchObject({ sk: 'ticket', namespace: 'a', caller: 'b', end: later(60_000) });
    expect(JSON.stringify(inputs)).not.toContain('secret');
    expect(redeemed.Key).toEqual({ pk: Item.pk, sk: 'ticket' });
    expect(redeemed.ExpressionAttributeNames).toEqual({ '#partition': 'pk', '#usedBy': 'used', '#expiresAt': 'end' });
    expect(redeemed.ExpressionAttributeValues).toEqual({ ':by': expect.any(String), ':now': now });
  });

  it('is a connection that is known by its id', async () => {
    const { store, inputs } = sockets(() => ({ Item: { namespace: 'a', caller: 'b', ttl: 1 } }));
    expect(await store.connection('c=')).toEqual({ namespace: 'a', caller: 'b' });
    expect(inputs[0].Key).toEqual({ pk: '#connection/c=', sk: 'connection' });
    expect(await sockets().store.connection('c=')).toBeUndefined();
  });

  it('is the list of waits on a connection', async () => {
    const { store, inputs } = sockets(() => ({ Items: [{ lock: 'lock', leaseId: 'lease' }] }));
    expect(await store.waitsOn('c=', 'test')).toEqual([{ key, leaseId: 'lease' }]);
    expect(inputs[0]).toMatchObject({
      KeyConditionExpression: '#partition = :waits',
      ExpressionAttributeValues: { ':waits': 'test/waits/c=' },
    });
  });
});

describe('a watcher', () => {
  const watcher = { namespace: 'test', caller: 'me', connectionId: 'c=', connectedAt: now };

  it.each<[Subject, string, object]>([
    [{ lock: 'a' }, 'test/watchers', { lock: 'a' }],
    [{ prefix: 'a/' }, 'test/watchers', { prefix: 'a/' }],
    ['nothing', 'test/sockets', {}],
  ])('of %j is written by its id and by its namespace', async (subject, pk, watched) => {
    const { access, inputs } = tableThat();
    await new WatcherStore(access).add({ ...watcher, subject });
    const ttl = expect.any(Number);
    expect(inputs.map(({ Item }) => Item)).toEqual([
      { pk: '#connection/c=', sk: 'connection', namespace: 'test', caller: 'me', ...watched, ttl },
      { pk, sk: 'watcher/c=', caller: 'me', at: now, ...watched, ttl },
    ]);
    const left = tableThat(() => ({ Item: inputs[0].Item }));
    await new WatcherStore(left.access).remove('c=');
    expect(left.inputs[1].RequestItems.locks).toEqual([
      { DeleteRequest: { Key: { pk: '#connection/c=', sk: 'connection' } } },
      { DeleteRequest: { Key: { pk, sk: 'watcher/c=' } } },
    ]);
  });

  it('is welcomed by an attribute that the listing asks for', async () => {
    const { access, inputs } = tableThat(({ UpdateExpression }) =>
      UpdateExpression === undefined
        ? { Items: [{ pk: 'test/watchers', sk: 'watcher/c=', at: now, lock: 'a' }] }
        : { Attributes: {} },
    );
    const watchers = new WatcherStore(access);
    expect(await watchers.welcome({ ...watcher, subject: { lock: 'a' } })).toBe(true);
    // An earlier release did not write the caller.
    expect(await watchers.welcomed('test')).toEqual([{ ...watcher, caller: 'anonymous', subject: { lock: 'a' } }]);
    for (const { ExpressionAttributeNames } of inputs)
      expect(ExpressionAttributeNames).toMatchObject({ '#welcomed': 'welcomed' });
  });

  const recordOf = (eventName: string, sk: string | undefined, image: object | undefined) =>
    ({ eventName, dynamodb: { Keys: sk === undefined ? {} : { sk: { S: sk } }, NewImage: image } }) as DynamoDBRecord;
  const image = {
    ...{ pk: { S: 'test/sockets' }, sk: { S: 'watcher/c=' } },
    ...{ at: { N: String(now) }, caller: { S: 'me' } },
  };

  it('arrives when the stream shows its new item', () => {
    expect(arrivalOf(recordOf('INSERT', 'watcher/c=', image))).toEqual({ ...watcher, subject: 'nothing' });
  });

  it.each([
    ['a change of its item', recordOf('MODIFY', 'watcher/c=', image)],
    ['an item of another kind', recordOf('INSERT', 'lock', image)],
    ['an item without a sort key', recordOf('INSERT', undefined, image)],
    [
      'an item whose sort key is a number',
      { eventName: 'INSERT', dynamodb: { Keys: { sk: { N: '1' } }, NewImage: image } } as DynamoDBRecord,
    ],
    ['no image', recordOf('INSERT', 'watcher/c=', undefined)],
    ['no keys', { eventName: 'INSERT', dynamodb: { NewImage: image } } as unknown as DynamoDBRecord],
    ['no item at all', { eventName: 'INSERT' } as DynamoDBRecord],
  ])('does not arrive when the stream shows %s', (_what, record) => {
    expect(arrivalOf(record)).toBeUndefined();
  });

  it('watches one lock, or all with its prefix, or nothing', () => {
    const watches = (subject: Subject) => ['a', 'ab', 'b'].map((lock) => isWatching({ ...watcher, subject }, lock));
    expect(watches({ lock: 'a' })).toEqual([true, false, false]);
    expect(watches({ prefix: 'a' })).toEqual([true, true, false]);
    expect(watches('nothing')).toEqual([false, false, false]);
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
    await expect(refusedBy(broken).update(item, raise)).rejects.toMatchObject({ code: 'refused' });
    await expect(refusedBy(broken).writeAll([{ Item: item }])).rejects.toMatchObject({ code: 'refused' });
  });

  it('ends when enough items are found, and does not read the next page', async () => {
    const { access, inputs } = tableThat(() => ({ Items: [{ n: 1 }, { n: 2 }], LastEvaluatedKey: { pk: 'more' } }));
    const query = { where: 'partition = :p', words: { partition: 'pk' }, values: { p: 'x' } };
    expect(await new ItemTable(access).query(query, 3)).toEqual([{ n: 1 }, { n: 2 }, { n: 1 }]);
    expect(inputs.map(({ ExclusiveStartKey }) => ExclusiveStartKey)).toEqual([undefined, { pk: 'more' }]);
  });

  it('reads one session alone, several in one batch, and none without a request', async () => {
    const { access, inputs } = tableThat();
    const sessions = new SessionStore(access);
    expect(await sessions.read('test', [])).toEqual([]);
    expect(inputs).toEqual([]);
    expect(await sessions.read('test', ['one'])).toEqual([undefined]);
    expect(await sessions.read('test', ['one', 'other'])).toEqual([undefined, undefined]);
    expect(inputs.map((input) => [input.Key?.pk, input.RequestItems?.locks.Keys.length])).toEqual([
      [expect.stringMatching(/^test\/session\//), undefined],
      [undefined, 2],
    ]);
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
