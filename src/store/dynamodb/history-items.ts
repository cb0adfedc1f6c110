import { after, type Clock, epochMs, systemClock, toTtlSeconds } from '../../time/clock.ts';
import {
  type HistoryEntry,
  type HistoryEvent,
  type HistoryPage,
  type HistoryStore,
  historyKeptMs,
  historyTypes,
} from '../history-store.ts';
import type { LockKey } from '../lock-store.ts';
import { type Item, ItemTable, type TableAccess } from './item-table.ts';
import type { ItemKey } from './keys.ts';
import { integer, oneOf, optional, text } from './reading.ts';

const words = { partition: 'pk', place: 'sk' };

const partitionOf = ({ namespace, name }: LockKey): string => `${namespace}/history/${name}`;
const itemKeyOf = ({ key, place }: HistoryEntry): ItemKey => ({ pk: partitionOf(key), sk: place });

/** Each event is an item under its lock, sorted by its place. */
export class DynamoDBHistory implements HistoryStore {
  readonly #table: ItemTable;
  readonly #clock: Clock;

  constructor({ clock, ...access }: TableAccess & { readonly clock?: Clock }) {
    this.#table = new ItemTable(access);
    this.#clock = clock ?? systemClock;
  }

  async append(entries: readonly HistoryEntry[]): Promise<readonly HistoryEntry[]> {
    // A repeated event has the same key, and DynamoDB refuses a batch that names a key twice.
    const unique = new Map(entries.map((entry) => [idOf(entry), toItem(entry)]));
    const unwritten = new Set(await this.#table.replaceMany([...unique.values()]));
    return entries.filter((entry) => unwritten.has(unique.get(idOf(entry)) as Item));
  }

  async page(key: LockKey, { limit, before }: { limit: number; before?: string | undefined }): Promise<HistoryPage> {
    const items = await this.#table.query(
      {
        where: `partition = :partition${before === undefined ? '' : ' AND place < :before'}`,
        words,
        values: { partition: partitionOf(key), before },
        newestFirst: true,
      },
      limit,
    );
    // Collection may lag by days. What is older than promised isn't shown, and nothing behind it is younger.
    const keptSince = this.#clock.now() - historyKeptMs;
    const kept = items.filter((item) => integer(item, 'at') > keptSince);
    const last = kept.at(-1);
    return {
      events: kept.map(fromItem),
      ...(kept.length === limit && last !== undefined ? { before: text(last, words.place) } : {}),
    };
  }
}

const idOf = (entry: HistoryEntry): string => `${partitionOf(entry.key)} ${entry.place}`;

const toItem = (entry: HistoryEntry): Item => ({
  ...itemKeyOf(entry),
  ...entry.event,
  ttl: toTtlSeconds(after(epochMs(entry.event.at), historyKeptMs)),
});

function fromItem(item: Item): HistoryEvent {
  const [heldMs, waitedMs] = [optional(integer, item, 'heldMs'), optional(integer, item, 'waitedMs')];
  const reason = optional(text, item, 'reason');
  return {
    at: integer(item, 'at'),
    type: oneOf(item, 'type', historyTypes),
    fence: integer(item, 'fence'),
    owner: text(item, 'owner'),
    ...(heldMs === undefined ? {} : { heldMs }),
    ...(waitedMs === undefined ? {} : { waitedMs }),
    ...(reason === undefined ? {} : { reason }),
  };
}
