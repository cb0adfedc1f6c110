import type { EpochMs } from '../time/clock.ts';

/**
 * A wait of a session, noted before the search for a deadlock. The lock's own queue says whether the wait still exists.
 */
export interface SessionWait {
  readonly lock: string;
  readonly leaseId: string;
}

/** One item with an end. Locks taken under it live as long as it does. */
export interface SessionState {
  /** Secret like a leaseId: anybody who has it can use and end the session. */
  readonly sessionId: string;
  readonly owner: string;
  readonly ttlMs: number;
  readonly createdAt: EpochMs;
  readonly expiresAt: EpochMs;
  /** Set once, by the process that ended the session or found it expired. A dead session never comes back. */
  readonly ended?: { readonly at: EpochMs; readonly how: 'ended' | 'expired' };
  readonly waits: readonly SessionWait[];
}

export const sessionLimits = {
  /** As for a lease, clock differences and one slow round trip would use up a shorter time. */
  ttlMsMin: 1_000,
  /** An hour. A session that lives must send keepalives. */
  ttlMsMax: 3_600_000,
  ttlMsDefault: 30_000,
  /** Locks that one session may wait for at the same time. */
  waitsMax: 50,
  /**
   * How long a session is kept after its end, so that late calls learn how it ended. After that, a missing session
   * counts as dead.
   */
  endedRetentionMs: 7 * 86_400_000,
} as const;
