import type { RecordState, WrittenHow } from './state.ts';

/** What must exist for a write to happen: exactly one version, any record, or none. */
export type Expectation =
  | { readonly kind: 'version'; readonly version: number }
  | { readonly kind: 'present' }
  | { readonly kind: 'absent' };

interface Write {
  /** Identifies this write among all writes of the record, so that a repetition is not taken for a second write. */
  readonly writeId: string;
  /** The fence of the lock that guards the record. */
  readonly fence?: number;
}

export interface Put extends Write {
  readonly kind: 'put';
  readonly expects: Expectation;
  /** JSON text. */
  readonly value: string;
  /** How long the record exists. If missing, until it is replaced or deleted. */
  readonly expiresInMs?: number;
}

export interface Delete extends Write {
  readonly kind: 'delete';
  readonly expects: Exclude<Expectation, { readonly kind: 'absent' }>;
}

export type RecordCommand = Put | Delete;

export type RecordAnswer =
  /** `version` is the one that this write made. Others may have replaced it since. */
  | { readonly kind: 'written'; readonly how: WrittenHow; readonly version: number }
  | { readonly kind: 'stale-fence'; readonly floor: number }
  | { readonly kind: 'fence-required' }
  /** Null if there is no record. */
  | { readonly kind: 'version-mismatch'; readonly version: number | null }
  | { readonly kind: 'write-id-reused' };

export interface RecordDecision {
  /** The same object as before if nothing changes. Then there is nothing to write. */
  readonly next: RecordState;
  readonly answer: RecordAnswer;
}
