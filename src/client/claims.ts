import type { Claim } from './acquire.ts';
import { callOf } from './calls.ts';
import { type Core, given } from './core.ts';
import type { LockEntry, Resolved, TryOptions } from './lock-options.ts';

/** The requests for one lock. */
export const lockClaim =
  ({ namespace: ns }: Core, name: string, options: TryOptions, resolved: Resolved, sessionId?: string) =>
  (leaseId: string): Claim => {
    const { limit, permits, mode, lockDelayMs, metadata } = options;
    const { owner, leaseMs, tier } = resolved;
    const fields = given({ leaseMs, owner, limit, permits, mode, lockDelayMs, metadata, tier, sessionId });
    const acquire = (parts: Parameters<typeof callOf<'acquireLock'>>[3]) =>
      callOf('acquireLock', 'POST /v1/{ns}/locks/{name}/acquire', { ns, name }, parts);
    return {
      label: name,
      leaseId,
      sessionBound: sessionId !== undefined,
      repeats: 'what is left',
      acquire: (waitMs, { pollMs, place } = {}) =>
        acquire({
          body: { leaseId, waitMs, ...fields, ...given({ pollMs, place: waitMs === 0 ? undefined : place }) },
        }),
      park: (waitMs, connectionId, place) =>
        acquire({
          body: { leaseId, waitMs, ...fields, notify: { type: 'websocket', connectionId }, ...given({ place }) },
        }),
      ...leaseCalls(ns, name, leaseId),
    };
  };

/** The requests for a lease that exists. */
export const leaseCalls = (ns: string, name: string, leaseId: string): Pick<Claim, 'renew' | 'release'> => ({
  renew: (leaseMs) =>
    callOf('renewLock', 'POST /v1/{ns}/locks/{name}/renew', { ns, name }, { body: { leaseId, ...given({ leaseMs }) } }),
  release: () => callOf('releaseLock', 'POST /v1/{ns}/locks/{name}/release', { ns, name }, { body: { leaseId } }),
});

/** The requests for several locks at once. */
export const manyClaim =
  ({ namespace: ns }: Core, entries: readonly LockEntry[], resolved: Resolved, sessionId?: string) =>
  (leaseId: string): Claim => {
    const locks = entries.map(nameOf);
    const { owner, leaseMs } = resolved;
    const fields = given({ leaseMs, owner, sessionId });
    return {
      label: locks.join(', '),
      leaseId,
      sessionBound: sessionId !== undefined,
      repeats: 'the whole wait',
      acquire: (waitMs) =>
        callOf(
          'acquireLocks',
          'POST /v1/{ns}/multi-locks/acquire',
          { ns },
          { body: { locks: [...entries], leaseId, waitMs, ...fields } },
        ),
      renew: (newLeaseMs) =>
        callOf(
          'renewLocks',
          'POST /v1/{ns}/multi-locks/renew',
          { ns },
          { body: { leaseId, locks, ...given({ leaseMs: newLeaseMs }) } },
        ),
      release: () => callOf('releaseLocks', 'POST /v1/{ns}/multi-locks/release', { ns }, { body: { leaseId, locks } }),
    };
  };

export const nameOf = (entry: LockEntry): string => (typeof entry === 'string' ? entry : entry.name);
