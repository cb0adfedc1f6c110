/** The error of the SDK for each answer that is no success. */
import { describe, expect, it } from 'vitest';
import * as errors from '../../../src/client/errors.ts';
import { errorOf } from '../../../src/client/problem.ts';

const of = (status: number, body?: unknown, headers: Record<string, string> = {}) =>
  errorOf({ status, headers, body, cause: undefined });

describe('the error of a problem', () => {
  const holders = [{ owner: 'they' }];
  const cycle = [{ sessionId: 's', owner: 'o', waitsFor: 'a' }];
  const fields = [{ field: 'leaseMs', message: 'is too long' }];

  it.each([
    ['invalid-request', { errors: fields }, errors.InvalidRequestError, { errors: fields }, { errors: [] }],
    [
      'lock-held',
      { holders, queueDepth: 2, blockedBy: ['b'], retryAfterMs: 7 },
      errors.LockHeldError,
      { holders, queueDepth: 2, blockedBy: ['b'], retryAfterMs: 7 },
      { holders: [], queueDepth: 0, blockedBy: [], retryAfterMs: 0 },
    ],
    [
      'wait-timeout',
      { holders, queueDepth: 2, blockedBy: ['b'], waitedMs: 9 },
      errors.WaitTimeoutError,
      { holders, queueDepth: 2, blockedBy: ['b'], waitedMs: 9 },
      { holders: [], queueDepth: 0, blockedBy: [], waitedMs: 0 },
    ],
    ['lease-lost', { reason: 'revoked' }, errors.LeaseLostError, { reason: 'revoked' }, { reason: 'not_owner' }],
    ['limit-mismatch', { limit: 3 }, errors.LimitMismatchError, { limit: 3 }, { limit: 0 }],
    ['deadlock', { cycle }, errors.DeadlockError, { cycle }, { cycle: [] }],
    ['stale-fence', { fenceFloor: 8 }, errors.StaleFenceError, { floor: 8 }, { floor: 0 }],
    ['session-lost', {}, errors.SessionLostError, {}, {}],
    ['version-mismatch', { version: 4 }, errors.VersionMismatchError, { version: 4 }, { version: null }],
    ['queue-full', { retryAfterMs: 7 }, errors.QueueFullError, { retryAfterMs: 7 }, { retryAfterMs: 0 }],
    ['throttled', { retryAfterMs: 7 }, errors.ThrottledError, { retryAfterMs: 7 }, { retryAfterMs: 0 }],
    ['unavailable', { retryAfterMs: 7 }, errors.UnavailableError, { retryAfterMs: 7 }, { retryAfterMs: 0 }],
    ['internal', {}, errors.UnavailableError, { circuitOpen: false }, { retryAfterMs: 0 }],
    ['misdirected', {}, errors.HoldfastError, {}, {}],
  ])('%s has its class and fields, and defaults for fields that are missing', (code, given, Class, full, bare) => {
    const error = of(409, { code, detail: 'The reason.', ...given }, { 'x-request-id': 'r1' });
    expect(error).toBeInstanceOf(Class);
    expect(error.name).toBe(Class.name === 'ErrorWithField' ? error.name : Class.name);
    expect(error).toMatchObject({ code, message: 'The reason.', status: 409, requestId: 'r1', ...full });
    expect(of(409, { code })).toMatchObject(bare);
  });

  it.each([
    [400, 'invalid-request'],
    [401, 'unauthorized'],
    [403, 'forbidden'],
    [404, 'not-found'],
    [405, 'method-not-allowed'],
    [408, 'unavailable'],
    [410, 'session-lost'],
    [412, 'version-mismatch'],
    [413, 'too-large'],
    [415, 'unsupported-media-type'],
    [428, 'precondition-required'],
    [429, 'throttled'],
    [500, 'internal'],
    [502, 'unavailable'],
    [503, 'unavailable'],
    [504, 'unavailable'],
    [418, 'unexpected-answer'],
  ])('is read from the status %i if a proxy gave no code: %s', (status, code) => {
    for (const body of [undefined, null, 'a page', { code: 7 }]) expect(of(status, body).code).toBe(code);
  });

  it('has the text of the service, or of the gateway, or the status', () => {
    expect(of(409, { detail: 'By the service.', message: 'no' }).message).toBe('By the service.');
    expect(of(403, { detail: 7, message: 'Forbidden' }).message).toBe('Forbidden');
    expect(of(403, {}).message).toBe('The service answered 403.');
  });

  it('keeps the cause', () => {
    const cause = new Error('why');
    expect(errorOf({ status: 503, headers: {}, body: undefined, cause }).cause).toBe(cause);
  });

  it.each([
    [{ retryAfterMs: 120 }, '7', 120],
    [{ retryAfterMs: 0 }, '7', 0],
    [{ retryAfterMs: -1 }, '7', 7_000],
    [{ retryAfterMs: '120' }, '7', 7_000],
    [{}, '-7', 0],
    [{}, 'Wed, 21 Oct 2026 07:28:00 GMT', 0],
    [{}, 'Infinity', 0],
  ])('says when to try again: %j with the header %s', (body, header, retryAfterMs) => {
    expect(of(429, body, { 'retry-after': header })).toMatchObject({ retryAfterMs });
  });
});
