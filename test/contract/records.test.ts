import { randomUUID } from 'node:crypto';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { DeleteCommand, PutCommand, QueryCommand } from '@aws-sdk/lib-dynamodb';
import fc from 'fast-check';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Put, RecordCommand } from '../../src/record/commands.ts';
import { decide } from '../../src/record/decide.ts';
import { hasExpired, type RecordState, unwrittenRecord, valueInForce } from '../../src/record/state.ts';
import { type RecordContext, readRecord, writeRecord } from '../../src/service/records.ts';
import { type RecordKey, RecordStore, recordPartition } from '../../src/store/records.ts';
import { SdkTable } from '../../src/table/aws/table.ts';
import { type EpochMs, epochMs, after as laterBy } from '../../src/time/clock.ts';
import { drawn, exactOnly, type FreshTable, freshTable } from '../support/engine.ts';
import { memoryStores } from '../support/memory-table.ts';
import {
  deleteOf,
  fitting,
  putOf,
  recordCommands,
  recordTime,
  recordWorlds,
  toRecordItems,
} from '../support/record-worlds.ts';

let table: FreshTable;

beforeAll(async () => {
  table = await freshTable();
});

const newKey = (): RecordKey => ({ namespace: 'contract', key: randomUUID() });
const at = (version: number) => ({ kind: 'version', version }) as const;
const present = { kind: 'present' } as const;

/** A write answers with its own id alone: what else the record remembers would have to be read. */
const latest = (state: RecordState): RecordState => ({ ...state, writeIds: state.writeIds.slice(0, 1) });

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

/** What DynamoDB's TTL does, sooner or later: every item of the record whose time has come is gone. Returns their sort keys. */
async function collect(key: RecordKey, now: EpochMs): Promise<string[]> {
  const { Items = [] } = await table.own.send(
    new QueryCommand({
      TableName: table.tableName,
      KeyConditionExpression: 'pk = :pk',
      ExpressionAttributeValues: { ':pk': recordPartition(key) },
    }),
  );
  const due = Items.filter(({ ttl }) => typeof ttl === 'number' && ttl * 1_000 <= now);
  for (const { pk, sk } of due) {
    await table.own.send(new DeleteCommand({ TableName: table.tableName, Key: { pk, sk } }));
  }
  return due.map(({ sk }) => sk as string);
}

const adapters: [string, () => RecordStore, typeof collect][] = [
  ['the built-in engine', () => memoryStores().records, () => Promise.resolve([])],
  ['a table', () => new RecordStore(table.access), collect],
];

describe.each(adapters)('a record store: %s', (_, open, collectDue) => {
  let store: RecordStore;
  let key: RecordKey;
  const attempt = (command: RecordCommand, now = recordTime) => store.attempt(key, command, now);

  beforeEach(() => {
    store = open();
    key = newKey();
  });

  it('reads a record that was never written as such', async () => {
    expect(await store.read(key)).toEqual(unwrittenRecord);
  });

  it('reads what it wrote, through creation, replacement, deletion and creation again', async () => {
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
      expect(latest(await store.read(key))).toEqual(latest(written.state));
    }
  });

  it.each(awkwardValues.map((value) => [value.slice(0, 30), value]))('keeps %s unchanged', async (_, value) => {
    await attempt(putOf({ value }));
    const kept = (await store.read(key)).value;
    // Compared apart, so that a failure does not print a quarter of a megabyte.
    expect(kept === value).toBe(true);
  });

  it('refuses with the current state, and writes nothing', async () => {
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

  it('accepts one of many creators', async () => {
    const creators = Array.from({ length: 20 }, (_, index) => putOf({ writeId: `creator-${index}-000000000` }));
    const outcomes = await Promise.all(creators.map((creator) => attempt(creator)));
    const winners = outcomes.filter(({ applied }) => applied);
    expect(winners).toHaveLength(1);
    expect(await store.read(key)).toEqual(winners[0]?.state);
  });

  it('keeps version and floor of a record with an end, even if its value is deleted late', async () => {
    const created = await attempt(putOf({ value: '"kept"', fence: 5, expiresInMs: 2_000 }));
    expect(created).toMatchObject({ applied: true, state: { version: 1, expiresAt: recordTime + 2_000 } });
    expect(await store.read(key)).toEqual(created.state);
    const late = laterBy(recordTime, 3_600_000);
    expect(valueInForce(await store.read(key), late)).toBeNull();
    await collectDue(key, late);
    expect(valueInForce(await store.read(key), late)).toBeNull();
    const stale = putOf({ fence: 4, writeId: 'write-9-0000000000' });
    expect(await attempt(stale, late)).toMatchObject({ applied: false, state: { version: 1, floor: 5 } });
    const unfenced = putOf({ writeId: 'write-9-0000000000' });
    expect(await attempt(unfenced, late)).toMatchObject({ applied: false });
    const again = await attempt(putOf({ fence: 5, value: '2', writeId: 'write-2-0000000000' }), late);
    expect(again).toMatchObject({ applied: true, state: { version: 2, floor: 5, value: '2', expiresAt: null } });
    // The earlier value must not come back, and its deletion by TTL must not touch the later one.
    await collectDue(key, laterBy(late, 86_400_000));
    expect(latest(await store.read(key))).toEqual(latest(again.state));
  });

  it('changes or removes the end of a record with each write', async () => {
    await attempt(putOf({ value: '1', expiresInMs: 1_000 }));
    await attempt(putOf({ value: '2', expects: at(1), expiresInMs: 9_000, writeId: 'write-2-0000000000' }));
    expect(await store.read(key)).toMatchObject({ value: '2', version: 2, expiresAt: recordTime + 9_000 });
    await attempt(putOf({ value: '3', expects: present, writeId: 'write-3-0000000000' }));
    expect(await store.read(key)).toMatchObject({ value: '3', version: 3, expiresAt: null });
    await attempt(putOf({ value: '4', expects: at(3), expiresInMs: 9_000, writeId: 'write-4-0000000000' }));
    await attempt(deleteOf({ expects: at(4), writeId: 'write-5-0000000000' }));
    expect(await store.read(key)).toMatchObject({ value: null, version: 5, expiresAt: null });
  });

  it('recognises a write that is repeated after others have written', async () => {
    const lost = putOf();
    await attempt(lost);
    await attempt(putOf({ expects: at(1), writeId: 'write-of-another-00' }));
    const repeated = await attempt(lost);
    expect(repeated).toMatchObject({ applied: false, state: { version: 2 } });
    expect(decide(repeated.state, lost, recordTime).answer).toEqual({ kind: 'written', how: 'created', version: 1 });
  });

  it('accepts one of many creators at the end of a record, each with an end', async () => {
    await attempt(putOf({ expiresInMs: 1_000 }));
    const late = laterBy(recordTime, 1_000);
    const creators = Array.from({ length: 10 }, (_, index) =>
      putOf({ writeId: `creator-${index}-000000000`, value: String(index), expiresInMs: 5_000 }),
    );
    const outcomes = await Promise.all(creators.map((creator) => attempt(creator, late)));
    const [, ...others] = outcomes.filter(({ applied }) => applied);
    expect(others).toEqual([]);
    const after = await store.read(key);
    for (const { state } of outcomes) expect(latest(state)).toEqual(latest(after));
  });

  it(
    'continues version and floor through any writes, ends and deletions by time',
    exactOnly('a request that was sent twice may not know whether its first try was written'),
    async () => {
      const turns = fc.array(fc.tuple(recordCommands, fc.boolean(), fc.constantFrom(1, 900, 90_000), fc.boolean()), {
        minLength: 5,
        maxLength: 15,
        size: 'max',
      });
      let ended = 0;
      await fc.assert(
        fc.asyncProperty(turns, async (history) => {
          key = newKey();
          let model = unwrittenRecord;
          let now = recordTime;
          for (const [index, [wanted, hasRead, laterMs, collects]] of history.entries()) {
            now = laterBy(now, laterMs);
            if (collects) await collectDue(key, now);
            if (hasExpired(model, now)) ended += 1;
            const chosen = hasRead ? fitting(model, wanted, now) : wanted;
            const command = { ...chosen, writeId: `write-${index}-0000000000` };
            const { next } = decide(model, command, now);
            const { applied, state } = await attempt(command, now);
            expect({ applied, version: state.version, floor: state.floor }).toEqual({
              applied: next !== model,
              version: next.version,
              floor: next.floor,
            });
            model = next;
            expect(valueInForce(await store.read(key), now)).toBe(valueInForce(next, now));
          }
        }),
        { numRuns: 25 },
      );
      // Chance decides how many; none at all would mean that the draw can't reach an end any more.
      expect(ended).toBeGreaterThan(0);
    },
  );

  it('keeps namespaces apart', async () => {
    await attempt(putOf());
    expect(await store.read({ ...key, namespace: 'another' })).toEqual(unwrittenRecord);
  });
});

describe('a conditional write', () => {
  it(
    'is applied exactly if decide accepts it, and makes the same state',
    exactOnly('a request that was sent twice may not know whether its first try was written'),
    async () => {
      const store = new RecordStore(table.access);
      const seen: Record<string, number> = {};
      await fc.assert(
        fc.asyncProperty(recordWorlds, async ({ state, command, now }) => {
          const key = newKey();
          for (const Item of state.version > 0 ? toRecordItems(key, state) : []) {
            await table.own.send(new PutCommand({ TableName: table.tableName, Item }));
          }
          const { next, answer } = decide(state, command, now);

          const written = await store.attempt(key, command, now);

          expect({ ...written, state: latest(written.state) }).toEqual({
            applied: next !== state,
            state: latest(next),
          });
          expect(await store.read(key)).toEqual(next);
          const outcome = answer.kind === 'written' ? (next === state ? 'repeated' : answer.how) : answer.kind;
          seen[outcome] = (seen[outcome] ?? 0) + 1;
          if (hasExpired(state, now)) seen[`${outcome} at its end`] = (seen[`${outcome} at its end`] ?? 0) + 1;
        }),
        { numRuns: drawn(500) },
      );
      // A generator that never reaches the interesting cases would prove nothing. A fourth of the cases may miss a rare one.
      const least = drawn(6) === 6 ? 6 : 0;
      for (const outcome of [
        'created',
        'replaced',
        'deleted',
        'repeated',
        'stale-fence',
        'fence-required',
        'version-mismatch',
        'write-id-reused',
        'created at its end',
        'repeated at its end',
        'version-mismatch at its end',
      ]) {
        expect(seen[outcome] ?? 0, outcome).toBeGreaterThanOrEqual(least);
      }
    },
  );
});

describe('a value that is deleted by time', () => {
  it('is the value of a record a minute after its end, and never the item with version and floor', async () => {
    const store = new RecordStore(table.access);
    const key = newKey();
    await store.attempt(key, putOf({ fence: 5, expiresInMs: 2_000 }), recordTime);
    expect(await collect(key, laterBy(recordTime, 61_000))).toEqual([]);
    expect(await collect(key, laterBy(recordTime, 62_000))).toEqual(['value']);
    await store.attempt(key, putOf({ fence: 5, writeId: 'write-2-0000000000' }), laterBy(recordTime, 62_000));
    await store.attempt(key, deleteOf({ fence: 6 }), laterBy(recordTime, 62_000));
    expect(await collect(key, epochMs(Number.MAX_SAFE_INTEGER))).toEqual([]);
  });

  it('is never read together with the version of another write, even if it is replaced in the meantime', async () => {
    const store = new RecordStore(table.access);
    const key = newKey();
    let done = false;
    const writing = (async () => {
      for (let version = 0; version < 60; version++) {
        const expects = version === 0 ? ({ kind: 'absent' } as const) : at(version);
        const value = String(version + 1);
        await store.attempt(key, putOf({ expects, value, expiresInMs: 60_000, writeId: randomUUID() }), recordTime);
      }
      done = true;
    })();
    while (!done) {
      const { value, version } = await store.read(key);
      expect(Number(value ?? 0)).toBe(version);
    }
    await writing;
  });
});

describe('the cost of an operation', exactOnly('counts requests'), () => {
  it('is one request: a read, an accepted write, a refused one', async () => {
    const { client, context } = watchedContext();
    const key = newKey();
    const requestsFor = async (operation: () => Promise<unknown>) => {
      const before = client.sent.length;
      await operation();
      return client.sent.slice(before);
    };
    const put = (more: Partial<Put>) => () => writeRecord(context, key, putOf({ writeId: randomUUID(), ...more }));

    expect(await requestsFor(() => readRecord(context, key))).toEqual(['QueryCommand']);
    expect(await requestsFor(put({}))).toEqual(['UpdateItemCommand']);
    expect(await requestsFor(put({ expects: at(1), fence: 3 }))).toEqual(['UpdateItemCommand']);
    expect(await requestsFor(put({ expects: present, fence: 3 }))).toEqual(['UpdateItemCommand']);
    expect(await requestsFor(put({ expects: at(1), fence: 3 }))).toEqual(['UpdateItemCommand']);
    expect(await requestsFor(put({ expects: at(3), fence: 2 }))).toEqual(['UpdateItemCommand']);
    expect(await requestsFor(() => readRecord(context, key))).toEqual(['QueryCommand']);
    const withEnd = { fence: 3, expiresInMs: 60_000 };
    expect(await requestsFor(put({ expects: at(3), ...withEnd }))).toEqual(['TransactWriteItemsCommand']);
    expect(await requestsFor(put({ expects: present, ...withEnd }))).toEqual([
      'GetItemCommand',
      'TransactWriteItemsCommand',
    ]);
    expect(await requestsFor(() => readRecord(context, key))).toEqual(['QueryCommand']);
  });
});

describe('a response that was lost on its way from the store', () => {
  it.each([
    ['create', putOf(), 'created', 1],
    ['replace by version', putOf({ expects: at(1) }), 'replaced', 2],
    ['replace any', putOf({ expects: present }), 'replaced', 2],
    ['delete', deleteOf({ expects: at(1) }), 'deleted', 2],
  ] as const)('is corrected by the next try, which has no second effect: %s', async (_, command, how, version) => {
    const { client, context } = watchedContext();
    const key = newKey();
    if (version === 2) await writeRecord(context, key, putOf({ writeId: randomUUID() }));
    // The caller names no write: the service does.
    const { writeId: _named, ...unnamed } = command;
    client.loseNextResponse = true;

    const outcome = await writeRecord(context, key, unnamed);

    expect(client.loseNextResponse, 'no response was lost').toBe(false);
    expect(outcome).toMatchObject({ answer: { kind: 'written', how }, state: { version } });
    expect((await readRecord(context, key)).state).toEqual(outcome.state);
  });
});

describe('a store that fails', () => {
  it('is unavailable if it does not answer', async () => {
    const away = new DynamoDBClient({
      endpoint: 'http://127.0.0.1:9',
      region: table.region,
      credentials: { accessKeyId: 'local', secretAccessKey: 'local' },
      maxAttempts: 1,
    });
    const store = new RecordStore({ table: new SdkTable(away), tableName: table.tableName });
    await expect(store.read(newKey())).rejects.toMatchObject({ name: 'StoreError', code: 'unavailable' });
    await expect(store.attempt(newKey(), putOf(), recordTime)).rejects.toMatchObject({ code: 'unavailable' });
  });

  it('is throttled if it says so, and that is never a refusal', async () => {
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
  const store = new RecordStore({ table: new SdkTable(dynamodb), tableName: table.tableName });
  return { client, context: { store, clock: { now: () => recordTime }, newWriteId: () => randomUUID() } };
}
