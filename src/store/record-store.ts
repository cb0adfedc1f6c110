import type { RecordCommand } from '../record/commands.ts';
import type { RecordState } from '../record/state.ts';
import type { EpochMs } from '../time/clock.ts';

export interface RecordKey {
  readonly namespace: string;
  readonly key: string;
}

/**
 * The outcome of a write. A refusal has the state that refused it, so that no read is needed. The state that an applied
 * write made may lack the ids of earlier writes.
 */
export interface RecordWritten {
  readonly applied: boolean;
  readonly state: RecordState;
}

/**
 * Keeps one item per record for ever. After a deletion the item is small, and has only the version and the floor. An
 * adapter decides nothing: it writes what `decide` would write, and nothing if `decide` would not. If the outcome is
 * unknown, it throws `StoreError`.
 */
export interface RecordStore {
  /** Strongly consistent. A record that was never written is `unwrittenRecord`. */
  read(key: RecordKey): Promise<RecordState>;

  /** Carries out a command in one write, without a read. Refused exactly if `decide` would not change the state. */
  attempt(key: RecordKey, command: RecordCommand, now: EpochMs): Promise<RecordWritten>;
}
