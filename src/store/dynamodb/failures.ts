import type { ConditionalCheckFailedException, TransactionCanceledException } from '@aws-sdk/client-dynamodb';
import { StoreError } from '../store-error.ts';
import { fromWireMap, type WireValue } from './values.ts';

/** Refusals to take traffic for a moment: the same request may pass later. */
const throttlings = new Set([
  'ProvisionedThroughputExceededException',
  'ThrottlingException',
  'RequestLimitExceeded',
  'LimitExceededException',
]);

export const isThrottling = (name: string): boolean => throttlings.has(name);

/** A plain write met a transaction on the same item. Nothing was written, and it says nothing about who holds the lock. */
const conflicts = new Set(['TransactionConflictException', 'TransactionInProgressException']);

/** A refused condition, of one write or of a transaction in which nothing worse went wrong. */
export function isConditionFailure(error: unknown): error is ConditionalCheckFailedException {
  if (!(error instanceof Error)) return false;
  return error.name === 'ConditionalCheckFailedException' || cancellationCodes(error).has('ConditionalCheckFailed');
}

/** Why a transaction was cancelled, item by item. */
function cancellationCodes(error: Error): ReadonlySet<string> {
  if (error.name !== 'TransactionCanceledException') return new Set();
  const { CancellationReasons } = error as TransactionCanceledException;
  return new Set(CancellationReasons?.map(({ Code }) => Code ?? '').filter((code) => code !== '' && code !== 'None'));
}

/** The item that refused the condition. The document client turns results into plain values, but not what errors carry. */
export function refusedItem(error: ConditionalCheckFailedException | TransactionCanceledException) {
  const item =
    'CancellationReasons' in error
      ? error.CancellationReasons?.find(({ Code }) => Code === 'ConditionalCheckFailed')?.Item
      : (error as ConditionalCheckFailedException).Item;
  return item === undefined ? undefined : fromWireMap(item as Record<string, WireValue>);
}

/** How often the SDK sent a request before this came of it. More than once means that an earlier try may have taken effect. */
export const attemptsOf = (outcome: unknown): number =>
  (outcome as { $metadata?: { attempts?: number } } | undefined)?.$metadata?.attempts ?? 1;

/** Everything that is not a refused condition: never "held", never a grant. */
export function toStoreError(error: unknown): StoreError {
  if (error instanceof StoreError) return error;
  const { name, message } = error instanceof Error ? error : { name: 'unknown', message: String(error) };
  const cancelled = error instanceof Error ? cancellationCodes(error) : new Set();
  if (conflicts.has(name) || cancelled.has('TransactionConflict'))
    return new StoreError('conflict', 'A transaction was under way on the same item.', error);
  if (isThrottling(name) || cancelled.has('ThrottlingError') || cancelled.has('ProvisionedThroughputExceeded'))
    return new StoreError('throttled', 'The store asked for less traffic.', error);
  if (name === 'ValidationException' && /size/i.test(message) && /exceed/i.test(message)) {
    return new StoreError('too-large', 'The item would outgrow what the store takes.', error);
  }
  return new StoreError('unavailable', `The store can't be reached or did not answer in time (${name}).`, error);
}
