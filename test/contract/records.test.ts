import { randomUUID } from 'node:crypto';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { type DynamoDBDocumentClient, PutCommand } from '@aws-sdk/lib-dynamodb';
import fc from 'fast-check';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Put, RecordCommand } from '../../src/record/commands.ts';
import { decide } from '../../src/record/decide.ts';
import { unwrittenRecord } from '../../src/record/state.ts';
import { type RecordContext, readRecord, writeRecord } from '../../src/service/records.ts';
import { documentClient } from '../../src/store/dynamodb/client.ts';
import { toRecordItem } from '../../src/store/dynamodb/record-item.ts';
import { DynamoDBRecordStore } from '../../src/store/dynamodb/record-store.ts';
import { MemoryRecordStore } from '../../src/store/memory/record-store.ts';
import type { RecordKey, RecordStore } from '../../src/store/record-store.ts';
import { epochMs } from '../../src/time/clock.ts';
import { type FreshTable, freshTable } from '../support/engine.ts';
import { deleteOf, putOf, recordTime, recordWorlds } from '../support/record-worlds.ts';

let table: FreshTable;
let documents: DynamoDBDocumentClient;

beforeAll(async () => {
  table = await freshTable();
  documents = documentClient(table.client);
});

const newKey = (): RecordKey => ({ namespace: 'contract', key: randomUUID() });
const at = (version: number) => ({ kind: 'version', version }) as const;
const present = { kind: 'present' } as const;

/** Values that do not survive being parsed and written again, or that a store might mangle. */
const awkwardValues = [
  '1e400',
  '12345678901234567890.1000',
  '-0',
  '"\\ud800 \\u0000 𝄞 \u2028"',
  '{"b":1,"a":2,"b":3}',
  '{"__proto__":{"constructor":null}}',
  '[ 1,\n 2 ]',
  'null',
  '""',
  `${'['.repeat(50_000)}${']'.repeat(50_000)}`,
  `"${'é'.repeat(131_071)}"`,
];

const adapters: [string, () => RecordStore][] = [
  ['memory', () => new MemoryRecordStore()],
  ['DynamoDB', () => new DynamoDBRecordStore({ client: documents, tableName: table.tableName })],
];

describe.each(adapters)('a record store: %s', (_, open) => {
  let store: RecordStore;
  let key: RecordKey;
  const attempt = (command: RecordCommand) => store.attempt(key, command, recordTime);

  beforeEach(() => {
    store = open();
    key = newKey();
  });

  it('reads a record that was never written as such', async () => {
    expect(await store.read(key)).toEqual(unwrittenRecord);
  });

  it('reads back what it said it wrote, through creation, replacement, deletion and creation again', async () => {
    const commands: RecordCommand[] = [
      putOf({ value: '1', writeId: 'write-1-0000000000' }),
      putOf({ value: '2', expects: at(1), fence: 5, writeId: 'write-2-0000000000' }),
      putOf({ value: '3', expects: present, fence: 5, writeId: 'write-3-0000000000' }),
      deleteOf({ expects: at(3), fence: 6, writeId: 'write-4-0000000000' }),
      putOf({ value: '4', fence: 7, writeId: 'write-5-0000000000' }),
      deleteOf({ expects: present, fence: 7, writeId: 'write-6-0000000000' }),
    ];
    for (const [index, command] of commands.entries()) {
      const written = await attempt(command);
      expect(written).toMatchObject({ applied: true, state: { version: index + 1, floor: command.fence ?? null } });
      expect(await store.read(key)).toEqual(written.state);
    }
  });

  it.each(awkwardValues.map((value) => [value.slice(0, 30), value]))('keeps %s as it came', async (_, value) => {
    await attempt(putOf({ value }));
    const kept = (await store.read(key)).value;
    // Compared apart, so that a failure does not print a quarter of a megabyte.
    expect(kept === value).toBe(true);
  });

  it('refuses with the state in force, and writes nothing', async () => {
    const { state } = await attempt(putOf({ fence: 5 }));
    const refused: RecordCommand[] = [
      putOf({ fence: 5, writeId: 'write-9-0000000000' }),
      putOf({ expects: at(2), fence: 5, writeId: 'write-9-0000000000' }),
      putOf({ expects: at(1), fence: 4, writeId: 'write-9-0000000000' }),
      putOf({ expects: at(1), writeId: 'write-9-0000000000' }),
      deleteOf({ expects: at(2), fence: 5 }),
      putOf({ fence: 5 }),
    ];
    for (const command of refused) expect(await attempt(command)).toEqual({ applied: false, state });
    expect(await store.read(key)).toEqual(state);
  });

  it('lets one of many creators through', async () => {
    const creators = Array.from({ length: 20 }, (_, index) => putOf({ writeId: `creator-${index}-000000000` }));
    const outcomes = await Promise.all(creators.map(attempt));
    const winners = outcomes.filter(({ applied }) => applied);
    expect(winners).toHaveLength(1);
    expect(await store.read(key)).toEqual(winners[0]?.state);
  });

  it('keeps namespaces apart', async () => {
    await attempt(putOf());
    expect(await store.read({ ...key, namespace: 'another' })).toEqual(unwrittenRecord);
  });
});

describe('a conditional write', () => {
  it('applies exactly where decide would, and leaves the state that decide makes', async () => {
    const store = new DynamoDBRecordStore({ client: documents, tableName: table.tableName });
    const seen: Record<string, number> = {};
    await fc.assert(
      fc.asyncProperty(recordWorlds, async ({ state, command }) => {
        const key = newKey();
        if (state.version > 0) {
          await documents.send(new PutCommand({ TableName: table.tableName, Item: toRecordItem(key, state) }));
        }
        const now = epochMs(recordTime + 60_000);
        const { next, answer } = decide(state, command, now);

        const written = await store.attempt(key, command, now);

        expect(written).toEqual({ applied: next !== state, state: next });
        expect(await store.read(key)).toEqual(next);
        const outcome = answer.kind === 'written' ? (next === state ? 'repeated' : answer.how) : answer.kind;
        seen[outcome] = (seen[outcome] ?? 0) + 1;
      }),
      { numRuns: 500 },
    );
    // A generator that never reaches the interesting cases would prove nothing.
    for (const outcome of [
      'created',
      'replaced',
      'deleted',
      'repeated',
      'stale-fence',
      'fence-required',
      'version-mismatch',
      'write-id-reused',
    ]) {
      expect(seen[outcome] ?? 0, outcome).toBeGreaterThan(5);
    }
  });
});

describe('the cost of an operation', () => {
  it('is one request: a read, an accepted write, a refused one', async () => {
    const { client, context } = watchedContext();
    const key = newKey();
    const requestsFor = async (operation: () => Promise<unknown>) => {
      const before = client.sent.length;
      await operation();
      return client.sent.slice(before);
    };
    const put = (more: Partial<Put>) => () => writeRecord(context, key, putOf({ writeId: randomUUID(), ...more }));

    expect(await requestsFor(() => readRecord(context, key))).toEqual(['GetItemCommand']);
    expect(await requestsFor(put({}))).toEqual(['UpdateItemCommand']);
    expect(await requestsFor(put({ expects: at(1), fence: 3 }))).toEqual(['UpdateItemCommand']);
    expect(await requestsFor(put({ expects: present, fence: 3 }))).toEqual(['UpdateItemCommand']);
    expect(await requestsFor(put({ expects: at(1), fence: 3 }))).toEqual(['UpdateItemCommand']);
    expect(await requestsFor(put({ expects: at(3), fence: 2 }))).toEqual(['UpdateItemCommand']);
    expect(await requestsFor(() => readRecord(context, key))).toEqual(['GetItemCommand']);
  });
});

describe('a response that was lost on its way from the store', () => {
  it.each([
    ['create', putOf(), 'created', 1],
    ['replace by version', putOf({ expects: at(1) }), 'replaced', 2],
    ['replace any', putOf({ expects: present }), 'replaced', 2],
    ['delete', deleteOf({ expects: at(1) }), 'deleted', 2],
  ] as const)('is made up for by the next try, which has no second effect: %s', async (_, command, how, version) => {
    const { client, context } = watchedContext();
    const key = newKey();
    if (version === 2) await writeRecord(context, key, putOf({ writeId: randomUUID() }));
    // The caller names no write: the service does.
    const { writeId: _named, ...unnamed } = command;
    client.loseNextResponse = true;

    const outcome = await writeRecord(context, key, unnamed);

    expect(client.loseNextResponse, 'no response was lost').toBe(false);
    expect(outcome).toMatchObject({ answer: { kind: 'written', how }, state: { version } });
    expect(await readRecord(context, key)).toEqual(outcome.state);
  });
});

describe('a store that fails', () => {
  it('is unavailable where it does not answer', async () => {
    const away = new DynamoDBClient({
      endpoint: 'http://127.0.0.1:9',
      region: table.region,
      credentials: { accessKeyId: 'local', secretAccessKey: 'local' },
      maxAttempts: 1,
    });
    const store = new DynamoDBRecordStore({ client: documentClient(away), tableName: table.tableName });
    await expect(store.read(newKey())).rejects.toMatchObject({ name: 'StoreError', code: 'unavailable' });
    await expect(store.attempt(newKey(), putOf(), recordTime)).rejects.toMatchObject({ code: 'unavailable' });
  });

  it('is throttled where it says so, and never takes that for a refusal', async () => {
    const { client, context } = watchedContext(1);
    client.failure = Object.assign(new Error('slow down'), { name: 'ProvisionedThroughputExceededException' });
    await expect(readRecord(context, newKey())).rejects.toMatchObject({ name: 'StoreError', code: 'throttled' });
    await expect(writeRecord(context, newKey(), putOf())).rejects.toMatchObject({ code: 'throttled' });
  });
});

interface WatchedClient {
  readonly sent: string[];
  loseNextResponse: boolean;
  failure: Error | undefined;
}

/** Records on a client whose every try is seen, and can be made to fail after it took effect or before. */
function watchedContext(maxAttempts = 3): { client: WatchedClient; context: RecordContext } {
  const { endpoint, region } = table;
  const credentials = { accessKeyId: 'local', secretAccessKey: 'local' };
  const dynamodb = new DynamoDBClient({ endpoint, region, credentials, maxAttempts });
  const client: WatchedClient = { sent: [], loseNextResponse: false, failure: undefined };
  dynamodb.middlewareStack.add(
    (next, { commandName }) =>
      async (args) => {
        client.sent.push(commandName ?? 'unknown');
        if (client.failure !== undefined) throw client.failure;
        const output = await next(args);
        if (!client.loseNextResponse) return output;
        client.loseNextResponse = false;
        throw Object.assign(new Error('socket hang up'), { name: 'TimeoutError' });
      },
    // Inside the SDK's own retries, so each try passes here.
    { step: 'deserialize', priority: 'high' },
  );
  const store = new DynamoDBRecordStore({ client: documentClient(dynamodb), tableName: table.tableName });
  return { client, context: { store, clock: { now: () => recordTime }, newWriteId: () => randomUUID() } };
}
