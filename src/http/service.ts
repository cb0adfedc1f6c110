import type { LockContext } from '../service/context.ts';
import type { RecordContext } from '../service/records.ts';
import type { HistoryStore } from '../store/history-store.ts';

/** Everything that the operations need, wired once when a process starts. */
export interface Service {
  readonly locks: LockContext;
  readonly records: RecordContext;
  readonly history: HistoryStore;
  /** Reads the store; fails where it can't be reached. */
  readonly probe: () => Promise<void>;
  /** Which engine holds the data: `dynamodb`, or the name of a local one. */
  readonly engine: string;
  readonly version: string;
}
