import { TransactionCanceledException } from '@aws-sdk/client-dynamodb';
import { describe, expect, it } from 'vitest';
import { isConditionFailure, toStoreError } from '../../../src/store/dynamodb/failures.ts';

const cancelled = (...reasons: { Code: string; Message?: string }[]) =>
  new TransactionCanceledException({
    message: 'Transaction cancelled, please refer cancellation reasons for specific reasons',
    $metadata: {},
    CancellationReasons: [{ Code: 'None' }, ...reasons],
  });

describe('a transaction that was cancelled', () => {
  it.each([
    [
      'for the size of an item',
      'too-large',
      { Code: 'ValidationError', Message: 'Item size has exceeded the maximum' },
    ],
    ['for the size of a partition', 'too-large', { Code: 'ItemCollectionSizeLimitExceeded' }],
    ['for another transaction', 'conflict', { Code: 'TransactionConflict' }],
    ['for its traffic', 'throttled', { Code: 'ThrottlingError' }],
    ['for its provisioned traffic', 'throttled', { Code: 'ProvisionedThroughputExceeded' }],
    ['for what it asks', 'unavailable', { Code: 'ValidationError', Message: 'The provided key is not valid' }],
  ])('%s is reported as %s', (_why, code, reason) => {
    expect(isConditionFailure(cancelled(reason))).toBe(false);
    expect(toStoreError(cancelled(reason))).toMatchObject({ code, cause: expect.any(TransactionCanceledException) });
  });

  it('because of a condition is a refusal and not a failure', () => {
    expect(isConditionFailure(cancelled({ Code: 'ConditionalCheckFailed' }))).toBe(true);
  });
});
