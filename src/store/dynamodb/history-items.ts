import { eventTypes } from '../../lock/events.ts';
import type { LockKey } from '../../lock/state.ts';
import { after, epochMs, toTtlSeconds } from '../../time/clock.ts';
import { defined } from '../../tools/collections.ts';
import { listed, readPlaces } from '../history-rules.ts';
import {
  type HistoryEntry,
  type HistoryEvent,
  type HistoryPage,
  type HistoryPageAsked,
  type HistoryStore,
  historyKeptMs,
} from '../history-store.ts';
import type { Item, ItemKey } from './attributes.ts';
import { integer, oneOf, optional, text } from './attributes.ts';
import { TableStore } from './item-table.ts';

const words = { partition: 'pk', place: 'sk' };

const partitionOf = ({ namespace, name }: LockKey): string => `${namespace}/history/${name}`;
const itemKeyOf = ({ key, place }: HistoryEntry): ItemKey => ({ pk: partitionOf(key), sk: place });

/** Each hold that ended is an item under its lock, and so is each event of the queue, sorted by their places. */
export class DynamoDBHistory extends TableStore implements HistoryStore {
  async append(entries: readonly HistoryEntry[]): Promise<readonly HistoryEntry[]> {
    // A repeated event has the same key, and DynamoDB refuses a batch that names a key twice.
    const unique = new Map(entries.map((entry) => [idOf(entry), toItem(entry)]));
    const unwritten = new Set(await this.table.replaceMany([...unique.values()]));
    return entries.filter((entry) => unwritten.has(unique.get(idOf(entry)) as Item));
  }

  async page(key: LockKey, { limit, before: cursor, standing }: HistoryPageAsked): Promise<HistoryPage> {
    const { before, open } = readPlaces(cursor);
    const pk = partitionOf(key);
    const [items, holds] = await Promise.all([
      this.table.query(
        {
          where: `partition = :partition${before === undefined ? '' : ' AND place < :before'}`,
          words,
          values: { partition: pk, before },
          newestFirst: true,
        },
        limit,
      ),
      this.table.getMany(open.map((sk) => ({ pk, sk }))),
    ]);
    return listed({
      limit,
      before,
      found: items.map(fromItem),
      open: holds.flatMap((item) => (item === undefined ? [] : [fromItem(item)])),
      standing,
      // TTL may delete days late. Older events are not shown.
      keptSince: this.clock.now() - historyKeptMs,
    });
  }
}

const idOf = (entry: HistoryEntry): string => `${partitionOf(entry.key)} ${entry.place}`;

const toItem = (entry: HistoryEntry): Item => ({
  ...itemKeyOf(entry),
  ...entry.event,
  // The grant has the same fence and owner as the end.
  ...(entry.grant === undefined ? {} : { grantedAt: entry.grant.at, grantWaitedMs: entry.grant.waitedMs ?? 0 }),
  ttl: toTtlSeconds(after(epochMs(entry.event.at), historyKeptMs)),
});

function fromItem(item: Item): Omit<HistoryEntry, 'key'> {
  const event: HistoryEvent = {
    at: integer(item, 'at'),
    type: oneOf(item, 'type', eventTypes),
    fence: integer(item, 'fence'),
    owner: text(item, 'owner'),
    ...defined({
      heldMs: optional(integer, item, 'heldMs'),
      waitedMs: optional(integer, item, 'waitedMs'),
      reason: optional(text, item, 'reason'),
      by: optional(text, item, 'by'),
    }),
  };
  const place = text(item, words.place);
  // An earlier release wrote the end of a hold without its grant.
  const grantedAt = optional(integer, item, 'grantedAt');
  if (grantedAt === undefined) return { place, event };
  const { fence, owner } = event;
  const grant = { at: grantedAt, type: 'granted', fence, owner, waitedMs: integer(item, 'grantWaitedMs') } as const;
  return { place, event, grant };
}
