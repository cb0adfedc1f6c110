import type { RecordCommand } from '../../record/commands.ts';
import { decide } from '../../record/decide.ts';
import { type RecordState, unwrittenRecord } from '../../record/state.ts';
import type { EpochMs } from '../../time/clock.ts';
import type { RecordKey, RecordStore, RecordWritten } from '../record-store.ts';

/** Records in memory, for simulation and for users' own tests. One process runs one step at a time, so `decide` is enough. */
export class MemoryRecordStore implements RecordStore {
  readonly #records = new Map<string, RecordState>();

  read(key: RecordKey): Promise<RecordState> {
    return Promise.resolve(this.#stateOf(key));
  }

  attempt(key: RecordKey, command: RecordCommand, now: EpochMs): Promise<RecordWritten> {
    const before = this.#stateOf(key);
    const { next } = decide(before, command, now);
    if (next === before) return Promise.resolve({ applied: false, state: before });
    this.#records.set(idOf(key), next);
    return Promise.resolve({ applied: true, state: next });
  }

  #stateOf(key: RecordKey): RecordState {
    return this.#records.get(idOf(key)) ?? unwrittenRecord;
  }
}

const idOf = ({ namespace, key }: RecordKey): string => `${namespace}/${key}`;
