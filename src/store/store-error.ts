/**
 * The store could not do what was asked, or could not tell. Never a refusal by a lock: those are values.
 *
 * - `unavailable`: out of reach, too slow or broken; whether a write took effect is unknown.
 * - `throttled`: it asked for less traffic.
 * - `conflict`: others kept writing in between, for more tries than are allowed.
 * - `too-large`: the item would outgrow what the store takes.
 * - `unreadable`: what is stored is damaged, or was written by a newer release. Nothing was done.
 */
export type StoreErrorCode = 'unavailable' | 'throttled' | 'conflict' | 'too-large' | 'unreadable';

export class StoreError extends Error {
  readonly code: StoreErrorCode;

  constructor(code: StoreErrorCode, message: string, cause?: unknown) {
    super(message, { cause });
    this.name = 'StoreError';
    this.code = code;
  }
}
