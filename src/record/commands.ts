import type { RecordState, WrittenHow } from './state.ts';

/** What must be there for a write to happen: one very version, any record at all, or none. */
export type Expectation =
  | { readonly kind: 'version'; readonly version: number }
  | { readonly kind: 'present' }
  | { readonly kind: 'absent' };

interface Write {
  /** Names this write among all others of the record, so that a repetition is told from a second write. */
  readonly writeId: string;
  /** The fence of the lock that guards the record. */
  readonly fence?: number;
}

export interface Put extends Write {
  readonly kind: 'put';
  readonly expects: Expectation;
  /** JSON text. */
  readonly value: string;
  /** How long the record is there. Absent: until it is replaced or deleted. */
  readonly expiresInMs?: number;
}

export interface Delete extends Write {
  readonly kind: 'delete';
  readonly expects: Exclude<Expectation, { readonly kind: 'absent' }>;
}

export type RecordCommand = Put | Delete;

export type RecordAnswer =
  /** `version`: the one that this write made, which others may have replaced since. */
  | { readonly kind: 'written'; readonly how: WrittenHow; readonly version: number }
  | { readonly kind: 'stale-fence'; readonly floor: number }
  | { readonly kind: 'fence-required' }
  /** Null: there is no record. */
  | { readonly kind: 'version-mismatch'; readonly version: number | null }
  | { readonly kind: 'write-id-reused' };

export interface RecordDecision {
  /** The very object that came in where nothing changes: then there is nothing to write. */
  readonly next: RecordState;
  readonly answer: RecordAnswer;
}
