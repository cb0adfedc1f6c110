import { TransactionCanceledException } from '@aws-sdk/client-dynamodb';
import { describe, expect, it } from 'vitest';
import { attemptsOf, isConditionFailure, mayHaveTakenEffect, toStoreError } from '../../../src/table/failures.ts';

const cancelled = (...reasons: { Code: string; Message?: string }[]) =>
  new TransactionCanceledException({
    message: 'Transaction cancelled, please refer cancellation reasons for specific reasons',
    $metadata: {},
    CancellationReasons: [{ Code: 'None' }, ...reasons],
  });

describe('a failure', () => {
  const named = (name: string, message = 'no') => Object.assign(new Error(message), { name });
  const busy = 'Another transaction was running on the same item.';
  const throttledText = 'The store throttled the request.';
  const large = 'The item would be larger than the store allows.';
  const unreachable = (name: string) => `The store can't be reached or did not answer in time (${name}).`;

  it.each<[string, unknown, string, string]>([
    ['a conflict', named('TransactionConflictException'), 'conflict', busy],
    ['a transaction that runs', named('TransactionInProgressException'), 'conflict', busy],
    ['too many units', named('ProvisionedThroughputExceededException'), 'throttled', throttledText],
    ['throttling', named('ThrottlingException'), 'throttled', throttledText],
    ['a limit of requests', named('RequestLimitExceeded'), 'throttled', throttledText],
    ['another limit', named('LimitExceededException'), 'throttled', throttledText],
    ['a large item', named('ValidationException', 'Item size has exceeded the maximum'), 'too-large', large],
    [
      'a wrong size',
      named('ValidationException', 'The size is wrong'),
      'refused',
      'The store does not take this request.',
    ],
    ['too many keys', named('ValidationException', 'It exceeded'), 'refused', 'The store does not take this request.'],
    [
      'a refusal after a try without an answer',
      Object.assign(named('ValidationException'), { [mayHaveTakenEffect]: true }),
      'unavailable',
      unreachable('ValidationException'),
    ],
    ['a large thing', named('Error', 'The size exceeds'), 'unavailable', unreachable('Error')],
    ['no connection', named('TimeoutError'), 'unavailable', unreachable('TimeoutError')],
    ['a text', 'down', 'unavailable', unreachable('unknown')],
    ['nothing', null, 'unavailable', unreachable('unknown')],
  ])('by %s keeps its cause and says what it means', (_what, cause, code, message) => {
    const failure = toStoreError(cause);
    expect([failure.name, failure.code, failure.message, failure.cause]).toEqual(['StoreError', code, message, cause]);
    expect(toStoreError(failure), 'a failure that is known already').toBe(failure);
    expect(isConditionFailure(cause)).toBe(false);
  });

  it('by throttling after a try without an answer may have written', () => {
    expect(toStoreError(Object.assign(named('ThrottlingException'), { [mayHaveTakenEffect]: true }))).toMatchObject({
      code: 'unavailable',
      message: 'The store did not answer in time, and then throttled the request.',
    });
  });

  it('by a conflict after a try without an answer may have written', () => {
    const uncertain = Object.assign(named('TransactionConflictException'), { [mayHaveTakenEffect]: true });
    expect(toStoreError(uncertain)).toMatchObject({
      code: 'unavailable',
      message: 'The store did not answer in time, and then met another transaction.',
    });
  });

  it('tells how often its request was sent', () => {
    expect(attemptsOf({ $metadata: { attempts: 3 } })).toBe(3);
    expect([attemptsOf({ $metadata: {} }), attemptsOf({}), attemptsOf(undefined)]).toEqual([1, 1, 1]);
  });

  it('is no refusal of a condition unless it says so', () => {
    expect(isConditionFailure(named('ConditionalCheckFailedException'))).toBe(true);
    expect(isConditionFailure({ name: 'ConditionalCheckFailedException' })).toBe(false);
    const odd = { CancellationReasons: [{ Code: 'ConditionalCheckFailed' }] };
    expect(isConditionFailure(Object.assign(named('AnotherException'), odd))).toBe(false);
    expect(isConditionFailure(named('TransactionCanceledException'))).toBe(false);
  });
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
    ['for its rights', 'unavailable', { Code: 'AccessDenied', Message: 'The size exceeds what is allowed' }],
    ['for what it asks', 'refused', { Code: 'ValidationError', Message: 'The provided key is not valid' }],
  ])('%s is reported as %s', (_why, code, reason) => {
    expect(isConditionFailure(cancelled(reason))).toBe(false);
    expect(toStoreError(cancelled(reason))).toMatchObject({ code, cause: expect.any(TransactionCanceledException) });
  });

  it('because of a condition is a refusal and not a failure', () => {
    expect(isConditionFailure(cancelled({ Code: 'ConditionalCheckFailed' }))).toBe(true);
  });
});
