import type { EpochMs } from '../time/clock.ts';
import { lockLimits } from './limits.ts';
import type { Claim, Holder, LockState, Revocation, Waiter } from './state.ts';

export interface Acquire extends Claim {
  readonly kind: 'acquire';
  readonly limit: number;
  /** 0: answer at once. */
  readonly waitMs: number;
  /**
   * How long the waiter counts as present after this request: the time of its poll, plus the absence that is allowed
   * after it. Null if it is parked: then it is present until its deadline.
   */
  readonly attendMs: number | null;
  /** Where the lease waits behind the front, or `new` if this lease was never sent before. It saves reads and decides nothing. */
  readonly place?: Place;
}

/** A number from an earlier answer. Only `src/queue` knows what it means. */
export type Place = number | 'new';

export interface Renew {
  readonly kind: 'renew';
  readonly leaseId: string;
  /** If missing, the lease lasts as long again as it did before. */
  readonly leaseMs?: number;
}

/** Ends a lease, or gives up a place in the queue. */
export interface Release {
  readonly kind: 'release';
  readonly leaseId: string;
  readonly place?: Place;
}

/**
 * A waiter leaves the queue because its deadline has come, or because a deadlock ends its wait. If it was granted in the
 * meantime, it keeps the grant.
 */
export interface GiveUp {
  readonly kind: 'give-up';
  readonly leaseId: string;
  readonly place?: Place;
  /** Since when it waits. So it learns how long it waited, even if another command has removed it already. */
  readonly queuedAt?: EpochMs;
  /** The cycle of the deadlock, as text. The waiter's next request is answered with it. */
  readonly deadlock?: string;
}

/** The waiter's connection broke. Its place is kept for as long as a waiter may be absent. */
export interface StepAway {
  readonly kind: 'step-away';
  readonly leaseId: string;
  /**
   * The command applies only to a waiter that is parked on this connection. A waiter that came back on another
   * connection stays present. If missing, the command applies only to a waiter that polls.
   */
  readonly connectionId?: string;
  readonly place?: Place;
}

/** A grant could not be delivered to its parked waiter, and never will be. */
export interface Undelivered {
  readonly kind: 'undelivered';
  readonly leaseId: string;
  readonly fence: number;
}

export interface Revoke {
  readonly kind: 'revoke';
  readonly fence: number;
  readonly reason: string;
  /** Who revokes. The lock remembers it with the reason, so that the holder and the history can be told. */
  readonly by?: string;
}

/** Drops leases and waits that are over, and grants to the next waiters. Time alone must have made this due. */
export interface Sweep {
  readonly kind: 'sweep';
}

/** Moves waiters up if the front has few left, before the front is empty. */
export interface Refill {
  readonly kind: 'refill';
}

/** The commands about a waiter. If it waits behind the front, they are carried out there. */
export type WaiterCommand = Acquire | Release | GiveUp | StepAway;

export type LockCommand = WaiterCommand | Renew | Undelivered | Revoke | Sweep | Refill;

/** Why a lease is not valid. */
export const lostReasons = ['expired', 'released', 'revoked', 'not_owner', 'session_lost'] as const;
export type LostReason = (typeof lostReasons)[number];

export type Answer =
  | { readonly kind: 'granted'; readonly holder: Holder }
  /** `place` is set if the waiter is behind the front. */
  | { readonly kind: 'waiting'; readonly waiter: Waiter; readonly position: number; readonly place?: number }
  | { readonly kind: 'held' }
  | { readonly kind: 'wait-timeout'; readonly waitedMs: number }
  | { readonly kind: 'limit-mismatch' }
  | { readonly kind: 'queue-full' }
  /** The session of this waiter already waits for as many locks as it may. */
  | { readonly kind: 'too-many-waits' }
  | { readonly kind: 'deadlock'; readonly cycle: string }
  /** Another task token or callback has this lease. */
  | { readonly kind: 'lease-of-another' }
  | { readonly kind: 'lost'; readonly reason: LostReason; readonly revocation?: Revocation }
  /** `isExpired`: the lease was over before the release, but nobody had taken the lock. */
  | {
      readonly kind: 'released';
      readonly reason: 'ok' | 'cancelled' | 'already_released';
      readonly isExpired?: boolean;
    }
  | { readonly kind: 'revoked' }
  | { readonly kind: 'done' };

/** What is known about a session at the time of a decision. A session that isn't known counts as alive. */
export type SessionFact =
  | { readonly alive: true; readonly expiresAt: EpochMs }
  | { readonly alive: false; readonly endedAt: EpochMs; readonly how: 'ended' | 'expired' };

/** What a decision may know besides the lock itself. It has a session only if a holder or a waiter depends on it. */
export interface Facts {
  readonly now: EpochMs;
  readonly graceMs: number;
  readonly sessions?: ReadonlyMap<string, SessionFact>;
  /** How many waiters the front takes, if not the usual number. */
  readonly frontLengthMax?: number;
}

export const frontLengthMaxOf = ({ frontLengthMax = lockLimits.frontLengthMax }: Facts): number => frontLengthMax;

/**
 * What a decision does to the state. A store can then write only that. The results of `arrive`, `attend` and `leave` do
 * not depend on their order, so many callers can do them at the same time without a conflict over the revision. Every
 * other change replaces the state that was decided on.
 */
export type Change =
  | { readonly kind: 'none' }
  /** The waiter joins the front, at its end. */
  | { readonly kind: 'arrive'; readonly waiter: Waiter }
  /** The waiter at this index is now present until a later or an earlier time. */
  | { readonly kind: 'attend'; readonly index: number; readonly waiter: Waiter }
  /** The waiter at this index leaves. It is not the first one. Its end is remembered only if it gave its place back. */
  | { readonly kind: 'leave'; readonly index: number; readonly waiter: Waiter; readonly isRemembered: boolean }
  /** The front has no place for the waiter, so it joins behind it. */
  | { readonly kind: 'join-behind'; readonly waiter: Waiter }
  /**
   * A grant to another waiter is already due, or an old entry of this lease must go. That is written first, and then the
   * command is decided again.
   */
  | { readonly kind: 'settle' }
  /** Waiters must move up from behind the front. Then the command is decided again. */
  | { readonly kind: 'move-up' }
  | { readonly kind: 'replace' };

export interface Decision {
  /** The same object as before if nothing changes. Then there is nothing to write. */
  readonly next: LockState;
  readonly answer: Answer;
  readonly change: Change;
}
