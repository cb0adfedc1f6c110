import { describe, expect, it } from 'vitest';
import * as errors from '../../../src/client/errors.ts';

describe('an error of the SDK', () => {
  it.each([
    [new errors.HoldfastError('forbidden', 'm'), 'HoldfastError', 'forbidden', {}],
    [new errors.LockHeldError('m'), 'LockHeldError', 'lock-held', { holders: [], queueDepth: 0, retryAfterMs: 0 }],
    [new errors.WaitTimeoutError('m'), 'WaitTimeoutError', 'wait-timeout', { blockedBy: [], waitedMs: 0 }],
    [new errors.LeaseLostError('m', 'expired'), 'LeaseLostError', 'lease-lost', { reason: 'expired' }],
    [new errors.DeadlockError('m', []), 'DeadlockError', 'deadlock', { cycle: [] }],
    [new errors.StaleFenceError('m', 7), 'StaleFenceError', 'stale-fence', { floor: 7 }],
    [new errors.VersionMismatchError('m', null), 'VersionMismatchError', 'version-mismatch', { version: null }],
    [new errors.LimitMismatchError('m', 3), 'LimitMismatchError', 'limit-mismatch', { limit: 3 }],
    [new errors.SessionLostError('m'), 'SessionLostError', 'session-lost', {}],
    [new errors.UnavailableError('m'), 'UnavailableError', 'unavailable', { retryAfterMs: 0, circuitOpen: false }],
    [new errors.ThrottledError('m', 5), 'ThrottledError', 'throttled', { retryAfterMs: 5 }],
    [new errors.QueueFullError('m', 5), 'QueueFullError', 'queue-full', { retryAfterMs: 5 }],
    [new errors.InvalidRequestError('m'), 'InvalidRequestError', 'invalid-request', { errors: [] }],
    [new errors.TooManyRetriesError('m', 9), 'TooManyRetriesError', 'too-many-retries', { tries: 9 }],
    [
      new errors.OnceFailedError('m', { name: 'Error', message: 'x', startedAt: 'then' }),
      'OnceFailedError',
      'once-failed',
      { failure: { name: 'Error', message: 'x', startedAt: 'then' } },
    ],
    [new errors.ClosedError('m'), 'ClosedError', 'closed', {}],
  ])('has its name, its code and its fields: %s', (error, name, code, fields) => {
    expect(error).toBeInstanceOf(errors.HoldfastError);
    expect(error).toMatchObject({ name, code, message: 'm', status: undefined, requestId: undefined, ...fields });
    expect(error).not.toHaveProperty('cause');
    expect(errors.isHoldfastError(error)).toBe(true);
  });

  it('keeps what the service said, and the cause', () => {
    const details = { status: 503, requestId: 'r1', cause: 'why' };
    const open = new errors.UnavailableError('m', { retryAfterMs: 4, circuitOpen: true, code: 'internal' }, details);
    expect(open).toMatchObject({ ...details, retryAfterMs: 4, circuitOpen: true, code: 'internal' });
    expect(new errors.LeaseLostError('m', 'expired', details)).toMatchObject(details);
  });

  it('is known even if another copy of the package made it', () => {
    const foreign = Object.assign(new Error('m'), { code: 'forbidden', status: 403, requestId: undefined });
    expect(errors.isHoldfastError(foreign)).toBe(true);
    for (const missing of ['code', 'status', 'requestId']) {
      const { [missing]: _, ...rest } = { code: 'x', status: 1, requestId: 'r' } as Record<string, unknown>;
      expect(errors.isHoldfastError(Object.assign(new Error('m'), rest))).toBe(false);
    }
    for (const other of [undefined, 'text', { code: 'x', status: 1, requestId: 'r' }, new Error('m')])
      expect(errors.isHoldfastError(other)).toBe(false);
  });

  it('of a field names it', () => {
    expect(errors.invalidField('url', 'is missing')).toMatchObject({
      message: 'url is missing.',
      errors: [{ field: 'url', message: 'is missing' }],
    });
    expect(errors.invalidField('lock', 'is wrong', 'The name').message).toBe('The name is wrong.');
  });
});
