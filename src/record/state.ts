import { type EpochMs, epochMs } from '../time/clock.ts';

export const writtenHows = ['created', 'replaced', 'deleted'] as const;
export type WrittenHow = (typeof writtenHows)[number];

/** Everything about one record: one item, so that every write is one atomic step. */
export interface RecordState {
  /** Raised by one with every write, deletions included. It never restarts. Zero: never written. */
  readonly version: number;
  /** The value's JSON text, exactly as it came. Null: there is no record, because it was deleted or never written. */
  readonly value: string | null;
  /** The highest fence that was accepted. It never falls, not even by a deletion. Null: no write has carried one. */
  readonly floor: number | null;
  /** What the write that made this version did. Null: never written. */
  readonly how: WrittenHow | null;
  /**
   * The ids of the latest writes, newest first: the first made this version, the second the version before it, and so on. A write that is
   * repeated after its answer was lost is recognised among them, also where others have written since.
   */
  readonly writeIds: readonly string[];
  /** When this version was written, by the writer's clock. It tells people, and decides nothing. */
  readonly updatedAt: EpochMs;
  /** From then on there is no record, though its version and its floor go on. Null: it has no end. */
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

/** The version that a caller may name: none where there is no record, though a tombstone keeps counting. */
export const versionInForce = (state: RecordState, now: EpochMs): number | null =>
  valueInForce(state, now) === null ? null : state.version;
