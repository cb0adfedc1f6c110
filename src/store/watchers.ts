/**
 * A connection in the table.
 *
 *     {ns}/watchers     watcher/{id}   what it watches, by namespace: one query finds all watchers of an event
 *     {ns}/sockets      watcher/{id}   a connection that watches nothing: no event reads it
 *     #connection/{id}  connection     its namespace and caller, by id: `$disconnect` has only the id
 *
 * When the first of these items appears in the stream, the publisher sends the first message. The handler of `$connect` can't send it,
 * because nothing can be posted to a connection before `$connect` was answered.
 */
import type { DynamoDBRecord } from 'aws-lambda';
import type { Item, ItemKey } from '../table/attributes.ts';
import { instant, optional, text, update } from '../table/attributes.ts';
import { TableStore } from '../table/item-table.ts';
import { watcherSortPrefix } from '../table/shape.ts';
import { imagesOf } from '../table/stream-images.ts';
import { after, type EpochMs, toTtlSeconds } from '../time/clock.ts';

/** API Gateway ends every connection after two hours. After one more hour, an item that is left has no connection. */
const connectionKeptMs = 3 * 3_600_000;

const words = { partition: 'pk', welcomed: 'welcomed' };

const watchersPartition = (namespace: string): string => `${namespace}/watchers`;

const watcherKey = ({ namespace, connectionId, subject }: Pick<Watcher, 'namespace' | 'connectionId' | 'subject'>) => ({
  pk: subject === 'nothing' ? `${namespace}/sockets` : watchersPartition(namespace),
  sk: `${watcherSortPrefix}${connectionId}`,
});
export const connectionKey = (connectionId: string): ItemKey => ({
  pk: `#connection/${connectionId}`,
  sk: 'connection',
});

/** What a connection watches: one lock, all locks with a prefix, or nothing. In the last case it is only for its own waits. */
export type Subject = { readonly lock: string } | { readonly prefix: string } | 'nothing';

/** An open WebSocket connection. */
export interface Watcher {
  readonly namespace: string;
  readonly caller: string;
  readonly connectionId: string;
  readonly connectedAt: EpochMs;
  readonly subject: Subject;
}

/** The watchers. A connection is removed when it is closed, or when a post to it fails. */
export class WatcherStore extends TableStore {
  async add(watcher: Watcher): Promise<void> {
    const { namespace, caller, connectionId, connectedAt, subject } = watcher;
    const watched = subject === 'nothing' ? {} : subject;
    const ttl = toTtlSeconds(after(connectedAt, connectionKeptMs));
    // The item by id is written first. After the stream shows the watcher, `$disconnect` must be able to find it.
    await this.table.replace({ ...connectionKey(connectionId), namespace, caller, ...watched, ttl });
    await this.table.replace({ ...watcherKey(watcher), caller, at: connectedAt, ...watched, ttl });
  }

  /** The watcher got its first message, so from now on it gets events. False if it has left in the meantime. */
  async welcome(watcher: Watcher): Promise<boolean> {
    // If the watcher left in the meantime, the update must not create a part of its item again.
    const welcomed = update({ set: ['welcomed = :yes'], when: 'attribute_exists(partition)' }, words, { yes: true });
    return (await this.table.update(watcherKey(watcher), welcomed)).applied;
  }

  /** The watchers of a namespace that watch something and got their first message. Strongly consistent, so no event is missed after it. */
  async welcomed(namespace: string): Promise<readonly Watcher[]> {
    const items = await this.table.query({
      where: 'partition = :watchers',
      filter: 'welcomed = :yes',
      words,
      values: { watchers: watchersPartition(namespace), yes: true },
      consistent: true,
    });
    return items.map(fromItem);
  }

  /** By its id alone, because `$disconnect` has only the id. */
  async remove(connectionId: string): Promise<void> {
    const key = connectionKey(connectionId);
    const item = await this.table.get(key);
    if (item === undefined) return;
    const watched = { namespace: text(item, 'namespace'), connectionId, subject: subjectIn(item) };
    await this.table.removeMany([key, watcherKey(watched)]);
  }
}

function fromItem(item: Item): Watcher {
  return {
    namespace: text(item, 'pk').replace(/\/.*$/, ''),
    connectionId: text(item, 'sk').slice(watcherSortPrefix.length),
    connectedAt: instant(item, 'at'),
    caller: optional(text, item, 'caller') ?? 'anonymous',
    subject: subjectIn(item),
  };
}

function subjectIn(item: Item): Subject {
  if (item.lock !== undefined) return { lock: text(item, 'lock') };
  return item.prefix === undefined ? 'nothing' : { prefix: text(item, 'prefix') };
}

/** The watcher that has just connected. Undefined if the stream record shows something else. */
export function arrivalOf(record: DynamoDBRecord): Watcher | undefined {
  const isWatcher = record.dynamodb?.Keys?.sk?.S?.startsWith(watcherSortPrefix) ?? false;
  if (record.eventName !== 'INSERT' || !isWatcher) return undefined;
  const { after: item } = imagesOf(record);
  return item === undefined ? undefined : fromItem(item);
}

export const isWatching = ({ subject }: Watcher, lock: string): boolean =>
  subject !== 'nothing' && ('lock' in subject ? subject.lock === lock : lock.startsWith(subject.prefix));
