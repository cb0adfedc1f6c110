import type { EventType, LockEvent } from '../lock/events.ts';
import type { LockKey } from '../lock/state.ts';

/** One event of a lock, as it is shown. Without renewals: the history of a held lock would consist of them alone. */
export type HistoryEvent = LockEvent & { readonly type: EventType };

export interface HistoryEntry {
  readonly key: LockKey;
  /** Its place in the lock's history. Places sort in the order of the events. The same event always has the same place. */
  readonly place: string;
  readonly event: HistoryEvent;
  /** If the event is the end of a hold: the grant with which the hold began. */
  readonly grant?: HistoryEvent;
}

export interface HistoryPage {
  readonly events: readonly HistoryEvent[];
  /** Where the next page begins, if there may be older events. */
  readonly before?: string;
}

export interface HistoryPageAsked {
  readonly limit: number;
  /** The value from the page before. */
  readonly before?: string | undefined;
  /**
   * The grants of the current holders. They must be read before the history. If a hold ends in between, it is then found twice. In the
   * other order, it could be missed.
   */
  readonly standing: readonly HistoryEvent[];
}

/** Long enough to ask on Monday what happened on Friday. Short enough to be cheap. */
export const historyKeptMs = 7 * 86_400_000;

/** The events of each lock in the last days. */
export interface HistoryStore {
  /** Safe to repeat: the same event has the same place. Returns the entries that could not be written. */
  append(entries: readonly HistoryEntry[]): Promise<readonly HistoryEntry[]>;

  /** Newest first. */
  page(key: LockKey, page: HistoryPageAsked): Promise<HistoryPage>;
}
