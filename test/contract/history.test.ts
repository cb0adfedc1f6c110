import { randomUUID } from 'node:crypto';
import { ScanCommand } from '@aws-sdk/lib-dynamodb';
import { beforeAll, describe, expect, it } from 'vitest';
import { documentClient } from '../../src/store/dynamodb/client.ts';
import { DynamoDBHistory } from '../../src/store/dynamodb/history-items.ts';
import { type HistoryEntry, type HistoryStore, historyKeptMs } from '../../src/store/history-store.ts';
import { MemoryHistory } from '../../src/store/memory/history-store.ts';
import { type Clock, epochMs } from '../../src/time/clock.ts';
import { exactOnly, freshTable } from '../support/engine.ts';

const now = epochMs(Date.now());
const clock: Clock = { now: () => now };

const adapters: [string, () => Promise<HistoryStore>][] = [
  ['memory', () => Promise.resolve(new MemoryHistory({ clock }))],
  [
    'DynamoDB',
    async () => {
      const { client, tableName } = await freshTable();
      return new DynamoDBHistory({ client: documentClient(client), tableName, clock });
    },
  ],
];

const place = (index: number) => `${String(index).padStart(16, '0')}.${'1'.padStart(16, '0')}.0000`;
const entries = (count: number, name: string = randomUUID()): HistoryEntry[] =>
  Array.from({ length: count }, (_, index) => ({
    key: { namespace: 'contract', name },
    place: place(index),
    event: { at: now - count + index, type: 'granted', fence: index, owner: 'me', waitedMs: 0 },
  }));

describe.each(adapters)('the history in %s', (_name, open) => {
  let history: HistoryStore;
  beforeAll(async () => {
    history = await open();
  });
  const keyOf = ([first]: HistoryEntry[]) => (first as HistoryEntry).key;

  it('has nothing of a lock that was never used', async () => {
    expect(await history.page({ namespace: 'contract', name: 'unused' }, { limit: 10 })).toEqual({ events: [] });
  });

  it('shows events newest first, complete over pages', exactOnly, async () => {
    const written = entries(60);
    expect(await history.append(written)).toEqual([]);
    const pages = [];
    let before: string | undefined;
    do {
      const page = await history.page(keyOf(written), { limit: 25, before });
      pages.push(page.events);
      before = page.before;
    } while (before !== undefined);
    expect(pages.map(({ length }) => length)).toEqual([25, 25, 10]);
    expect(pages.flat()).toEqual(written.map(({ event }) => event).reverse());
  });

  it('keeps an event once, however often it is written, also in one go', exactOnly, async () => {
    const written = entries(3);
    await history.append([...written, ...written]);
    await history.append(written);
    expect((await history.page(keyOf(written), { limit: 10 })).events).toHaveLength(3);
  });

  it('keeps every field, and keeps locks apart', exactOnly, async () => {
    const key = { namespace: 'contract', name: randomUUID() };
    const event = { at: now, type: 'revoked', fence: 7, owner: 'ключ', heldMs: 5, reason: 'stuck' } as const;
    await history.append([{ key, place: place(1), event }, ...entries(1)]);
    expect((await history.page(key, { limit: 10 })).events).toEqual([event]);
  });

  it('does not show what is older than it promises to keep', exactOnly, async () => {
    const [old, young] = entries(2) as [HistoryEntry, HistoryEntry];
    await history.append([{ ...old, event: { ...old.event, at: now - historyKeptMs } }, young]);
    expect((await history.page(old.key, { limit: 10 })).events).toEqual([young.event]);
  });
});

describe('the history in DynamoDB', () => {
  it('never names a key twice in one request, which DynamoDB refuses', async () => {
    const { client, tableName } = await freshTable();
    const documents = documentClient(client);
    const sent: string[][] = [];
    documents.middlewareStack.add((next) => (args) => {
      const { RequestItems = {} } = args.input as {
        RequestItems?: Record<string, { PutRequest: { Item: { sk: string } } }[]>;
      };
      sent.push((RequestItems[tableName] ?? []).map(({ PutRequest }) => PutRequest.Item.sk));
      return next(args);
    });
    const written = entries(20);
    await new DynamoDBHistory({ client: documents, tableName, clock }).append([...written, ...written]);
    expect(sent).toEqual([written.map(({ place }) => place)]);
  });

  it('says which events it could not write', async () => {
    const { client } = await freshTable();
    const history = new DynamoDBHistory({ client: documentClient(client), tableName: 'no-such-table', clock });
    const written = entries(2);
    expect(await history.append(written)).toEqual(written);
  });
});

describe('an event of the history in DynamoDB', () => {
  it('has an end of its own, so that the table collects it', async () => {
    const { client, own, tableName } = await freshTable();
    const [entry] = entries(1) as [HistoryEntry];
    await new DynamoDBHistory({ client: documentClient(client), tableName, clock }).append([entry]);
    const { Items } = await own.send(new ScanCommand({ TableName: tableName }));
    expect(Items).toHaveLength(1);
    expect(Items?.[0]?.ttl).toBe(Math.ceil((entry.event.at + historyKeptMs) / 1_000));
  });
});
