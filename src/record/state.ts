import { type EpochMs, epochMs } from '../time/clock.ts';

export const writtenHows = ['created', 'replaced', 'deleted'] as const;
export type WrittenHow = (typeof writtenHows)[number];

/** Everything about one record. It is one item, so that every write is one atomic step. */
export interface RecordState {
  /**
   * Rises by one with every write, deletions included. It never restarts. Zero means that the record was never written.
   */
  readonly version: number;
  /** The value's JSON text, exactly as it came. Null if there is no record, because it was deleted or never written. */
  readonly value: string | null;
  /** The highest fence that was accepted. It never falls, not even by a deletion. Null if no write had a fence. */
  readonly floor: number | null;
  /** What the write of this version did. Null if the record was never written. */
  readonly how: WrittenHow | null;
  /**
   * The ids of the latest writes, newest first: the first made this version, the second the version before it, and so
   * on. They show that a write is a repetition, even if others have written since.
   */
  readonly writeIds: readonly string[];
  /** When this version was written, by the writer's clock. It is only for people. No rule depends on it. */
  readonly updatedAt: EpochMs;
  /** From this instant on there is no record, but its version and its floor continue. Null if it has no end. */
  readonly expiresAt: EpochMs | null;
}

export const unwrittenRecord: RecordState = {
  version: 0,
  value: null,
  floor: null,
  how: null,
  writeIds: [],
  updatedAt: epochMs(0),
  expiresAt: null,
};

export const hasExpired = ({ expiresAt }: RecordState, now: EpochMs): boolean => expiresAt !== null && now >= expiresAt;

/** The value that a reader gets. Null if there is no record: never written, deleted, or at its end. */
export const valueInForce = (state: RecordState, now: EpochMs): string | null =>
  hasExpired(state, now) ? null : state.value;

/** The version that a caller may name. Null if there is no record, although a tombstone keeps its version. */
export const versionInForce = (state: RecordState, now: EpochMs): number | null =>
  valueInForce(state, now) === null ? null : state.version;
