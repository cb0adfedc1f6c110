import { type EventType, eventTypes, type LockEvent } from '../lock/events.ts';
import type { LockKey } from '../lock/state.ts';
import type { Item, ItemKey } from '../table/attributes.ts';
import { integer, oneOf, optional, text } from '../table/attributes.ts';
import { TableStore } from '../table/item-table.ts';
import { after, epochMs, toTtlSeconds } from '../time/clock.ts';
import { defined } from '../tools/collections.ts';
import { listed, readPlaces } from './history-rules.ts';

/** One event of a lock, as it is shown. Without renewals: the history of a held lock would consist of them alone. */
export type HistoryEvent = LockEvent & { readonly type: EventType };

export interface HistoryEntry {
  readonly key: LockKey;
  /** Its place in the lock's history. Places sort in the order of the events. The same event always has the same place. */
  readonly place: string;
  readonly event: HistoryEvent;
  /** If the event is the end of a hold: the grant with which the hold began. */
  readonly grant?: HistoryEvent;
}

export interface HistoryPage {
  readonly events: readonly HistoryEvent[];
  /** Where the next page begins, if there may be older events. */
  readonly before?: string;
}

export interface HistoryPageAsked {
  readonly limit: number;
  /** The value from the page before. */
  readonly before?: string | undefined;
  /**
   * The grants of the current holders. They must be read before the history. If a hold ends in between, it is then found twice. In the
   * other order, it could be missed.
   */
  readonly standing: readonly HistoryEvent[];
}

/** Long enough to ask on Monday what happened on Friday. Short enough to be cheap. */
export const historyKeptMs = 7 * 86_400_000;

const words = { partition: 'pk', place: 'sk' };

const partitionOf = ({ namespace, name }: LockKey): string => `${namespace}/history/${name}`;
const itemKeyOf = ({ key, place }: HistoryEntry): ItemKey => ({ pk: partitionOf(key), sk: place });

/** Each hold that ended is an item under its lock, and so is each event of the queue, sorted by their places. */
export class HistoryStore extends TableStore {
  /** Idempotent: the same event has the same place. Returns the entries that could not be written. */
  async append(entries: readonly HistoryEntry[]): Promise<readonly HistoryEntry[]> {
    // A repeated event has the same key, and DynamoDB refuses a batch that names a key twice.
    const unique = new Map(entries.map((entry) => [idOf(entry), toItem(entry)]));
    const unwritten = new Set(await this.table.replaceMany([...unique.values()]));
    return entries.filter((entry) => unwritten.has(unique.get(idOf(entry)) as Item));
  }

  /** Newest first. */
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
