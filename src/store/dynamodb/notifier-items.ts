/** What the notifier and the reaper note, as items. */
import type { LockKey } from '../../lock/state.ts';
import { after, type EpochMs, toTtlSeconds } from '../../time/clock.ts';
import type { AwaitedLocks, Delivery, DeliveryStore, TimerNotes } from '../notifier-store.ts';
import { type Item, type ItemKey, instant, integer, optional, text, update } from './attributes.ts';
import { TableStore } from './item-table.ts';
import { awaitedPartition, lockItemKey, lockKeyOf, lockWords } from './lock-item.ts';
import { nobodyWaits } from './lock-writes.ts';
import { awaitedShards, tableShape } from './table.ts';

/** A stream keeps its records for a day. After twice that time no repeat can come. */
const deliveryKeptMs = 2 * 86_400_000;

const words = { tries: 'tries', delivered: 'told', collectAt: 'ttl' };

const deliveryKey = ({ namespace, name }: LockKey, fence: number): ItemKey => ({
  pk: `${namespace}/told/${name}`,
  sk: String(fence),
});

export class DynamoDBDeliveries extends TableStore implements DeliveryStore {
  begin(key: LockKey, fence: number): Promise<Delivery> {
    // Without a condition, because every try must be counted.
    return this.#update(key, fence, { set: ['collectAt = :collectAt'], add: 'tries :one' }, { one: 1 });
  }

  async read(key: LockKey, fence: number): Promise<Delivery> {
    return fromItem((await this.table.get(deliveryKey(key, fence))) ?? {});
  }

  async markDelivered(key: LockKey, fence: number): Promise<void> {
    await this.#update(key, fence, { set: ['collectAt = :collectAt', 'delivered = :yes'] }, { yes: true });
  }

  async #update(key: LockKey, fence: number, clauses: Parameters<typeof update>[0], values: Item): Promise<Delivery> {
    const collectAt = toTtlSeconds(after(this.clock.now(), deliveryKeptMs));
    const written = await this.table.update(deliveryKey(key, fence), update(clauses, words, { ...values, collectAt }));
    return fromItem(written.item ?? {});
  }
}

const fromItem = (item: Item): Delivery => ({
  tries: optional(integer, item, words.tries) ?? 0,
  delivered: item[words.delivered] === true,
});

/** After its timer has fired, a note is of no use. An hour is longer than any delay of a queue. */
const noteKeptMs = 3_600_000;

const timerKey = ({ namespace, name }: LockKey): ItemKey => ({ pk: `${namespace}/timer/${name}`, sk: 'timer' });

export class DynamoDBTimerNotes extends TableStore implements TimerNotes {
  async read(key: LockKey): Promise<EpochMs | undefined> {
    const item = await this.table.get(timerKey(key));
    return item === undefined ? undefined : instant(item, 'firesAt');
  }

  write(key: LockKey, firesAt: EpochMs): Promise<void> {
    return this.table.replace({ ...timerKey(key), firesAt, ttl: toTtlSeconds(after(firesAt, noteKeptMs)) });
  }
}

/** The sparse index of locks with waiters, oldest wait first. */
export class DynamoDBAwaitedLocks extends TableStore implements AwaitedLocks {
  async *list(): AsyncIterable<LockKey> {
    for (let shard = 0; shard < awaitedShards; shard++) {
      const found = this.table.queried({
        index: tableShape.indexes.awaited.name,
        where: 'awaitedPartition = :shard',
        words: lockWords,
        values: { shard: awaitedPartition(shard) },
      });
      for await (const item of found) {
        const key = lockKeyOf({ pk: text(item, 'pk'), sk: text(item, 'sk') });
        if (key !== undefined) yield key;
      }
    }
  }

  async forget(key: LockKey): Promise<void> {
    const forgotten = update(
      {
        // Like every write, it raises the revision, so that a swap which was decided before is refused.
        set: ['revision = revision + :one'],
        remove: ['awaitedPartition', 'awaitedSince'],
        // Safe because nobody waits at this write, and a waiter that arrives later adds the lock again.
        when: `attribute_exists(awaitedPartition) AND ${nobodyWaits}`,
      },
      lockWords,
      { one: 1 },
    );
    await this.table.update(lockItemKey(key), forgotten, { wantsItem: false });
  }
}
