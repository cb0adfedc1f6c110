import type { EpochMs } from '../time/clock.ts';
import type { QueueSizes } from './pages.ts';
import type { Claim, Holder, LockState, Waiter } from './state.ts';

export interface Acquire extends Claim {
  readonly kind: 'acquire';
  readonly limit: number;
  /** 0: answer at once. */
  readonly waitMs: number;
  /** How long the waiter counts as present after this request: the poll and the absence allowed after it. Null: parked, present until its deadline. */
  readonly attendMs: number | null;
  /**
   * Where the lease is known to wait: the number of its page, or `new` if it was never sent before. Absent: nobody knows, so that it has
   * to be looked for before it joins a page.
   */
  readonly place?: Place;
}

export type Place = number | 'new';

export interface Renew {
  readonly kind: 'renew';
  readonly leaseId: string;
  /** Absent: as long again as the lease was granted for. */
  readonly leaseMs?: number;
}

/** Ends a lease, or gives up a place in the queue. */
export interface Release {
  readonly kind: 'release';
  readonly leaseId: string;
  readonly place?: Place;
}

/** A waiter leaves the queue, unless it was granted in the meantime: its deadline has come, or it gives way in a deadlock. */
export interface GiveUp {
  readonly kind: 'give-up';
  readonly leaseId: string;
  readonly place?: Place;
  /** The cycle whose victim it is, as text for the waiter's next request. */
  readonly deadlock?: string;
}

/** The waiter's connection broke: its place is kept for as long as an absence may last. */
export interface StepAway {
  readonly kind: 'step-away';
  readonly leaseId: string;
  /** Only a waiter that is parked on this connection. One that has come back on another stays present. Absent: only one that polls. */
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
}

/** Drops what is over and grants what can be granted: only what the passing of time has made due. */
export interface Sweep {
  readonly kind: 'sweep';
}

/** Moves a page up ahead of need, if the front runs low. */
export interface Refill {
  readonly kind: 'refill';
}

export type LockCommand = Acquire | Renew | Release | GiveUp | StepAway | Undelivered | Revoke | Sweep | Refill;

export type LostReason = 'expired' | 'released' | 'revoked' | 'not_owner' | 'session_lost';

export type Answer =
  | { readonly kind: 'granted'; readonly holder: Holder }
  /** `page`: where it waits, if that is not the front. */
  | { readonly kind: 'waiting'; readonly waiter: Waiter; readonly position: number; readonly page?: number }
  | { readonly kind: 'held' }
  | { readonly kind: 'wait-timeout'; readonly waitedMs: number }
  | { readonly kind: 'limit-mismatch' }
  | { readonly kind: 'queue-full' }
  | { readonly kind: 'deadlock'; readonly cycle: string }
  | { readonly kind: 'lost'; readonly reason: LostReason }
  | { readonly kind: 'released'; readonly reason: 'ok' | 'cancelled' | 'already_released' }
  | { readonly kind: 'revoked' }
  | { readonly kind: 'done' };

/** What is known of a session at the time of a decision. A session that isn't known counts as alive. */
export type SessionFact =
  | { readonly alive: true; readonly expiresAt: EpochMs }
  | { readonly alive: false; readonly endedAt: EpochMs; readonly how: 'ended' | 'expired' };

/** What a decision may know besides the lock itself. A session is named only if a holder or a waiter depends on it. */
export interface Facts {
  readonly now: EpochMs;
  readonly graceMs: number;
  readonly sessions?: ReadonlyMap<string, SessionFact>;
  /** Other sizes than the usual ones, for tests. */
  readonly sizes?: QueueSizes;
}

/**
 * What a decision does to the state, so that a store can write that alone. Arriving, attending and leaving commute with each other: a crowd
 * that does them at once doesn't fight over the revision. All else replaces the state that was decided on.
 */
export type Change =
  | { readonly kind: 'none' }
  /** The waiter joins at the end of the queue. */
  | { readonly kind: 'arrive'; readonly waiter: Waiter }
  /** The waiter at this index is present for longer, or shorter. */
  | { readonly kind: 'attend'; readonly index: number; readonly waiter: Waiter }
  /** The waiter at this index, which is not the first, leaves. Its ending is remembered only if it gave its place back. */
  | { readonly kind: 'leave'; readonly index: number; readonly waiter: Waiter; readonly isRemembered: boolean }
  /** The waiter joins the last page. */
  | { readonly kind: 'join-page'; readonly page: number; readonly waiter: Waiter }
  /** There is no place left: a new last page is named, and then the command is decided again. */
  | { readonly kind: 'open-page'; readonly waiter: Waiter }
  /** A grant that time has made due is written first, and then the command is decided again. */
  | { readonly kind: 'settle' }
  /** The first page has to move up, and then the command is decided again. */
  | { readonly kind: 'move-up'; readonly page: number }
  | { readonly kind: 'replace' };

export interface Decision {
  /** The very object that came in where nothing changes: then there is nothing to write. */
  readonly next: LockState;
  readonly answer: Answer;
  readonly change: Change;
}
