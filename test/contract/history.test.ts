import { randomUUID } from 'node:crypto';
import { ScanCommand } from '@aws-sdk/lib-dynamodb';
import { beforeAll, describe, expect, it } from 'vitest';
import type { LockKey } from '../../src/lock/state.ts';
import { type HistoryEntry, type HistoryEvent, HistoryStore, historyKeptMs } from '../../src/store/history.ts';
import { endedHold, placeOf } from '../../src/store/history-rules.ts';
import { fromStored } from '../../src/table/json.ts';
import type { TableRequests } from '../../src/table/port.ts';
import { type Clock, epochMs } from '../../src/time/clock.ts';
import { exactOnly, freshTable, untilReadsFollow } from '../support/engine.ts';
import { memoryStores } from '../support/memory-table.ts';

/** Not the time of the system: the store must ask its own clock. */
const now = epochMs(Date.now() + 30 * 86_400_000);
const clock: Clock = { now: () => now };

const adapters: [string, () => Promise<HistoryStore>][] = [
  ['the built-in engine', () => Promise.resolve(memoryStores({ clock }).history)],
  [
    'a table',
    async () => {
      const history = new HistoryStore({ ...(await freshTable()).access, clock });
      const append = history.append.bind(history);
      // The history is read without consistency, so a page may lack what was written a moment ago.
      history.append = async (written) => append(written).finally(untilReadsFollow);
      return history;
    },
  ],
];

const place = (index: number) => `${String(index).padStart(16, '0')}.${'1'.padStart(16, '0')}.0000`;
const entries = (count: number, name: string = randomUUID()): HistoryEntry[] =>
  Array.from({ length: count }, (_, index) => ({
    key: { namespace: 'contract', name },
    place: place(index),
    event: { at: now - count + index, type: 'queued', fence: index, owner: 'me' },
  }));

/** A hold that ended: granted under its fence, and over when the lock's fence was `endFence`. */
const hold = (key: LockKey, fence: number, endFence = fence): HistoryEntry[] => {
  const grant = { at: now - 1_000 + fence, type: 'granted', fence, owner: `owner-${fence}`, waitedMs: fence } as const;
  const event = { at: now - 500 + endFence, type: 'released', fence, owner: `owner-${fence}`, heldMs: 500 } as const;
  return endedHold({ key, place: placeOf({ fence: endFence, rev: 100 + fence }, 0), event }, grant, endFence - fence);
};

async function listAll(history: HistoryStore, key: LockKey, limit: number, standing: readonly HistoryEvent[] = []) {
  const pages = [];
  let before: string | undefined;
  do {
    const page = await history.page(key, { limit, before, standing });
    pages.push(page.events);
    before = page.before;
    // A listing that never ends is a failure, and not a test that hangs.
    if (pages.length > 1_000) throw new Error('The listing does not end.');
  } while (before !== undefined);
  return pages;
}
const told = (pages: readonly (readonly HistoryEvent[])[]) => pages.flat().map(({ type, fence }) => `${type} ${fence}`);

describe.each(adapters)('the history in %s', (_name, open) => {
  let history: HistoryStore;
  beforeAll(async () => {
    history = await open();
  });
  const keyOf = ([first]: HistoryEntry[]) => (first as HistoryEntry).key;

  it('has no events of a lock that was never used', async () => {
    const key = { namespace: 'contract', name: 'unused' };
    expect(await history.page(key, { limit: 10, standing: [] })).toEqual({ events: [] });
  });

  it('shows events newest first, complete over pages', async () => {
    const written = entries(60);
    expect(await history.append(written)).toEqual([]);
    const pages = await listAll(history, keyOf(written), 25);
    expect(pages.map(({ length }) => length)).toEqual([25, 25, 10]);
    expect(pages.flat()).toEqual(written.map(({ event }) => event).reverse());
  });

  it('keeps an event once, even if it is written several times or twice in one request', async () => {
    const written = entries(3);
    await history.append([...written, ...written]);
    await history.append(written);
    expect((await history.page(keyOf(written), { limit: 10, standing: [] })).events).toHaveLength(3);
  });

  it('keeps every field, and keeps locks apart', async () => {
    const key = { namespace: 'contract', name: randomUUID() };
    const event = {
      at: now,
      type: 'revoked',
      fence: 7,
      owner: 'ключ',
      heldMs: 5,
      reason: 'stuck',
      by: 'olga',
    } as const;
    await history.append([{ key, place: place(1), event }, ...entries(1)]);
    expect((await history.page(key, { limit: 10, standing: [] })).events).toEqual([event]);
  });

  it('goes on without a hold that its cursor names and that is gone', async () => {
    const written = entries(2);
    await history.append(written);
    const asked = { limit: 10, before: `${place(1)}~${place(5)}`, standing: [] };
    expect((await history.page(keyOf(written), asked)).events).toEqual([written[0]?.event]);
  });

  it('does not show events that are older than its retention', async () => {
    const [old, young] = entries(2) as [HistoryEntry, HistoryEntry];
    await history.append([{ ...old, event: { ...old.event, at: now - historyKeptMs } }, young]);
    expect((await history.page(old.key, { limit: 10, standing: [] })).events).toEqual([young.event]);
  });
});

describe.each(adapters)('a hold in the history in %s', (_name, open) => {
  const newKey = (): LockKey => ({ namespace: 'contract', name: randomUUID() });
  let history: HistoryStore;
  beforeAll(async () => {
    history = await open();
  });

  it('is one entry that tells of its end and of its grant, with every field', async () => {
    const key = newKey();
    const entries = hold(key, 7);
    expect(entries).toHaveLength(1);
    await history.append(entries);
    expect((await history.page(key, { limit: 10, standing: [] })).events).toEqual([
      { at: now - 493, type: 'released', fence: 7, owner: 'owner-7', heldMs: 500 },
      { at: now - 993, type: 'granted', fence: 7, owner: 'owner-7', waitedMs: 7 },
    ]);
  });

  it.each([1, 2, 3, 1_000])(
    'of a semaphore is listed in order, though holds overlap, in pages of %i',
    async (limit) => {
      const key = newKey();
      await history.append([...hold(key, 1, 3), ...hold(key, 2, 2), ...hold(key, 3, 4), ...hold(key, 4, 4)]);
      const inOrder = ['granted 1', 'granted 2', 'released 2', 'granted 3', 'released 1', 'granted 4', 'released 3'];
      expect(told(await listAll(history, key, limit))).toEqual([...inOrder, 'released 4'].reverse());
    },
  );

  it.each([7, 1_000])('that saw many other grants does not make the cursor long, in pages of %i', async (limit) => {
    const key = newKey();
    const others = Array.from({ length: 40 }, (_, index) => hold(key, 2 + index)).flat();
    const long = hold(key, 1, 50);
    expect(long).toHaveLength(2);
    await history.append([...others, ...long]);
    const pages = await listAll(history, key, limit);
    expect([told(pages)[0], told(pages).at(-1), pages.flat().length]).toEqual(['released 1', 'granted 1', 82]);
  });

  it.each([1, 2, 1_000])('that still lasts is listed from the lock, once, in pages of %i', async (limit) => {
    const key = newKey();
    const [ended] = hold(key, 5) as [HistoryEntry];
    const standing = [{ ...(ended.grant as HistoryEvent), fence: 6 }, ended.grant as HistoryEvent];
    await history.append([...hold(key, 4), ended]);
    // The lock was read before hold 5 ended.
    expect(told(await listAll(history, key, limit, standing))).toEqual([
      ...['granted 6', 'released 5', 'granted 5', 'released 4', 'granted 4'],
    ]);
  });

  it.each([2, 3, 1_000])(
    'whose grant an earlier release wrote by itself is listed once, in pages of %i',
    async (limit) => {
      const key = newKey();
      const [ended] = hold(key, 5) as [HistoryEntry];
      const grant = ended.grant as HistoryEvent;
      await history.append([{ key, place: placeOf({ fence: 5, rev: 3 }, 1), event: grant }, ended, ...hold(key, 4)]);
      expect(told(await listAll(history, key, limit))).toEqual(['released 5', 'granted 5', 'released 4', 'granted 4']);
    },
  );
});

describe('the history in DynamoDB', () => {
  // Behind a harsh table, what a request leaves unwritten is sent again.
  it(
    'never names a key twice in one request, which DynamoDB refuses',
    exactOnly('what a request leaves unwritten is sent again'),
    async () => {
      const { history, table } = memoryStores({ clock });
      const written = entries(20);
      await history.append([...written, ...written]);
      const sent = table.requests.map(({ request }) =>
        Object.values((request as TableRequests['BatchWriteItem']).RequestItems)
          .flat()
          .map((write) => ('PutRequest' in write ? fromStored(write.PutRequest.Item).sk : undefined)),
      );
      expect(sent).toEqual([written.map(({ place }) => place)]);
    },
  );

  it('says which events it could not write', async () => {
    const { access } = await freshTable();
    const history = new HistoryStore({ ...access, tableName: 'no-such-table', clock });
    const written = entries(2);
    expect(await history.append(written)).toEqual(written);
  });
});

describe('an event of the history in DynamoDB', () => {
  it('has its own end, so the table deletes it', async () => {
    const { access, own, tableName } = await freshTable();
    const [entry] = entries(1) as [HistoryEntry];
    await new HistoryStore({ ...access, clock }).append([entry]);
    const { Items } = await own.send(new ScanCommand({ TableName: tableName }));
    expect(Items).toHaveLength(1);
    expect(Items?.[0]?.ttl).toBe(Math.ceil((entry.event.at + historyKeptMs) / 1_000));
  });
});
