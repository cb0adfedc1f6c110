/** What the stores do where DynamoDB does what local engines never do. */
import { randomUUID } from 'node:crypto';
import {
  BatchGetItemCommand,
  DynamoDBClient,
  GetItemCommand,
  PutItemCommand,
  TransactWriteItemsCommand,
  UpdateItemCommand,
} from '@aws-sdk/client-dynamodb';
import { DynamoDBStreamsClient } from '@aws-sdk/client-dynamodb-streams';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, it } from 'vitest';
import { localCredentials } from '../../src/local/engine/endpoint.ts';
import { memoryCheckpoints, startPump } from '../../src/local/pump.ts';
import { lockLimits } from '../../src/lock/limits.ts';
import { unusedLock } from '../../src/lock/state.ts';
import { LockStore } from '../../src/queue/lock-store.ts';
import { HistoryStore } from '../../src/store/history.ts';
import { SessionStore } from '../../src/store/session-store.ts';
import { SocketStore } from '../../src/store/sockets.ts';
import { after, systemClock } from '../../src/time/clock.ts';
import { exactOnly, type FreshTable, freshTable } from '../support/engine.ts';
import { eventually } from '../support/eventually.ts';
import { HarshDynamoDB } from '../support/harsh/dynamodb.ts';
import { acquireOf } from '../support/lock-worlds.ts';

/** Stands still while a test is about what happens within a second, which a busy machine may not manage. */
let stoppedAt: number | undefined;
let harsh: HarshDynamoDB;
let table: FreshTable;
let store: LockStore;
/** A client that sends each request once, for what the proxy itself answers. */
let impatient: DynamoDBClient;
let key: { namespace: string; name: string };

beforeAll(async () => {
  harsh = await HarshDynamoDB.start(inject('engine').endpoint, {
    capacity: true,
    now: () => stoppedAt ?? performance.now(),
  });
  table = await freshTable(harsh.endpoint);
  store = new LockStore(table.access);
  const { endpoint, region } = table;
  impatient = new DynamoDBClient({ endpoint, region, credentials: localCredentials, maxAttempts: 1 });
});
afterAll(async () => {
  impatient.destroy();
  await harsh.stop();
});
beforeEach(() => {
  harsh.forgetOrders();
  key = { namespace: 'harsh', name: randomUUID() };
});

const factsNow = () => ({ now: systemClock.now(), graceMs: lockLimits.graceMs });
const acquire = (owner = 'me') => store.attempt(key, { ...acquireOf(`lease-${randomUUID()}`), owner }, factsNow());

describe('the proxy', exactOnly('starts a harsh table of its own'), () => {
  beforeEach(() => {
    stoppedAt = performance.now();
  });
  afterEach(() => {
    stoppedAt = undefined;
  });

  it('shows an older version to a read that does not ask for consistency, and to no other', async () => {
    const { client, tableName: TableName } = table;
    const Key = { pk: { S: key.name }, sk: { S: 'x' } };
    const count = () =>
      client.send(
        new UpdateItemCommand({
          TableName,
          Key,
          UpdateExpression: 'ADD n :one',
          ExpressionAttributeValues: { ':one': { N: '1' } },
        }),
      );
    await count();
    harsh.order('stale-read', { holds: key.name, times: 9 });
    expect((await client.send(new GetItemCommand({ TableName, Key }))).Item).toBeUndefined();
    const consistent = await client.send(new GetItemCommand({ TableName, Key, ConsistentRead: true }));
    expect(consistent.Item?.n).toEqual({ N: '1' });
  });

  it('throttles an item that takes more than a thousand write units in a second, and counts them by its size', async () => {
    const { tableName: TableName } = table;
    const Key = { pk: { S: key.name }, sk: { S: 'hot' } };
    const write = () =>
      impatient.send(
        new UpdateItemCommand({
          TableName,
          Key,
          UpdateExpression: 'SET v = :v',
          ExpressionAttributeValues: { ':v': { S: 'x'.repeat(299_000) } },
        }),
      );
    await Promise.allSettled(Array.from({ length: 15 }, write));
    const used = harsh.unitsOf(TableName, { pk: key.name, sk: 'hot' });
    expect(used.write % 293).toBe(0);
    expect(used.throttled).toBeGreaterThan(0);
  });

  it('refuses an item of more than 400 KB and keeps the old one', async () => {
    const { client, tableName: TableName } = table;
    const Key = { pk: { S: key.name }, sk: { S: 'big' } };
    const write = (length: number) =>
      client.send(
        new UpdateItemCommand({
          TableName,
          Key,
          UpdateExpression: 'SET v = :v',
          ExpressionAttributeValues: { ':v': { S: 'x'.repeat(length) } },
        }),
      );
    await write(10);
    await expect(write(410_000)).rejects.toMatchObject({ name: 'ValidationException' });
    const { Item } = await client.send(new GetItemCommand({ TableName, Key, ConsistentRead: true }));
    expect(Item?.v?.S).toHaveLength(10);
    const Update = {
      ...{ TableName, Key, UpdateExpression: 'SET w = :w' },
      ExpressionAttributeValues: { ':w': { S: 'x'.repeat(410_000) } },
    };
    const beside = { TableName, Item: { pk: { S: key.name }, sk: { S: 'beside' } } };
    const transaction = new TransactWriteItemsCommand({ TransactItems: [{ Put: beside }, { Update }] });
    // Engines that know the limit refuse the whole request.
    const name = expect.stringMatching(/^(TransactionCanceled|Validation)Exception$/);
    await expect(client.send(transaction)).rejects.toMatchObject({ name });
    const kept = await client.send(new GetItemCommand({ TableName, Key, ConsistentRead: true }));
    expect(kept.Item?.w).toBeUndefined();
  });

  it('throttles an item that takes more than 3,000 read units in a second, and reads the rest of a batch', async () => {
    const { client, tableName: TableName } = table;
    const keyOf = (sk: string) => ({ pk: { S: key.name }, sk: { S: sk } });
    const put = (sk: string, length: number) =>
      client.send(new PutItemCommand({ TableName, Item: { ...keyOf(sk), v: { S: 'x'.repeat(length) } } }));
    await put('hot', 299_000);
    await put('cold', 1);
    const read = () => impatient.send(new GetItemCommand({ TableName, Key: keyOf('hot'), ConsistentRead: true }));
    // Each of them costs 74 units. The last one may use more than are left.
    for (let reads = 0; reads < 41; reads++) await read();
    expect(harsh.unitsOf(TableName, { pk: key.name, sk: 'hot' })).toMatchObject({ read: 41 * 74 });
    await expect(read()).rejects.toMatchObject({
      name: expect.stringMatching(/^(ProvisionedThroughputExceeded|Throttling)Exception$/),
    });
    const Keys = [keyOf('hot'), keyOf('cold')];
    const batch = await client.send(
      new BatchGetItemCommand({ RequestItems: { [TableName]: { Keys, ConsistentRead: true } } }),
    );
    expect(batch.Responses?.[TableName]?.map(({ sk }) => sk?.S)).toEqual(['cold']);
    expect(batch.UnprocessedKeys?.[TableName]?.Keys).toEqual([keyOf('hot')]);
  });

  it('names the limit that was reached, by each of the exceptions for it', async () => {
    const { tableName: TableName } = table;
    const met = new Map<string, Set<string>>();
    for (let round = 0; round < 40; round++) {
      harsh.order('throttle', { holds: key.name });
      const Key = { pk: { S: key.name }, sk: { S: 'x' } };
      const error = await impatient.send(new GetItemCommand({ TableName, Key })).catch((refused: unknown) => refused);
      const { name, ThrottlingReasons, throttlingReasons } = error as {
        name: string;
        ThrottlingReasons?: { reason: string }[];
        throttlingReasons?: { reason: string }[];
      };
      const [{ reason }] = (ThrottlingReasons ?? throttlingReasons) as [{ reason: string }];
      met.set(name, (met.get(name) ?? new Set()).add(reason));
    }
    const keyRange = 'TableReadKeyRangeThroughputExceeded';
    expect(met.get('ProvisionedThroughputExceededException')).toContain(keyRange);
    expect(met.get('ThrottlingException')).toContain(keyRange);
    expect(met.get('ThrottlingException')).toContain('TableReadMaxOnDemandThroughputExceeded');
    expect(met.get('RequestLimitExceeded')).toEqual(new Set(['TableReadAccountLimitExceeded']));
  });
});

describe('a lock on a harsh table', exactOnly('starts a harsh table of its own'), () => {
  it('is read in its current state, even if other reads may be stale', async () => {
    await acquire();
    harsh.order('stale-read', { holds: key.name, times: 9 });
    expect((await store.read(key)).holders).toHaveLength(1);
    expect((await store.readMany([key, { ...key, name: randomUUID() }]))[0]?.holders).toHaveLength(1);
  });

  it('may show an older state to a look', async () => {
    stoppedAt = performance.now();
    await acquire();
    harsh.order('stale-read', { holds: key.name });
    expect(await store.peek(key)).toEqual(unusedLock);
    expect((await store.peek(key)).holders).toHaveLength(1);
    stoppedAt = undefined;
  });

  it('keeps a name beyond ASCII whole, even if the answer is cut anywhere', async () => {
    const owner = 'Zoë Ωμέγα 🔒';
    await acquire(owner);
    for (let round = 0; round < 5; round++) {
      harsh.order('split-answer', { holds: key.name });
      expect((await store.read(key)).holders[0]?.owner).toBe(owner);
    }
    // The item that refuses a condition comes in an answer too, and is what the next state is made of.
    harsh.order('split-answer', { holds: key.name });
    expect(await acquire()).toMatchObject({ applied: false, state: { holders: [{ owner }] } });
  });

  it('is read in full if a batch is answered in part', async () => {
    await acquire();
    const others = Array.from({ length: 9 }, () => ({ ...key, name: randomUUID() }));
    harsh.order('unprocessed', { operation: 'BatchGetItem', holds: key.name, times: 2 });
    const states = await store.readMany([...others, key]);
    expect(states.slice(0, 9)).toEqual(others.map(() => unusedLock));
    expect(states[9]?.holders).toHaveLength(1);
  });

  it.each(['throttle', 'conflict', 'error-before'] as const)('is granted once after %s', async (fault) => {
    harsh.order(fault, { operation: 'UpdateItem', holds: key.name });
    expect(await acquire()).toMatchObject({ applied: true, state: { rev: 1 } });
  });

  it('opens a connection with a ticket once, also if the answer was lost', async () => {
    const sockets = new SocketStore(table.access);
    const now = systemClock.now();
    const owner = { namespace: 'harsh', caller: 'me' };
    await sockets.issue(key.name, { ...owner, expiresAt: after(now, 60_000) });
    harsh.order('error-after', { operation: 'UpdateItem', holds: '#ticket/' });
    expect(await sockets.redeem(key.name, now)).toEqual(owner);
    expect(await sockets.redeem(key.name, now)).toBeUndefined();
  });

  it.each(['error-after', 'cut-after'] as const)(
    'says that the write may have been its own after %s',
    async (fault) => {
      harsh.order(fault, { operation: 'UpdateItem', holds: key.name });
      const written = await acquire();
      expect(written).toMatchObject({ applied: false, perhapsMine: true, state: { rev: 1 } });
      expect(written.state.holders).toHaveLength(1);
    },
  );

  it('says that the write may have been its own after a lost answer, even if a conflict follows', async () => {
    harsh.order('error-after', { operation: 'UpdateItem', holds: key.name });
    harsh.order('conflict', { operation: 'UpdateItem', holds: key.name, skip: 1 });
    expect(await acquire()).toMatchObject({ applied: false, perhapsMine: true, state: { rev: 1 } });
  });

  it('is unavailable, never free, while every request fails', async () => {
    await acquire();
    harsh.order('error-before', { holds: key.name, times: 99 });
    await expect(store.read(key)).rejects.toMatchObject({ code: 'unavailable' });
    await expect(acquire()).rejects.toMatchObject({ code: 'unavailable' });
  });

  it('is throttled, never free, while the table takes no more', async () => {
    harsh.order('throttle', { holds: key.name, times: 99 });
    await expect(acquire()).rejects.toMatchObject({ code: 'throttled' });
  });

  it('is swapped together with others despite a conflict, or an error after it took effect', async () => {
    const swaps = [key, { ...key, name: randomUUID() }].map((each) => ({
      key: each,
      next: { ...unusedLock, rev: 1, fence: 7 },
    }));
    harsh.order('conflict', { operation: 'TransactWriteItems' });
    harsh.order('error-after', { operation: 'TransactWriteItems' });
    expect(await store.writeAll(swaps)).toBe(true);
    expect((await store.read(key)).fence).toBe(7);
  });

  it('is swapped together with others, even if the first try is still in progress when it is repeated', async () => {
    const swaps = [key, { ...key, name: randomUUID() }].map((each) => ({
      key: each,
      next: { ...unusedLock, rev: 1, fence: 7 },
    }));
    const before = harsh.counts.get('in-progress') ?? 0;
    harsh.order('error-after', { operation: 'TransactWriteItems' });
    harsh.order('in-progress', { operation: 'TransactWriteItems' });
    expect(await store.writeAll(swaps)).toBe(true);
    expect(harsh.counts.get('in-progress')).toBe(before + 1);
  });

  it('is swapped together with others after the table was too busy for one of them', async () => {
    // The proxy refuses the whole request, or cancels the transaction for one of its items.
    for (let round = 0; round < 4; round++) {
      const names = [randomUUID(), randomUUID()];
      harsh.order('throttle', { operation: 'TransactWriteItems' });
      const next = { ...unusedLock, rev: 1, fence: 7 };
      expect(await store.writeAll(names.map((name) => ({ key: { ...key, name }, next })))).toBe(true);
    }
  });
});

describe('a session on a harsh table', exactOnly('starts a harsh table of its own'), () => {
  it('counts as alive if a batch leaves it unread at first', async () => {
    const sessions = new SessionStore(table.access);
    const now = systemClock.now();
    const ids = Array.from({ length: 8 }, () => `session-${randomUUID()}`);
    for (const sessionId of ids) {
      const session = {
        sessionId,
        owner: 'me',
        ttlMs: 10_000,
        createdAt: now,
        expiresAt: after(now, 10_000),
        waits: [],
      };
      await sessions.create('harsh', session);
    }
    harsh.order('unprocessed', { operation: 'BatchGetItem', holds: ids[7], times: 3 });
    expect((await sessions.read('harsh', ids)).map((session) => session?.sessionId)).toEqual(ids);
  });
});

describe('history on a harsh table', exactOnly('starts a harsh table of its own'), () => {
  it('is written in full if a batch is accepted in part', async () => {
    const history = new HistoryStore(table.access);
    const at = Date.now();
    const entries = Array.from({ length: 20 }, (_, index) => ({
      key,
      place: `${at}-${String(index).padStart(2, '0')}`,
      event: { at, type: 'queued', fence: index, owner: 'me' },
    }));
    harsh.order('unprocessed', { operation: 'BatchWriteItem', times: 2 });
    expect(await history.append(entries as Parameters<HistoryStore['append']>[0])).toEqual([]);
    expect((await history.page(key, { limit: 50, standing: [] })).events).toHaveLength(20);
  });

  it('is listed in full if a page of a query ends early', async () => {
    const history = new HistoryStore(table.access);
    const at = Date.now();
    const entries = Array.from({ length: 9 }, (_, index) => ({
      key,
      place: `${at}-${index}`,
      event: { at, type: 'queued', fence: index, owner: 'me' },
    }));
    await history.append(entries as Parameters<HistoryStore['append']>[0]);
    harsh.order('short-query', { operation: 'Query', holds: key.name, times: 9 });
    const { events } = await history.page(key, { limit: 50, standing: [] });
    expect(events.map(({ fence }) => fence)).toEqual([8, 7, 6, 5, 4, 3, 2, 1, 0]);
  });
});

describe('the stream of a harsh table', exactOnly('starts a harsh table of its own'), () => {
  it('is read in full and in the order of each item, while shards close and split, and reads fail', async () => {
    const { client, tableName: TableName, streamArn, region } = table;
    const streams = new DynamoDBStreamsClient({ endpoint: harsh.endpoint, region, credentials: localCredentials });
    const seen = new Map<string, number[]>();
    const pump = startPump({
      client: streams,
      streamArn,
      handler: async ({ Records }) => {
        for (const { dynamodb } of Records) {
          const item = dynamodb?.Keys?.pk?.S ?? '';
          seen.set(item, [...(seen.get(item) ?? []), Number(dynamodb?.NewImage?.n?.N)]);
        }
      },
      checkpoints: memoryCheckpoints(),
      startAt: 'LATEST',
      onDeadLetter: () => {},
      logger: { info: () => {}, warn: () => {}, error: () => {} },
    });
    await pump.ready;
    for (const [fault, times] of [
      ['split-shard', 12],
      ['late-records', 5],
      ['double-records', 5],
      ['short-page', 9],
      ['expired-iterator', 2],
      ['throttle', 2],
      ['error-before', 2],
    ] as const)
      harsh.order(fault, { operation: 'GetRecords', times });
    const items = Array.from({ length: 6 }, (_, index) => `${key.name}-${index}`);
    const writes = 10;
    for (let n = 0; n < writes; n++) {
      for (const item of items) {
        const Item = { pk: { S: item }, sk: { S: 'x' }, n: { N: String(n) } };
        await client.send(new PutItemCommand({ TableName, Item }));
      }
      if (n % 3 === 0) harsh.splitShards(streamArn);
    }
    const inOrder = Array.from({ length: writes }, (_, n) => n);
    // A record may come again. Then everything behind it comes again, too.
    const firstTimes = (item: string) => [...new Set(seen.get(item))];
    await eventually(() => expect(items.map(firstTimes)).toEqual(items.map(() => inOrder)));
    await pump.stop();
    streams.destroy();
  });
});
