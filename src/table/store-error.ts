/**
 * The store failed, or the outcome is unknown. It is never the refusal of a lock: a refusal is a value.
 *
 * - `unavailable`: the store can't be reached, or is too slow or broken. It is unknown whether a write took effect.
 * - `throttled`: the store is too busy.
 * - `conflict`: others wrote in between, more often than it is tried again.
 * - `too-large`: the item would be larger than the store allows.
 * - `refused`: the store does not take the request, and never will. Nothing was done.
 * - `unreadable`: the item is damaged, or a newer release wrote it. Nothing was done.
 */
export type StoreErrorCode = 'unavailable' | 'throttled' | 'conflict' | 'too-large' | 'refused' | 'unreadable';

export class StoreError extends Error {
  readonly code: StoreErrorCode;

  constructor(code: StoreErrorCode, message: string, cause?: unknown) {
    super(message, { cause });
    this.name = 'StoreError';
    this.code = code;
  }
}
