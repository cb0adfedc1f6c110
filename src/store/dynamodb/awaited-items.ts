import type { AwaitedLocks } from '../awaited-locks.ts';
import type { LockKey } from '../lock-store.ts';
import { text, update } from './attributes.ts';
import { ItemTable, type TableAccess } from './item-table.ts';
import { awaitedPartition, lockItemKey, lockKeyOf, lockWords } from './lock-item.ts';
import { nobodyWaits } from './lock-writes.ts';
import { awaitedShards, tableShape } from './table.ts';

/** The sparse index of locks with waiters, oldest wait first. */
export class DynamoDBAwaitedLocks implements AwaitedLocks {
  readonly #table: ItemTable;

  constructor(access: TableAccess) {
    this.#table = new ItemTable(access);
  }

  async *list(): AsyncIterable<LockKey> {
    for (let shard = 0; shard < awaitedShards; shard++) {
      const found = this.#table.queried({
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
    await this.#table.update(lockItemKey(key), forgotten, { wantsItem: false });
  }
}
