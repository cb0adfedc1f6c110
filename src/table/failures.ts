import type { StoredItem } from './json.ts';
import { StoreError } from './store-error.ts';

/** The store is too busy for a moment. The same request may succeed later. */
const throttlings = new Set([
  'ProvisionedThroughputExceededException',
  'ThrottlingException',
  'RequestLimitExceeded',
  'LimitExceededException',
]);

export const isThrottling = (name: string): boolean => throttlings.has(name);

/** A plain write met a transaction on the same item. Nothing was written, and the error does not show the item. */
const conflicts = new Set(['TransactionConflictException', 'TransactionInProgressException']);

/** Why one write of a transaction was cancelled. */
interface CancellationReason {
  readonly Code?: string;
  readonly Message?: string;
  readonly Item?: StoredItem;
}

/** A refused condition, of a single write or in a transaction. */
export interface ConditionFailure extends Error {
  readonly Item?: StoredItem;
  readonly CancellationReasons?: readonly CancellationReason[];
}

export function isConditionFailure(error: unknown): error is ConditionFailure {
  if (!(error instanceof Error)) return false;
  return error.name === 'ConditionalCheckFailedException' || cancellationCodes(error).has('ConditionalCheckFailed');
}

const reasonsOf = (error: unknown): readonly CancellationReason[] =>
  error instanceof Error && error.name === 'TransactionCanceledException' && 'CancellationReasons' in error
    ? (error.CancellationReasons as readonly CancellationReason[])
    : [];

/** Why a transaction was cancelled, item by item. */
const cancellationCodes = (error: unknown): ReadonlySet<string | undefined> =>
  new Set(reasonsOf(error).map(({ Code }) => Code));

const isTooLarge = (message: string): boolean => /size/i.test(message) && /exceed/i.test(message);

/** Marks a refusal after an earlier try of the same request had no answer. That try may have written. */
export const mayHaveTakenEffect = Symbol('mayHaveTakenEffect');

/** How often a request was sent before this outcome. If more than once, an earlier try may have taken effect. */
export const attemptsOf = (outcome: unknown): number =>
  (outcome as { $metadata?: { attempts?: number } } | undefined)?.$metadata?.attempts ?? 1;

/** Whether an earlier try of the same request had no answer. */
export const isUncertain = (error: unknown): boolean => error instanceof Error && mayHaveTakenEffect in error;

/** Whether another transaction was running on the same item. */
export const isConflict = (error: unknown): boolean =>
  error instanceof Error && (conflicts.has(error.name) || cancellationCodes(error).has('TransactionConflict'));

/**
 * Whether a transaction was cancelled because the store is too busy for one of its items. The SDK does not try it again,
 * although it does so with every other request that is throttled.
 */
export const isCancelledByTraffic = (error: unknown): boolean => {
  const cancelled = cancellationCodes(error);
  return cancelled.has('ThrottlingError') || cancelled.has('ProvisionedThroughputExceeded');
};

/** Any failure that is not a refused condition. It never becomes "held" and never a grant. */
export function toStoreError(error: unknown): StoreError {
  if (error instanceof StoreError) return error;
  const { name, message } = error instanceof Error ? error : { name: 'unknown', message: String(error) };
  if (isConflict(error)) return conflicted(error as Error);
  if (isThrottling(name) || isCancelledByTraffic(error)) return throttled(error as Error);
  const isSize = name === 'ValidationException' && isTooLarge(message);
  const isSizeInTransaction = reasonsOf(error).some(
    ({ Code, Message = '' }) =>
      Code === 'ItemCollectionSizeLimitExceeded' || (Code === 'ValidationError' && isTooLarge(Message)),
  );
  if (isSize || isSizeInTransaction)
    return new StoreError('too-large', 'The item would be larger than the store allows.', error);
  // The same request would be refused again and again, so it must not look like an outage.
  const isRefused = name === 'ValidationException' || cancellationCodes(error).has('ValidationError');
  if (isRefused && !isUncertain(error))
    return new StoreError('refused', 'The store does not take this request.', error);
  return new StoreError('unavailable', `The store can't be reached or did not answer in time (${name}).`, error);
}

/** Nothing was written, unless an earlier try had no answer. Then the outcome is unknown, and the error says so. */
const conflicted = (error: Error): StoreError =>
  isUncertain(error)
    ? new StoreError('unavailable', 'The store did not answer in time, and then met another transaction.', error)
    : new StoreError('conflict', 'Another transaction was running on the same item.', error);

/** The same for a store that was too busy. */
const throttled = (error: Error): StoreError =>
  isUncertain(error)
    ? new StoreError('unavailable', 'The store did not answer in time, and then throttled the request.', error)
    : new StoreError('throttled', 'The store throttled the request.', error);
