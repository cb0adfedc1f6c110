import { type LockEventType, lockEventTypes } from '../lock/events.ts';
import type { LockKey } from './lock-store.ts';

/** A renewal is not an event: the history of a held lock would consist of renewals alone. */
export type HistoryType = Exclude<LockEventType, 'renewed'>;
export const historyTypes = lockEventTypes.filter((type) => type !== 'renewed');

/** One thing that happened to a lock, as it is shown. Never a leaseId: it is read by many. */
export interface HistoryEvent {
  readonly at: number;
  readonly type: HistoryType;
  readonly fence: number;
  readonly owner: string;
  readonly heldMs?: number;
  readonly waitedMs?: number;
  readonly reason?: string;
}

export interface HistoryEntry {
  readonly key: LockKey;
  /** Its place in the lock's history: sorts as things happened, and is the same however often the event is derived. */
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
  /** As the page before gave it. */
  readonly before?: string | undefined;
  /**
   * The grants of those that hold the lock. They must be read before the history is: a hold that ends in between is then known by both,
   * and not by neither.
   */
  readonly standing: readonly HistoryEvent[];
}

/** Long enough to ask on Monday what happened on Friday, short enough that nobody pays for an archive. */
export const historyKeptMs = 7 * 86_400_000;

/** What happened to each lock in the last days. */
export interface HistoryStore {
  /** Safe to repeat: the same event takes the same place. Comes back with those that could not be written. */
  append(entries: readonly HistoryEntry[]): Promise<readonly HistoryEntry[]>;

  /** Newest first. */
  page(key: LockKey, page: HistoryPageAsked): Promise<HistoryPage>;
}
