import type { RecordCommand } from '../record/commands.ts';
import type { RecordState } from '../record/state.ts';
import type { EpochMs } from '../time/clock.ts';

export interface RecordKey {
  readonly namespace: string;
  readonly key: string;
}

/**
 * What became of a write. A refusal carries the state that refused it, so that nothing has to be read again. The state that an applied write
 * made may lack the ids of earlier writes.
 */
export interface RecordWritten {
  readonly applied: boolean;
  readonly state: RecordState;
}

/**
 * Keeps one item per record, for ever: what deletion leaves behind is small and holds the version and the floor. An adapter
 * decides nothing: it writes what `decide` would write, and nothing where `decide` would not. It throws `StoreError`
 * when it can't tell.
 */
export interface RecordStore {
  /** Strongly consistent. A record that was never written is `unwrittenRecord`. */
  read(key: RecordKey): Promise<RecordState>;

  /** Carries out a command in one write, without reading first. Refused exactly where `decide` would leave the state as it is. */
  attempt(key: RecordKey, command: RecordCommand, now: EpochMs): Promise<RecordWritten>;
}
