import { describe, expect, it } from 'vitest';
import * as errors from '../../../src/client/errors.ts';

describe('an error of the SDK', () => {
  it.each([
    ['HoldfastError', 'forbidden', () => new errors.HoldfastError('forbidden', 'm'), {}],
    [
      'LockHeldError',
      'lock-held',
      () => new errors.LockHeldError('m'),
      { holders: [], queueDepth: 0, retryAfterMs: 0 },
    ],
    ['WaitTimeoutError', 'wait-timeout', () => new errors.WaitTimeoutError('m'), { blockedBy: [], waitedMs: 0 }],
    ['LeaseLostError', 'lease-lost', () => new errors.LeaseLostError('m', 'expired'), { reason: 'expired' }],
    ['DeadlockError', 'deadlock', () => new errors.DeadlockError('m', []), { cycle: [] }],
    ['StaleFenceError', 'stale-fence', () => new errors.StaleFenceError('m', 7), { floor: 7 }],
    ['VersionMismatchError', 'version-mismatch', () => new errors.VersionMismatchError('m', null), { version: null }],
    ['LimitMismatchError', 'limit-mismatch', () => new errors.LimitMismatchError('m', 3), { limit: 3 }],
    ['SessionLostError', 'session-lost', () => new errors.SessionLostError('m'), {}],
    [
      'UnavailableError',
      'unavailable',
      () => new errors.UnavailableError('m'),
      { retryAfterMs: 0, circuitOpen: false },
    ],
    ['ThrottledError', 'throttled', () => new errors.ThrottledError('m', 5), { retryAfterMs: 5 }],
    ['QueueFullError', 'queue-full', () => new errors.QueueFullError('m', 5), { retryAfterMs: 5 }],
    ['InvalidRequestError', 'invalid-request', () => new errors.InvalidRequestError('m'), { errors: [] }],
    ['TooManyRetriesError', 'too-many-retries', () => new errors.TooManyRetriesError('m', 9), { tries: 9 }],
    [
      'OnceFailedError',
      'once-failed',
      () => new errors.OnceFailedError('m', { name: 'Error', message: 'x', startedAt: 'then' }),
      { failure: { name: 'Error', message: 'x', startedAt: 'then' } },
    ],
    ['ClosedError', 'closed', () => new errors.ClosedError('m'), {}],
  ])('has its name, its code and its fields: %s', (name, code, made, fields) => {
    const error = made();
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
