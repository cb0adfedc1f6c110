import type { Claim } from './acquire.ts';
import { type Core, given, lockCall } from './core.ts';
import type { LockEntry, Resolved, TryOptions } from './lock-options.ts';
import type { Call } from './transport.ts';

/** The requests for one lock. */
export const lockClaim =
  (core: Core, name: string, options: TryOptions, resolved: Resolved, sessionId?: string) =>
  (leaseId: string): Claim => {
    const { limit, permits, mode, lockDelayMs, metadata } = options;
    const { owner, leaseMs, tier } = resolved;
    const fields = given({ leaseMs, owner, limit, permits, mode, lockDelayMs, metadata, tier, sessionId });
    return {
      label: name,
      sessionBound: sessionId !== undefined,
      repeats: 'what is left',
      acquire: (waitMs) =>
        lockCall(core, {
          operation: 'acquireLock',
          method: 'POST',
          name,
          action: 'acquire',
          body: { leaseId, waitMs, ...fields },
        }),
      ...leaseCalls(core, name, leaseId),
    };
  };

/** The requests about a lease that is there. */
export const leaseCalls = (core: Core, name: string, leaseId: string): Pick<Claim, 'renew' | 'release'> => ({
  renew: (leaseMs) =>
    lockCall(core, {
      operation: 'renewLock',
      method: 'POST',
      name,
      action: 'renew',
      body: { leaseId, ...given({ leaseMs }) },
    }),
  release: () =>
    lockCall(core, { operation: 'releaseLock', method: 'POST', name, action: 'release', body: { leaseId } }),
});

/** The requests for several locks at once. */
export const manyClaim =
  (core: Core, entries: readonly LockEntry[], resolved: Resolved, sessionId?: string) =>
  (leaseId: string): Claim => {
    const names = entries.map(nameOf);
    const { owner, leaseMs } = resolved;
    const call = (operation: string, action: string, body: object): Call => ({
      operation,
      method: 'POST',
      route: `/v1/{ns}/multi-locks/${action}`,
      parameters: { ns: core.namespace },
      body,
    });
    return {
      label: names.join(', '),
      sessionBound: sessionId !== undefined,
      repeats: 'the whole wait',
      acquire: (waitMs) =>
        call('acquireLocks', 'acquire', {
          locks: entries,
          leaseId,
          waitMs,
          ...given({ leaseMs, owner, sessionId }),
        }),
      renew: (newLeaseMs) => call('renewLocks', 'renew', { leaseId, locks: names, ...given({ leaseMs: newLeaseMs }) }),
      release: () => call('releaseLocks', 'release', { leaseId, locks: names }),
    };
  };

export const nameOf = (entry: LockEntry): string => (typeof entry === 'string' ? entry : entry.name);
