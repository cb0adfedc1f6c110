import { after, type EpochMs, toTtlSeconds } from '../../time/clock.ts';
import type { LockKey } from '../lock-store.ts';
import type { TimerNotes } from '../timer-notes.ts';
import type { ItemKey } from './attributes.ts';
import { instant } from './attributes.ts';
import { ItemTable, type TableAccess } from './item-table.ts';

/** A note about a timer that has fired says nothing; an hour covers whatever a queue is late by. */
const noteKeptMs = 3_600_000;

const timerKey = ({ namespace, name }: LockKey): ItemKey => ({ pk: `${namespace}/timer/${name}`, sk: 'timer' });

export class DynamoDBTimerNotes implements TimerNotes {
  readonly #table: ItemTable;

  constructor(access: TableAccess) {
    this.#table = new ItemTable(access);
  }

  async read(key: LockKey): Promise<EpochMs | undefined> {
    const item = await this.#table.get(timerKey(key));
    return item === undefined ? undefined : instant(item, 'firesAt');
  }

  write(key: LockKey, firesAt: EpochMs): Promise<void> {
    return this.#table.replace({ ...timerKey(key), firesAt, ttl: toTtlSeconds(after(firesAt, noteKeptMs)) });
  }
}
