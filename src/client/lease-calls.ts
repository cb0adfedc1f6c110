import type { Sent } from '../contract/operations.ts';
import type { LeaseCalls } from './acquire.ts';
import { callOf } from './calls.ts';
import type { Core } from './core.ts';
import type { LockEntry, Resolved, TryOptions } from './lock-options.ts';

/** The requests for one lock. */
export const lockCalls =
  ({ namespace: ns }: Core, name: string, options: TryOptions, resolved: Resolved, sessionId?: string) =>
  (leaseId: string): LeaseCalls => {
    const { limit, permits, mode, lockDelayMs, metadata } = options;
    const { owner, leaseMs, tier } = resolved;
    const fields = { leaseId, leaseMs, owner, limit, permits, mode, lockDelayMs, metadata, tier, sessionId };
    const acquire = (body: Sent<'acquireLock', 'body'>) =>
      callOf('acquireLock', 'POST /v1/{ns}/locks/{name}/acquire', { ns, name }, { body });
    return {
      label: name,
      leaseId,
      sessionBound: sessionId !== undefined,
      repeats: 'what is left',
      acquire: (waitMs, { pollMs, place } = {}) =>
        acquire({ ...fields, waitMs, pollMs, place: waitMs === 0 ? undefined : place }),
      park: (waitMs, connectionId, place) =>
        acquire({ ...fields, waitMs, place, notify: { type: 'websocket', connectionId } }),
      ...leaseCalls(ns, name, leaseId),
    };
  };

/** The requests for a lease that exists. */
export const leaseCalls = (ns: string, name: string, leaseId: string): Pick<LeaseCalls, 'renew' | 'release'> => ({
  renew: (leaseMs) =>
    callOf('renewLock', 'POST /v1/{ns}/locks/{name}/renew', { ns, name }, { body: { leaseId, leaseMs } }),
  release: () => callOf('releaseLock', 'POST /v1/{ns}/locks/{name}/release', { ns, name }, { body: { leaseId } }),
});

/** The requests for several locks at once. */
export const manyCalls =
  ({ namespace: ns }: Core, entries: readonly LockEntry[], resolved: Resolved, sessionId?: string) =>
  (leaseId: string): LeaseCalls => {
    const locks = entries.map(nameOf);
    const { owner, leaseMs } = resolved;
    return {
      label: locks.join(', '),
      leaseId,
      sessionBound: sessionId !== undefined,
      repeats: 'the whole wait',
      acquire: (waitMs) => {
        const body = { locks: [...entries], leaseId, waitMs, leaseMs, owner, sessionId };
        return callOf('acquireLocks', 'POST /v1/{ns}/multi-locks/acquire', { ns }, { body });
      },
      renew: (newLeaseMs) => {
        const body = { leaseId, locks, leaseMs: newLeaseMs };
        return callOf('renewLocks', 'POST /v1/{ns}/multi-locks/renew', { ns }, { body });
      },
      release: () => callOf('releaseLocks', 'POST /v1/{ns}/multi-locks/release', { ns }, { body: { leaseId, locks } }),
    };
  };

export const nameOf = (entry: LockEntry): string => (typeof entry === 'string' ? entry : entry.name);
