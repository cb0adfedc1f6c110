import { type LockEventType, lockEventTypes } from '../lock/events.ts';
import type { LockKey } from './lock-store.ts';

/** A renewal is not an event: the history of a held lock would consist of renewals alone. */
export type HistoryType = Exclude<LockEventType, 'renewed'>;
export const historyTypes = lockEventTypes.filter((type) => type !== 'renewed');

/** One thing that happened to a lock, as it is remembered and shown. Never a leaseId: it is read by many. */
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
}

export interface HistoryPage {
  readonly events: readonly HistoryEvent[];
  /** The place of the last event, where there may be older ones. */
  readonly before?: string;
}

/** Long enough to ask on Monday what happened on Friday, short enough that nobody pays for an archive. */
export const historyKeptMs = 7 * 86_400_000;

/** What happened to each lock in the last days. */
export interface HistoryStore {
  /** Safe to repeat: the same event takes the same place. Comes back with those that could not be written. */
  append(entries: readonly HistoryEntry[]): Promise<readonly HistoryEntry[]>;

  /** Newest first. */
  page(key: LockKey, page: { readonly limit: number; readonly before?: string | undefined }): Promise<HistoryPage>;
}
