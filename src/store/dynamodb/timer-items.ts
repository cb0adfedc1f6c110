import { after, type EpochMs, toTtlSeconds } from '../../time/clock.ts';
import type { LockKey } from '../lock-store.ts';
import type { TimerNotes } from '../timer-notes.ts';
import type { ItemKey } from './attributes.ts';
import { instant } from './attributes.ts';
import { ItemTable, type TableAccess } from './item-table.ts';

/** After its timer has fired, a note is of no use. An hour is longer than any delay of a queue. */
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
