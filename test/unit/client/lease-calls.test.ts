/** The requests for a lock or several, field by field. */
import { describe, expect, it } from 'vitest';
import type { Core } from '../../../src/client/core.ts';
import { lockCalls, manyCalls, nameOf } from '../../../src/client/lease-calls.ts';
import type { Resolved } from '../../../src/client/lock-options.ts';
import { type Call, pathOf } from '../../../src/client/transport.ts';

const core = { namespace: 'test' } as Core;
const resolved: Resolved = {
  owner: 'me',
  leaseMs: 30_000,
  tier: 'efficiency',
  failOpen: false,
  unavailableBudgetMs: undefined,
};

describe('the requests for one lock', () => {
  const options = { limit: 3, permits: 2, lockDelayMs: 500, metadata: { job: '7' } };
  const calls = lockCalls(core, 'wallet', options, resolved)('lease');
  const fields = { leaseId: 'lease', leaseMs: 30_000, owner: 'me', tier: 'efficiency', ...options };

  it('have all fields that were given', () => {
    expect(calls.acquire(5_000, { pollMs: 1_000, place: 7 })).toMatchObject({
      operation: 'acquireLock',
      parameters: { ns: 'test', name: 'wallet' },
      body: { ...fields, waitMs: 5_000, pollMs: 1_000, place: 7 },
    });
    expect(calls.acquire(5_000).body).toEqual({ ...fields, waitMs: 5_000 });
  });

  it('name no place if they do not wait', () => {
    expect(calls.acquire(0, { place: 'new' }).body).toEqual({ ...fields, waitMs: 0 });
  });

  it('park on a connection', () => {
    const notify = { type: 'websocket', connectionId: 'c1' };
    expect(calls.park?.(5_000, 'c1', 7).body).toEqual({ ...fields, waitMs: 5_000, place: 7, notify });
  });

  it('repeat what is left of the wait', () => {
    expect([calls.label, calls.repeats, calls.sessionBound]).toEqual(['wallet', 'what is left', false]);
    const bound = lockCalls(core, 'wallet', {}, resolved, 'session')('lease');
    expect(bound.sessionBound).toBe(true);
    expect(bound.acquire(0).body).toMatchObject({ sessionId: 'session' });
  });

  it('renew and release by the lease', () => {
    const [renew, release] = [calls.renew(9_000), calls.release()];
    expect(renew).toMatchObject({ operation: 'renewLock', body: { leaseId: 'lease', leaseMs: 9_000 } });
    expect(release).toMatchObject({ operation: 'releaseLock', body: { leaseId: 'lease' } });
  });

  it('go to the paths of the lock', () => {
    const made = [calls.acquire(0), calls.park?.(1, 'c1') as Call, calls.renew(), calls.release()];
    expect(made.map((call) => `${call.method} ${pathOf(call)}`)).toEqual([
      'POST /v1/test/locks/wallet/acquire',
      'POST /v1/test/locks/wallet/acquire',
      'POST /v1/test/locks/wallet/renew',
      'POST /v1/test/locks/wallet/release',
    ]);
  });
});

describe('the requests for several locks', () => {
  const entries = ['a', { name: 'b', mode: 'shared' }] as const;
  const calls = manyCalls(core, entries, resolved)('lease');

  it('have the locks in the order of the call, and repeat the whole wait', () => {
    expect(calls.acquire(5_000)).toMatchObject({
      operation: 'acquireLocks',
      parameters: { ns: 'test' },
      body: { locks: entries, leaseId: 'lease', waitMs: 5_000, leaseMs: 30_000, owner: 'me' },
    });
    expect([calls.label, calls.repeats, calls.sessionBound]).toEqual(['a, b', 'the whole wait', false]);
    expect(manyCalls(core, entries, resolved, 'session')('lease').sessionBound).toBe(true);
  });

  it('renew and release all of them by their names', () => {
    const body = { leaseId: 'lease', locks: ['a', 'b'] };
    expect(calls.renew(9_000)).toMatchObject({ operation: 'renewLocks', body: { ...body, leaseMs: 9_000 } });
    expect(calls.release()).toMatchObject({ operation: 'releaseLocks', body });
    expect(entries.map(nameOf)).toEqual(['a', 'b']);
  });

  it('go to the paths of several locks', () => {
    const made = [calls.acquire(0), calls.renew(), calls.release()];
    expect(made.map((call) => `${call.method} ${pathOf(call)}`)).toEqual([
      'POST /v1/test/multi-locks/acquire',
      'POST /v1/test/multi-locks/renew',
      'POST /v1/test/multi-locks/release',
    ]);
  });
});
