/** What the service shows: the shapes of its answers, as the HTTP contract names them. */

/** Who holds a lock, as others see it. `remainingMs` is null where a session whose end isn't known bounds the lease. */
export interface HolderView {
  readonly owner: string;
  readonly fence: number;
  readonly remainingMs: number | null;
}

/** A holder as {@link Holdfast.inspect} shows it. */
export interface HolderDetail extends HolderView {
  readonly permits: number;
  readonly acquiredAt: string;
  /** A public short form; the id itself is secret. */
  readonly sessionId?: string;
  readonly metadata?: Readonly<Record<string, string>>;
}

/** Somebody in the queue. Position 1 is next. */
export interface WaiterView {
  readonly owner: string;
  readonly position: number;
  readonly waitingMs: number;
  readonly permits: number;
  /** A public short form, where it waits under a session. */
  readonly sessionId?: string;
}

/** A lock as {@link Holdfast.inspect} shows it. A lock that was never used is free with fence 0. */
export interface LockView {
  readonly lock: string;
  readonly state: 'free' | 'held';
  readonly fence: number;
  readonly limit: number;
  readonly holders: readonly HolderDetail[];
  readonly queue: readonly WaiterView[];
  readonly queueDepth: number;
}

/** A lock as {@link Holdfast.list} shows it. */
export interface LockSummary {
  readonly lock: string;
  readonly state: 'free' | 'held';
  readonly fence: number;
  readonly limit: number;
  readonly holders: readonly HolderDetail[];
  readonly queueDepth: number;
  /** For how long the next waiter has waited; 0 where nobody waits. */
  readonly longestWaitMs: number;
}

/** Whether a fence holds now. It may be stale when it arrives: what the lock protects must check the fence itself. */
export interface FenceCheck {
  readonly valid: boolean;
  readonly fence: number;
  readonly state: 'free' | 'held';
}

/** Something that happened to a lock. */
export interface LockEvent {
  readonly at: string;
  readonly type:
    | 'queued'
    | 'granted'
    | 'released'
    | 'expired'
    | 'revoked'
    | 'wait-cancelled'
    | 'wait-timeout'
    | 'session-lost';
  readonly fence?: number;
  readonly owner: string;
  readonly heldMs?: number;
  readonly waitedMs?: number;
  readonly reason?: string;
}

/** A step of a deadlock: who waits for what. */
export interface DeadlockStep {
  readonly sessionId: string;
  readonly owner: string;
  readonly waitsFor: string;
}

/** What is wrong with one field of a request. */
export interface FieldError {
  readonly field: string;
  readonly message: string;
}

/** How a parked waiter wants to be told of its grant. */
export type Notify =
  | { readonly type: 'event'; readonly ref: string }
  | { readonly type: 'task-token'; readonly token: string }
  | { readonly type: 'websocket'; readonly connectionId: string };

/** The answer of the health check. */
export interface Health {
  readonly status: 'ok';
  readonly version: string;
  readonly engine: string;
}

/** What became of a release. `released: false` with a reason other than `already_released`: the lease had ended before. */
export interface Release {
  readonly released: boolean;
  readonly reason: 'ok' | 'cancelled' | 'already_released' | 'expired' | 'revoked' | 'not_owner' | 'session_lost';
}

/** A grant as the service answers it. */
export interface GrantBody {
  readonly status: 'granted';
  readonly lock: string;
  readonly leaseId: string;
  readonly fence: number;
  readonly limit: number;
  readonly permits: number;
  readonly leaseMs?: number;
  readonly remainingMs: number | null;
  readonly waitedMs: number;
  readonly mode?: 'exclusive' | 'shared';
}

/** A grant of several locks. */
export interface ManyGrantBody {
  readonly status: 'granted';
  readonly leaseId: string;
  readonly grants: readonly { readonly lock: string; readonly fence: number }[];
  readonly leaseMs?: number;
  readonly remainingMs: number | null;
  readonly waitedMs: number;
}

/** The place in the queue of one who waits. */
export interface Waiting {
  readonly position: number;
  readonly queueDepth: number;
  readonly holders: readonly HolderView[];
  readonly etaMs: number | null;
  readonly waitRemainingMs: number;
}
