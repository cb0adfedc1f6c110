import { type EpochMs, epochMs } from '../time/clock.ts';
import { everyPermit, type LockMode } from './permits.ts';

/** How a parked waiter wants to be notified of its grant. */
export type Notify =
  | { readonly type: 'event'; readonly ref: string }
  | { readonly type: 'task-token'; readonly token: string; readonly always?: boolean | undefined }
  | { readonly type: 'durable-callback'; readonly id: string; readonly always?: boolean | undefined }
  | { readonly type: 'websocket'; readonly connectionId: string };

/** True if a grant without waiting is delivered too. A task or a callback continues only after its delivery. */
export const isAlwaysNotified = ({ notify }: { readonly notify?: Notify }): boolean =>
  notify !== undefined && 'always' in notify && notify.always === true;

export const isParkedOn = (claim: { readonly notify?: Notify } | undefined, connectionId: string): boolean =>
  claim?.notify?.type === 'websocket' && claim.notify.connectionId === connectionId;

export const isSameNotify = (one: Notify | undefined, other: Notify | undefined): boolean =>
  JSON.stringify(one) === JSON.stringify(other);

/** What a waiter asks for, and what a holder has. */
export interface Claim {
  /** It gives the right to renew and release. Secret: only its owner gets it. */
  readonly leaseId: string;
  readonly owner: string;
  readonly permits: number;
  /** Null if the lease ends with a session instead. */
  readonly leaseMs: number | null;
  readonly sessionId?: string;
  readonly lockDelayMs?: number;
  readonly mode?: LockMode;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly notify?: Notify;
}

export interface Holder extends Claim {
  readonly fence: number;
  readonly acquiredAt: EpochMs;
  /** Null if the lease ends with a session. Then it is valid as long as the session is. */
  readonly expiresAt: EpochMs | null;
  /** Set if the holder waited in the queue. */
  readonly queuedAt?: EpochMs;
}

export interface Waiter extends Claim {
  readonly queuedAt: EpochMs;
  /** The end of its wait. */
  readonly deadlineAt: EpochMs;
  /** Until when it counts as present if it sends nothing more. Never after its deadline. */
  readonly aliveUntil: EpochMs;
}

/** `released`: the owner gave back its lease, or its place in the queue. `deadlock`: the wait was ended to resolve a deadlock. */
export const endedHows = ['released', 'expired', 'revoked', 'session-lost', 'deadlock'] as const;
export type EndedHow = (typeof endedHows)[number];

export interface Ended {
  readonly leaseId: string;
  readonly how: EndedHow;
  /** Set if an operator revoked the lease by its fence. */
  readonly fence?: number;
  readonly reason?: string;
}

/** The numbers of the first and the last page. There are pages if `first <= last`. */
export interface PageSpan {
  readonly first: number;
  readonly last: number;
}

/** Everything that decides about one lock. It is one item of limited size, so every step is one atomic write. */
export interface LockState {
  /** Every write raises it, and a compare-and-swap compares it. Zero if the lock was never written. */
  readonly rev: number;
  /** The highest fence granted. It only rises. Zero if the lock was never granted. */
  readonly fence: number;
  readonly limit: number;
  /** In the order of their fences. */
  readonly holders: readonly Holder[];
  /** The front of the queue, in the order of arrival. Later waiters are in pages (see pages.ts). */
  readonly queue: readonly Waiter[];
  /** Missing if there never were any. */
  readonly pages?: PageSpan;
  /** How the latest leases ended, newest first. They show that a request is a repetition or a late duplicate. */
  readonly ended: readonly Ended[];
  /** When this state was written, by the writer's clock. */
  readonly changedAt: EpochMs;
}

export const unusedLock: LockState = {
  rev: 0,
  fence: 0,
  limit: everyPermit,
  holders: [],
  queue: [],
  ended: [],
  changedAt: epochMs(0),
};

export const permitsHeld = (state: LockState): number => state.holders.reduce((sum, holder) => sum + holder.permits, 0);
