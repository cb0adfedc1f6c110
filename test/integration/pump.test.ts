import { mkdtemp, rm } from 'node:fs/promises';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DeleteTableCommand, DynamoDBClient, PutItemCommand, UpdateItemCommand } from '@aws-sdk/client-dynamodb';
import { DynamoDBStreamsClient } from '@aws-sdk/client-dynamodb-streams';
import type { DynamoDBRecord } from 'aws-lambda';
import { beforeEach, describe, expect, inject, it, onTestFinished, vi } from 'vitest';
import { localCredentials } from '../../src/local/engine/endpoint.ts';
import { startEngine } from '../../src/local/engine.ts';
import { fileCheckpoints, memoryCheckpoints, type PumpOptions, startPump } from '../../src/local/pump.ts';
import { ensureTable } from '../../src/local/table.ts';
import { exactOnly, freshTable } from '../support/engine.ts';
import { eventually } from '../support/eventually.ts';

const logger = { info: vi.fn(), warn: vi.fn(), error: vi.fn() };
const numberOf = (record: DynamoDBRecord) => Number(record.dynamodb?.NewImage?.n?.N);
const numberAndItemOf = (record: DynamoDBRecord) => `${record.dynamodb?.Keys?.pk?.S}:${numberOf(record)}`;
const upTo = (count: number) => Array.from({ length: count }, (_, n) => n);
const until = (check: () => void) => eventually(check);

async function world() {
  const table = await freshTable();
  const streams = new DynamoDBStreamsClient({
    endpoint: table.endpoint,
    region: table.region,
    credentials: localCredentials,
  });
  const write = (n: number, item = 'lock') => put(table.client, table.tableName, n, item);
  return { ...table, streams, write };
}

async function put(client: DynamoDBClient, tableName: string, n: number, item = 'lock'): Promise<void> {
  const Item = { pk: { S: item }, sk: { S: '-' }, n: { N: String(n) }, bytes: { B: Uint8Array.of(1, 2, 3) } };
  await client.send(new PutItemCommand({ TableName: tableName, Item }));
}

function pumpTo(
  handler: PumpOptions['handler'],
  where: { streams: DynamoDBStreamsClient; streamArn: PumpOptions['streamArn'] },
  more: Partial<PumpOptions> = {},
) {
  const { streams: client, streamArn } = where;
  const pump = startPump({
    client,
    streamArn,
    handler,
    checkpoints: memoryCheckpoints(),
    startAt: 'TRIM_HORIZON',
    onDeadLetter: () => {},
    logger,
    ...more,
  });
  onTestFinished(() => pump.stop());
  return pump;
}

describe('startPump', () => {
  let at: Awaited<ReturnType<typeof world>>;
  beforeEach(async () => {
    at = await world();
    onTestFinished(() => {
      at.client.destroy();
      at.streams.destroy();
    });
  });

  it(
    'calls the handler with an event as Lambda shapes it',
    exactOnly('a record of the stream may come again'),
    async () => {
      const events: DynamoDBRecord[] = [];
      const pump = pumpTo(
        async ({ Records }) => {
          events.push(...Records);
        },
        at,
        { startAt: 'LATEST' },
      );
      await pump.ready;
      await at.write(1);
      await at.write(2);
      await until(() => expect(events).toHaveLength(2));
      expect(events[1]).toEqual({
        eventID: expect.any(String),
        eventName: 'MODIFY',
        eventVersion: '1.1',
        eventSource: 'aws:dynamodb',
        awsRegion: expect.any(String),
        eventSourceARN: at.streamArn,
        dynamodb: {
          ApproximateCreationDateTime: expect.any(Number),
          Keys: { pk: { S: 'lock' }, sk: { S: '-' } },
          OldImage: { pk: { S: 'lock' }, sk: { S: '-' }, n: { N: '1' }, bytes: { B: 'AQID' } },
          NewImage: { pk: { S: 'lock' }, sk: { S: '-' }, n: { N: '2' }, bytes: { B: 'AQID' } },
          SequenceNumber: expect.any(String),
          SizeBytes: expect.any(Number),
          StreamViewType: 'NEW_AND_OLD_IMAGES',
        },
      });
      expect(events[0]?.eventName).toBe('INSERT');
      expect(events[0]?.dynamodb).not.toHaveProperty('OldImage');
      // DynamoDB Local rounds down to the minute.
      const ageSeconds = Date.now() / 1000 - (events[1]?.dynamodb?.ApproximateCreationDateTime ?? 0);
      expect(ageSeconds).toBeGreaterThan(-2);
      expect(ageSeconds).toBeLessThan(120);
    },
  );

  it(
    'keeps the order of each item while many are written at once',
    exactOnly('a record of the stream may come again'),
    async () => {
      const items = upTo(10).map((n) => `lock-${n}`);
      const seen = new Map<string, number[]>(items.map((item) => [item, []]));
      const pump = pumpTo(
        async ({ Records }) => {
          for (const record of Records) seen.get(record.dynamodb?.Keys?.pk?.S ?? '')?.push(numberOf(record));
        },
        at,
        { batchSize: 7 },
      );
      await Promise.all(
        items.map(async (item) => {
          for (const n of upTo(20)) await at.write(n, item);
        }),
      );
      await until(() => expect(pump.stats().taken).toBe(200));
      for (const item of items) expect(seen.get(item), item).toEqual(upTo(20));
    },
  );

  it(
    'sends again from the first record that failed, and nothing before it',
    exactOnly('a record of the stream may come again'),
    async () => {
      for (const n of upTo(10)) await at.write(n);
      const batches: number[][] = [];
      const pump = pumpTo(async ({ Records }) => {
        batches.push(Records.map(numberOf));
        const isFirst = batches.length === 1;
        const failed = Records.filter((record) => isFirst && [7, 4].includes(numberOf(record)));
        return {
          batchItemFailures: failed.map((record) => ({ itemIdentifier: record.dynamodb?.SequenceNumber ?? '' })),
        };
      }, at);
      await until(() => expect(pump.stats().taken).toBe(10));
      expect(batches).toEqual([upTo(10), [4, 5, 6, 7, 8, 9]]);
      expect(pump.stats().retries).toBe(1);
    },
  );

  it(
    'hands a record that makes the handler throw to the dead letters, and goes on with the rest in order',
    exactOnly('a record of the stream may come again'),
    async () => {
      for (const n of upTo(12)) await at.write(n);
      const taken: number[] = [];
      const dead: { numbers: number[]; error: unknown }[] = [];
      const pump = pumpTo(
        async ({ Records }) => {
          if (Records.some((record) => numberOf(record) === 5)) throw new Error('It is poison.');
          taken.push(...Records.map(numberOf));
        },
        at,
        {
          retriesMax: 2,
          random: () => 0,
          onDeadLetter: async (records, error) => {
            dead.push({ numbers: records.map(numberOf), error });
            throw new Error('Even the dead letters are refused.');
          },
        },
      );
      await until(() => expect(taken).toEqual(upTo(12).filter((n) => n !== 5)));
      expect(dead).toEqual([{ numbers: [5], error: new Error('It is poison.') }]);
      await at.write(12);
      await until(() => expect(taken.at(-1)).toBe(12));
      expect(pump.stats()).toMatchObject({ deadLetters: 1, taken: 13 });
    },
  );

  it(
    'skips records that the filter rejects, and does not send them after a restart either',
    exactOnly('a record of the stream may come again'),
    async () => {
      const checkpoints = memoryCheckpoints();
      const seen: string[] = [];
      const handler: PumpOptions['handler'] = async ({ Records }) => {
        seen.push(...Records.map(numberAndItemOf));
      };
      const filter = (record: DynamoDBRecord) => record.dynamodb?.Keys?.pk?.S === 'lock';
      const first = pumpTo(handler, at, { checkpoints, filter });
      await at.write(1);
      await at.write(2, 'history');
      await until(() => expect(first.stats().filtered).toBe(1));
      await first.stop();
      const second = pumpTo(handler, at, { checkpoints });
      await at.write(3);
      await until(() => expect(seen).toEqual(['lock:1', 'lock:3']));
      await second.stop();
    },
  );

  it(
    'goes on from its file after a stop, without loss and without repeating taken records',
    exactOnly('a record of the stream may come again'),
    async () => {
      const folder = await mkdtemp(join(tmpdir(), 'holdfast-pump-'));
      onTestFinished(() => rm(folder, { recursive: true }));
      const path = join(folder, 'checkpoint.json');
      const seen: number[] = [];
      let inHand = 0;
      const handler: PumpOptions['handler'] = async ({ Records }) => {
        inHand += 1;
        // Usually ends after the stop was asked for.
        await new Promise((resolve) => setImmediate(resolve));
        seen.push(...Records.map(numberOf));
        inHand -= 1;
      };
      const writing = (async () => {
        for (const n of upTo(120)) await at.write(n);
      })();
      for (let round = 1; round <= 4; round += 1) {
        const pump = pumpTo(handler, at, { batchSize: 3, checkpoints: fileCheckpoints(path, logger) });
        await until(() => expect(seen.length).toBeGreaterThanOrEqual(round * 20));
        await pump.stop();
        expect(inHand).toBe(0);
      }
      await writing;
      // Written while no pump ran, and "latest" must not skip it.
      pumpTo(handler, at, { startAt: 'LATEST', checkpoints: fileCheckpoints(path, logger) });
      await until(() => expect(seen).toHaveLength(120));
      expect(seen).toEqual(upTo(120));
    },
  );

  it(
    'repeats only records that were not yet taken when it was cut off without a stop',
    exactOnly('a record of the stream may come again'),
    async () => {
      const checkpoints = memoryCheckpoints();
      const seen: number[] = [];
      const stuck = Promise.withResolvers<void>();
      // All records exist before the pump starts, so that the batches are known: 0 and 1, 2 and 3, 4 and 5.
      for (const n of upTo(6)) await at.write(n);
      const first = pumpTo(
        async ({ Records }) => {
          seen.push(...Records.map(numberOf));
          if (Records.some((record) => numberOf(record) >= 4)) await stuck.promise;
        },
        at,
        { checkpoints, batchSize: 2, stopGraceMs: 1 },
      );
      await until(() => expect(seen).toContain(4));
      await first.stop();
      const again: number[] = [];
      pumpTo(
        async ({ Records }) => {
          again.push(...Records.map(numberOf));
        },
        at,
        { checkpoints },
      );
      await until(() => expect(again).toEqual([4, 5]));
      stuck.resolve();
    },
  );

  it('finds the table again after it was deleted and re-created', async () => {
    const seen: number[] = [];
    const pump = pumpTo(
      async ({ Records }) => {
        for (const record of Records) if (record.eventName !== 'REMOVE') seen.push(numberOf(record));
      },
      { streams: at.streams, streamArn: () => ensureTable(at.client, at.tableName) },
    );
    await at.write(1);
    await until(() => expect(seen).toContain(1));
    await at.client.send(new DeleteTableCommand({ TableName: at.tableName }));
    await ensureTable(at.client, at.tableName);
    await at.write(2);
    await until(() => expect(seen).toContain(2));
    await pump.stop();
  });
});

/** A fixed port in front of an engine that comes back on another port. */
async function startProxy() {
  const open = new Set<Socket>();
  let target = 0;
  const server = createServer((inbound) => {
    const outbound = connect(target, '127.0.0.1');
    for (const socket of [inbound, outbound]) {
      open.add(socket);
      socket.on('error', () => {}).on('close', () => open.delete(socket));
    }
    inbound.on('close', () => outbound.destroy()).pipe(outbound);
    outbound.on('close', () => inbound.destroy()).pipe(inbound);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.close();
    for (const socket of open) socket.destroy();
  });
  return {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    aimAt: (endpoint: string) => {
      target = Number(new URL(endpoint).port);
    },
  };
}

describe('startPump, when its engine is killed', () => {
  it('goes on without loss once the engine is back on its folder, and does not flood the log', async () => {
    const { name, region } = inject('engine');
    // We must not kill a remote engine, and the built-in one ends with its process.
    if (name === 'remote' || name === 'memory') return;
    const dataFolder = await mkdtemp(join(tmpdir(), 'holdfast-pump-'));
    const proxy = await startProxy();
    let engine = await startEngine({ engine: name, region, dataFolder });
    onTestFinished(async () => {
      await engine.stop();
      await rm(dataFolder, { recursive: true });
    });
    proxy.aimAt(engine.endpoint);
    const access = { endpoint: proxy.endpoint, region, credentials: localCredentials };
    const client = new DynamoDBClient(access);
    const streams = new DynamoDBStreamsClient({ ...access, maxAttempts: 1 });
    const tableName = 'holdfast';
    await ensureTable(client, tableName);

    const seen: number[] = [];
    const quiet = { info: vi.fn(), warn: vi.fn(), error: vi.fn() };
    const pump = pumpTo(
      async ({ Records }) => {
        // The handler needs the engine too, as the notifier does.
        const touch = { TableName: tableName, Key: { pk: { S: 'touched' }, sk: { S: '-' } } };
        await client.send(new UpdateItemCommand(touch));
        seen.push(...Records.map(numberOf));
      },
      { streams, streamArn: () => ensureTable(client, tableName) },
      { logger: quiet, filter: (record) => record.dynamodb?.Keys?.pk?.S === 'lock' },
    );
    for (const n of upTo(20)) await put(client, tableName, n);
    process.kill(engine.pid ?? 0, 'SIGKILL');
    await engine.exited;
    // The kill may hit a read or the handler. Then reads fail, or the same batch is tried again.
    await until(() => expect(pump.stats().faults + pump.stats().retries).toBeGreaterThanOrEqual(3));
    await engine.stop();

    engine = await startEngine({ engine: name, region, dataFolder });
    proxy.aimAt(engine.endpoint);
    for (const n of upTo(20)) await put(client, tableName, 20 + n);
    await until(() => expect(new Set(seen).size).toBe(40));
    // They are in order. A batch whose answer was lost in the crash may have come twice.
    expect([...new Set(seen)]).toEqual(upTo(40));
    await pump.stop();
    expect(quiet.warn.mock.calls.length).toBeLessThanOrEqual(2);
    expect(quiet.error).not.toHaveBeenCalled();
  });
});
