/**
 * The contract in plain numbers, as callers know it. The sources derive everything from one place, so a slip there
 * changes handlers, documents and tests alike. Only this list would not follow.
 */
import { describe, expect, it } from 'vitest';
import type * as z from 'zod';
import { type OperationContract, operations, routes } from '../../../src/contract/operations.ts';
import { problemTypes } from '../../../src/contract/problems.ts';
import { recordLimits } from '../../../src/record/limits.ts';

const contract: Readonly<Record<string, OperationContract>> = operations;

const partOf = (operation: string, part: 'body' | 'query' | 'headers'): z.ZodType =>
  contract[operation]?.[part] as z.ZodType;
const takes = (operation: string, part: 'body' | 'query' | 'headers', value: object): boolean =>
  partOf(operation, part).safeParse(value).success;

describe('the contract', () => {
  it('has these codes with these statuses', () => {
    const statuses = Object.fromEntries(Object.entries(problemTypes).map(([code, { status }]) => [code, status]));
    expect(statuses).toEqual({
      'invalid-request': 400,
      unauthorized: 401,
      forbidden: 403,
      'not-found': 404,
      'method-not-allowed': 405,
      'lock-held': 409,
      'wait-timeout': 409,
      'lease-lost': 409,
      'limit-mismatch': 409,
      deadlock: 409,
      'stale-fence': 409,
      'session-lost': 410,
      'version-mismatch': 412,
      'too-large': 413,
      'unsupported-media-type': 415,
      'precondition-required': 428,
      'queue-full': 429,
      throttled: 429,
      internal: 500,
      unavailable: 503,
    });
  });

  it('has these operations with these rights', () => {
    const found = routes.map(({ access, method, path, operation }) => {
      expect(`${method} ${path}`, operation).toBe(contract[operation]?.route);
      return `${access} ${method} ${path}`;
    });
    expect(found.sort()).toEqual([
      'admin GET /v1/{ns}/locks',
      'admin POST /v1/{ns}/locks/{name}/revoke',
      'inspect GET /v1/{ns}/locks/{name}',
      'inspect GET /v1/{ns}/locks/{name}/check',
      'inspect GET /v1/{ns}/locks/{name}/history',
      'inspect GET /v1/{ns}/records/{key}',
      'inspect POST /v1/{ns}/tickets',
      'public GET /v1/health',
      'public GET /v1/openapi.json',
      'use DELETE /v1/{ns}/records/{key}',
      'use DELETE /v1/{ns}/sessions/{id}',
      'use GET /v1/{ns}/sessions/{id}',
      'use POST /v1/{ns}/locks/{name}/acquire',
      'use POST /v1/{ns}/locks/{name}/release',
      'use POST /v1/{ns}/locks/{name}/renew',
      'use POST /v1/{ns}/multi-locks/acquire',
      'use POST /v1/{ns}/multi-locks/release',
      'use POST /v1/{ns}/multi-locks/renew',
      'use POST /v1/{ns}/sessions',
      'use POST /v1/{ns}/sessions/{id}/keepalive',
      'use PUT /v1/{ns}/records/{key}',
    ]);
  });

  const parked = { notify: { type: 'event', ref: 'me' } };
  const leaseId = 'x'.repeat(16);
  it.each([
    ['acquireLock', 'leaseMs', 1_000, 86_400_000, {}],
    ['acquireLock', 'waitMs', 0, 900_000, {}],
    ['acquireLock', 'waitMs', 1, 86_400_000, parked],
    ['acquireLock', 'pollMs', 0, 25_000, {}],
    ['acquireLock', 'limit', 1, 1_000, {}],
    ['acquireLock', 'permits', 1, 1, {}],
    ['acquireLock', 'permits', 1, 7, { limit: 7 }],
    ['acquireLock', 'lockDelayMs', 0, 60_000, {}],
    ['renewLock', 'leaseMs', 1_000, 86_400_000, { leaseId }],
    ['revokeLock', 'fence', 1, Number.MAX_SAFE_INTEGER, { reason: 'stuck' }],
    ['acquireLocks', 'leaseMs', 1_000, 86_400_000, { locks: ['a'] }],
    ['acquireLocks', 'waitMs', 0, 900_000, { locks: ['a'] }],
    ['createSession', 'ttlMs', 1_000, 3_600_000, {}],
    ['putRecord', 'expiresInMs', 1_000, 31_536_000_000, { value: 1 }],
  ])('%s takes %s from %i to %i, and nothing beyond', (operation, field, min, max, more) => {
    const asked = (value: number) => takes(operation, 'body', { ...more, [field]: value });
    expect([min - 1, min, max, max + 1, min + 0.5].map(asked)).toEqual([false, true, true, false, false]);
  });

  it.each([
    ['acquireLock', 'leaseId', 16, 128, {}],
    ['acquireLock', 'owner', 1, 128, {}],
    ['revokeLock', 'reason', 1, 256, { fence: 1 }],
    ['createSession', 'owner', 1, 128, {}],
  ])('%s takes %s of %i to %i characters', (operation, field, min, max, more) => {
    const asked = (length: number) => takes(operation, 'body', { ...more, [field]: 'x'.repeat(length) });
    expect([min - 1, min, max, max + 1].map(asked)).toEqual([false, true, true, false]);
  });

  it.each([
    ['event', 'ref', 256],
    ['task-token', 'token', 2_048],
    ['durable-callback', 'id', 1_024],
  ])('a waiter parked by %s gives a %s of 1 to %i characters', (type, field, max) => {
    const asked = (length: number) =>
      takes('acquireLock', 'body', { waitMs: 1, notify: { type, [field]: 'x'.repeat(length) } });
    expect([0, 1, max, max + 1].map(asked)).toEqual([false, true, true, false]);
  });

  it('counts metadata in bytes', () => {
    const asked = (job: string) => takes('acquireLock', 'body', { metadata: { job } });
    const room = 1_024 - JSON.stringify({ job: '' }).length;
    expect(['x'.repeat(room), 'x'.repeat(room + 1), 'é'.repeat(room / 2 + 1)].map(asked)).toEqual([true, false, false]);
  });

  it('has these defaults', () => {
    expect(partOf('acquireLock', 'body').parse({})).toEqual({ waitMs: 0, lockDelayMs: 0, tier: 'correctness' });
    expect(partOf('acquireLocks', 'body').parse({ locks: ['a'] })).toEqual({ locks: ['a'], waitMs: 0 });
    expect(partOf('createSession', 'body').parse({})).toEqual({ ttlMs: 30_000 });
    expect(partOf('listLocks', 'query').parse({})).toEqual({ prefix: '', limit: 100 });
    expect(partOf('lockHistory', 'query').parse({})).toEqual({ limit: 50 });
  });

  it.each([
    ['notify without a wait', 'acquireLock', { ...parked, waitMs: 0 }],
    ['a lease beside a session', 'acquireLock', { sessionId: 's1', leaseMs: 1_000 }],
    ['a limit beside a mode', 'acquireLock', { mode: 'shared', limit: 2 }],
    ['a lock twice', 'acquireLocks', { locks: ['a', { name: 'a' }] }],
    ['no lock', 'acquireLocks', { locks: [] }],
    ['51 locks', 'acquireLocks', { locks: Array.from({ length: 51 }, (_, index) => `lock-${index}`) }],
    ['a lock twice', 'renewLocks', { leaseId, locks: ['a', 'a'] }],
    ['an unknown field', 'releaseLock', { leaseId, lease: 1 }],
  ])('refuses %s in %s', (_what, operation, body) => {
    expect(takes(operation, 'body', body)).toBe(false);
  });

  it.each([
    ['"0"', true],
    ['"7"', true],
    ['*', true],
    ['7', false],
    ['"07"', false],
    ['"7", "8"', false],
    ['W/"7"', false],
    ['"9007199254740992"', false],
    ['""', false],
  ])('If-Match: %s may stand before a write: %s', (tag, isTaken) => {
    expect(takes('putRecord', 'headers', { 'If-Match': tag })).toBe(isTaken);
    expect(takes('deleteRecord', 'headers', { 'If-Match': tag })).toBe(isTaken);
  });

  it('takes the highest fence in a query and in a header', () => {
    const highest = String(Number.MAX_SAFE_INTEGER);
    expect(takes('checkFence', 'query', { fence: highest })).toBe(true);
    expect(takes('putRecord', 'headers', { 'Fence-Token': highest })).toBe(true);
    expect(takes('putRecord', 'headers', { 'Fence-Token': '0' })).toBe(false);
  });

  it('takes values of 256 KiB', () => {
    expect(recordLimits.valueBytesMax).toBe(262_144);
    expect(contract.putRecord?.bodyBytesMax).toBeGreaterThanOrEqual(262_144 + 100);
  });
});
