/** What the notifier and the reaper note: deliveries, timers, and the locks with waiters. */
import type { LockKey } from '../lock/state.ts';
import { awaitedPartition, layoutKnown, lockItemKey, lockKeyOf, lockWords } from '../queue/lock-item.ts';
import { nobodyWaits } from '../queue/lock-writes.ts';
import { type Item, type ItemKey, instant, integer, optional, text, update } from '../table/attributes.ts';
import { TableStore } from '../table/item-table.ts';
import { awaitedShards, tableShape } from '../table/shape.ts';
import { after, type EpochMs, toTtlSeconds } from '../time/clock.ts';

/** A stream keeps its records for a day. After twice that time no repeat can come. */
const deliveryKeptMs = 2 * 86_400_000;

/** What is known about the deliveries of a grant to a parked waiter. */
export interface Delivery {
  /** How many deliveries were begun. Each is counted before it is sent, so none is missed. */
  readonly tries: number;
  /** Written after the delivery. A notifier that dies in between delivers again. So a waiter may get its delivery twice, but never not at all. */
  readonly delivered: boolean;
}

const words = { tries: 'tries', delivered: 'told', collectAt: 'ttl' };

const deliveryKey = ({ namespace, name }: LockKey, fence: number): ItemKey => ({
  pk: `${namespace}/told/${name}`,
  sk: String(fence),
});

/** Which grants were delivered to parked waiters, by lock and fence. */
export class DeliveryStore extends TableStore {
  /** Counts one more try and returns the result. If an answer is lost, it may count too many, but never too few. */
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

/** When the timer of a lock fires. For timers that can't be read back, such as messages in a queue. */
export class TimerNotes extends TableStore {
  async read(key: LockKey): Promise<EpochMs | undefined> {
    const item = await this.table.get(timerKey(key));
    return item === undefined ? undefined : instant(item, 'firesAt');
  }

  write(key: LockKey, firesAt: EpochMs): Promise<void> {
    return this.table.replace({ ...timerKey(key), firesAt, ttl: toTtlSeconds(after(firesAt, noteKeptMs)) });
  }
}

/** The sparse index of locks with waiters, oldest wait first. */
export class AwaitedLocks extends TableStore {
  /** It may also name locks whose queue is empty now, because a release does not write to the index. */
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
        // An item of a newer layout is left to the release that knows it.
        when: `attribute_exists(awaitedPartition) AND ${nobodyWaits} AND layout <= :layout`,
      },
      lockWords,
      { one: 1, layout: layoutKnown },
    );
    await this.table.update(lockItemKey(key), forgotten, { wantsItem: false });
  }
}
