/**
 * How a watcher lies in the table.
 *
 *     {ns}/watchers    watcher/{id}   what it watches, by namespace: one query finds everybody to be shown an event
 *     connection/{id}  connection     its namespace, by id: a goodbye tells nothing else
 *
 * The first one's arrival in the stream is what makes the notifier send the first message: before `$connect` has been
 * answered nothing can be posted to a connection, so the handler of `$connect` itself can't.
 */
import type { DynamoDBRecord } from 'aws-lambda';
import { after, toTtlSeconds } from '../../time/clock.ts';
import type { Watcher, WatcherStore } from '../watcher-store.ts';
import { update } from './expressions.ts';
import { type Item, ItemTable, type TableAccess } from './item-table.ts';
import type { ItemKey } from './keys.ts';
import { instant, text } from './reading.ts';
import { imagesOf } from './stream-images.ts';
import { watcherSortPrefix } from './table.ts';

/** API Gateway ends every connection after two hours; an hour more, and what is left over is nobody's. */
const connectionKeptMs = 3 * 3_600_000;

const words = { partition: 'pk', welcomed: 'welcomed' };

const watcherKey = (namespace: string, connectionId: string): ItemKey => ({
  pk: `${namespace}/watchers`,
  sk: `${watcherSortPrefix}${connectionId}`,
});
const connectionKey = (connectionId: string): ItemKey => ({ pk: `connection/${connectionId}`, sk: 'connection' });

export class DynamoDBWatchers implements WatcherStore {
  readonly #table: ItemTable;

  constructor(access: TableAccess) {
    this.#table = new ItemTable(access);
  }

  async add(watcher: Watcher): Promise<void> {
    const { namespace, connectionId, connectedAt, subject } = watcher;
    const ttl = toTtlSeconds(after(connectedAt, connectionKeptMs));
    // By id first: what the stream announces must be possible to say goodbye to.
    await this.#table.replace({ ...connectionKey(connectionId), namespace, ttl });
    await this.#table.replace({ ...watcherKey(namespace, connectionId), at: connectedAt, ...subject, ttl });
  }

  async welcome({ namespace, connectionId }: Watcher): Promise<boolean> {
    // A watcher that left in the meantime must not come back as half an item.
    const welcomed = update({ set: ['welcomed = :yes'], when: 'attribute_exists(partition)' }, words, { yes: true });
    return (await this.#table.update(watcherKey(namespace, connectionId), welcomed)).applied;
  }

  async welcomed(namespace: string): Promise<readonly Watcher[]> {
    const items = await this.#table.query({
      where: 'partition = :watchers',
      filter: 'welcomed = :yes',
      words,
      values: { watchers: watcherKey(namespace, '').pk, yes: true },
      consistent: true,
    });
    return items.map(fromItem);
  }

  async remove(connectionId: string): Promise<void> {
    const key = connectionKey(connectionId);
    const item = await this.#table.get(key);
    if (item === undefined) return;
    await this.#table.removeMany([watcherKey(text(item, 'namespace'), connectionId), key]);
  }
}

function fromItem(item: Item): Watcher {
  return {
    namespace: text(item, 'pk').replace(/\/.*$/, ''),
    connectionId: text(item, 'sk').slice(watcherSortPrefix.length),
    connectedAt: instant(item, 'at'),
    subject: item.lock === undefined ? { prefix: text(item, 'prefix') } : { lock: text(item, 'lock') },
  };
}

/** The watcher that has just connected, where that is what a stream record shows. */
export function arrivalOf(record: DynamoDBRecord): Watcher | undefined {
  const isWatcher = record.dynamodb?.Keys?.sk?.S?.startsWith(watcherSortPrefix) ?? false;
  if (record.eventName !== 'INSERT' || !isWatcher) return undefined;
  const { after: item } = imagesOf(record);
  return item === undefined ? undefined : fromItem(item);
}
