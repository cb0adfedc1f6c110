/**
 * The answers of the service as plain types. The SDK publishes them, so they need no validation library. A type test compares
 * each of them with the schema of the same answer.
 */
import type { LostReason } from '../lock/commands.ts';
import type { EventType } from '../lock/events.ts';
import type { HolderDetail, HolderView, WaiterView } from '../lock/view.ts';

export type { HolderDetail, HolderView, LostReason, WaiterView };

/** A lock as {@link Holdfast.list} shows it. */
export interface LockSummary {
  readonly lock: string;
  readonly state: 'free' | 'held';
  readonly fence: number;
  readonly limit: number;
  readonly holders: readonly HolderDetail[];
  readonly queueDepth: number;
  /** How long the next waiter has waited. 0 if nobody waits. */
  readonly longestWaitMs: number;
}

/** A lock as {@link Holdfast.inspect} shows it. A lock that was never used is free with fence 0. */
export interface LockView extends Omit<LockSummary, 'longestWaitMs'> {
  readonly queue: readonly WaiterView[];
}

/** Says whether a fence holds now. It may be stale when it arrives, so the protected resource must check the fence itself. */
export interface FenceCheck extends Pick<LockSummary, 'fence' | 'state'> {
  readonly valid: boolean;
}

/** Something that happened to a lock. */
export interface LockEvent {
  readonly at: string;
  /** Renewals are not shown. */
  readonly type: EventType;
  readonly fence: number;
  readonly owner: string;
  readonly heldMs?: number;
  readonly waitedMs?: number;
  readonly reason?: string;
  /** Who revoked the lease. */
  readonly by?: string;
}

/** One wait in a deadlock. */
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

/** How the grant of a parked waiter is delivered. */
export type Notify =
  | { readonly type: 'event'; readonly ref: string }
  | { readonly type: 'task-token'; readonly token: string; readonly always?: boolean }
  | { readonly type: 'durable-callback'; readonly id: string; readonly always?: boolean }
  | { readonly type: 'websocket'; readonly connectionId: string };

/** The answer of the health check. */
export interface Health {
  readonly status: 'ok';
  readonly version: string;
  readonly engine: string;
}

/** How the service answers a release. */
export interface ReleaseBody {
  readonly released: boolean;
  readonly reason: 'ok' | 'cancelled' | 'already_released';
  /** The lease was over before the release, but nobody had taken the lock. */
  readonly expired?: true;
}

/**
 * The result of a release. The lease had ended before if `expired` is set, or if `released` is false and the reason is
 * not `already_released`.
 */
export interface Release {
  readonly released: boolean;
  readonly reason: ReleaseBody['reason'] | Exclude<LostReason, 'released'>;
  /** The lease was over before the release, but nobody had taken the lock. */
  readonly expired?: true;
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
  readonly expiresAt: string | null;
  readonly waitedMs: number;
  readonly mode?: 'exclusive' | 'shared';
  readonly sessionId?: string;
  readonly metadata?: Readonly<Record<string, string>>;
}

/** A grant of several locks. */
export interface ManyGrantBody
  extends Pick<GrantBody, 'status' | 'leaseId' | 'remainingMs' | 'expiresAt' | 'waitedMs'> {
  readonly grants: readonly { readonly lock: string; readonly fence: number }[];
}

/** The result of the release of several locks. */
export interface ManyReleaseBody {
  readonly released: readonly string[];
  readonly failed: readonly { readonly lock: string; readonly reason: string }[];
  /** Those of the released locks whose lease was over before. */
  readonly expired?: readonly string[];
}

/** The place of a waiter in the queue. */
export interface Waiting {
  readonly position: number;
  readonly queueDepth: number;
  readonly holders: readonly HolderView[];
  readonly etaMs: number | null;
  readonly waitRemainingMs: number;
  /** Set if it waits behind the front. Send it with the next request. */
  readonly place?: number;
}

/** How the service answers a waiter that is still in the queue. */
export interface WaitingBody extends Waiting {
  readonly status: 'waiting';
  readonly lock: string;
  readonly leaseId: string;
  readonly retryAfterMs: number;
}

/** The same for several locks. `blockedBy` has the lock that the waiter waits for. */
export interface ManyWaitingBody extends Omit<WaitingBody, 'lock'> {
  readonly blockedBy: readonly string[];
}

/** An open session. The id is secret: it gives the right to use and end the session. */
export interface SessionBody {
  readonly sessionId: string;
  readonly ttlMs: number;
  readonly remainingMs: number;
  readonly expiresAt: string;
}

/** A session with its locks. */
export interface SessionView extends SessionBody {
  readonly owner: string;
  readonly locks: readonly { readonly lock: string; readonly fence: number }[];
}

/** The result of ending a session. */
export interface SessionEnd {
  readonly ended: boolean;
  readonly released?: number;
}

/** A ticket for one WebSocket connection. It is secret. */
export interface TicketBody {
  readonly ticket: string;
  readonly url: string;
  readonly expiresInMs: number;
}

/** The answer to a write to a record. */
export interface RecordWritten {
  readonly key: string;
  readonly version: number;
  /** The floor: the highest fence that was accepted. Null if no write had a fence. */
  readonly fence: number | null;
  readonly updatedAt: string;
  /** When the record ends. Missing if it has no end. */
  readonly expiresAt?: string;
  /** The time until then, by the service's clock when it answered. */
  readonly remainingMs?: number;
}
