import { type EpochMs, epochMs } from '../time/clock.ts';
import { everyPermit, type LockMode } from './permits.ts';

/** How a parked waiter wants to be notified of its grant. */
export type Notify =
  | { readonly type: 'event'; readonly ref: string }
  | { readonly type: 'task-token'; readonly token: string; readonly always?: boolean | undefined }
  | { readonly type: 'durable-callback'; readonly id: string; readonly always?: boolean | undefined }
  | { readonly type: 'websocket'; readonly connectionId: string };

/** Whether a grant at once is delivered too: a task or a callback waits for nothing but its delivery. */
export const isAlwaysNotified = ({ notify }: { readonly notify?: Notify }): boolean =>
  notify !== undefined && 'always' in notify && notify.always === true;

/** Whether a waiter is parked on this WebSocket connection. */
export const isParkedOn = (claim: { readonly notify?: Notify } | undefined, connectionId: string): boolean =>
  claim?.notify?.type === 'websocket' && claim.notify.connectionId === connectionId;

export const isSameNotify = (one: Notify | undefined, other: Notify | undefined): boolean =>
  JSON.stringify(one) === JSON.stringify(other);

/** What somebody asks for while waiting and has while holding. */
export interface Claim {
  /** The right to renew and release. Secret: it goes to its owner alone. */
  readonly leaseId: string;
  readonly owner: string;
  readonly permits: number;
  /** Null if a session bounds the claim instead. */
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
  /** Null if a session bounds the lease: then the lease is as valid as the session. */
  readonly expiresAt: EpochMs | null;
  /** Set when the holder came from the queue. */
  readonly queuedAt?: EpochMs;
}

export interface Waiter extends Claim {
  readonly queuedAt: EpochMs;
  /** The end of its wait. */
  readonly deadlineAt: EpochMs;
  /** Until when it counts as present without another word from it; never after its deadline. */
  readonly aliveUntil: EpochMs;
}

/** `released`: gave back its lease, or its place in the queue. `deadlock`: a waiter that had to give way. */
export const endedHows = ['released', 'expired', 'revoked', 'session-lost', 'deadlock'] as const;
export type EndedHow = (typeof endedHows)[number];

export interface Ended {
  readonly leaseId: string;
  readonly how: EndedHow;
  /** Known if somebody else ended the lease by its fence. */
  readonly fence?: number;
  readonly reason?: string;
}

/** The pages of a queue, by their numbers. There are some if `first <= last`. */
export interface PageSpan {
  readonly first: number;
  readonly last: number;
}

/** What decides about one lock: one item of bounded size, so that every step is one atomic write. */
export interface LockState {
  /** Raised by every write; what a compare-and-swap compares. Zero: never written. */
  readonly rev: number;
  /** The highest fence granted. It only rises. Zero: never granted. */
  readonly fence: number;
  readonly limit: number;
  /** In the order of their fences. */
  readonly holders: readonly Holder[];
  /** The front of the queue, in the order in which they queued. Later waiters lie in pages (see pages.ts). */
  readonly queue: readonly Waiter[];
  /** Absent: there never were any. */
  readonly pages?: PageSpan;
  /** How the latest leases ended, newest first, so that repeats and late duplicates are recognised. */
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
