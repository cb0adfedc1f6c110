/**
 * The state of a lock, and what can be counted in it: permits, and bytes.
 *
 * There is one way to count permits for every kind of lock. A semaphore has N permits. A read-write lock is a semaphore
 * whose writers take every permit. A mutex is a read-write lock that has only writers, so a plain acquire and a reader
 * of the same name exclude each other.
 */
import { type EpochMs, epochMs } from '../time/clock.ts';
import { lockLimits } from './limits.ts';

export interface LockKey {
  readonly namespace: string;
  readonly name: string;
}

/** One text for a lock. A namespace has no slash, so no two locks have the same text. */
export const lockIdOf = ({ namespace, name }: LockKey): string => `${namespace}/${name}`;

/** More than the largest semaphore (1,000), so a read-write lock and a semaphore never have the same limit. It is also the most readers at once. */
export const everyPermit = 1_024;

export type LockMode = 'exclusive' | 'shared';

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
  readonly presentUntil: EpochMs;
}

/** How a lease ends. */
export const leaseEndings = ['released', 'expired', 'revoked', 'session-lost'] as const;

/** `released`: the owner gave back its lease, or its place in the queue. `deadlock`: the wait was ended to resolve a deadlock. */
export const endedHows = [...leaseEndings, 'deadlock'] as const;
export type EndedHow = (typeof endedHows)[number];

export interface Ended {
  readonly leaseId: string;
  readonly how: EndedHow;
  /** Set if an operator revoked the lease by its fence. */
  readonly fence?: number;
  readonly reason?: string;
  /** Who revoked the lease. Missing if an earlier release wrote the ending. */
  readonly by?: string;
}

/** What the former holder is told about the end of its lease. */
export interface Revocation {
  readonly by?: string;
  readonly reason?: string;
}

/** Only the fields that are known. */
export const revocationOf = ({ by, reason }: { by?: string | undefined; reason?: string | undefined }): Revocation => ({
  ...(reason === undefined ? {} : { reason }),
  ...(by === undefined ? {} : { by }),
});

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

/** A state whose numbers of pages are known. */
export type Paged<State> = State & { readonly pages: PageSpan };

export const hasPages = <State extends Pick<LockState, 'pages'>>(state: State): state is Paged<State> =>
  state.pages !== undefined && state.pages.first <= state.pages.last;

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

export interface Demand {
  readonly limit: number;
  readonly permits: number;
}

/** Turns what a caller asked for into permits of a semaphore. `limit: 1` is a mutex. */
export function demandOf(asked: {
  limit?: number | undefined;
  permits?: number | undefined;
  mode?: LockMode | undefined;
}): Demand {
  if (asked.mode === 'shared') return { limit: everyPermit, permits: 1 };
  const limit = asked.limit ?? 1;
  if (limit === 1) return { limit: everyPermit, permits: everyPermit };
  return { limit, permits: asked.permits ?? 1 };
}

const utf8 = new TextEncoder();

/** How many bytes a waiter adds to the lock's item, at most. Its JSON is longer than its form in DynamoDB. */
export function weightOf({ presentUntil: _, ...lasting }: Waiter): number {
  // `presentUntil` changes while it waits, but its weight must not.
  return utf8.encode(JSON.stringify(lasting)).length;
}

export const queueWeight = (queue: readonly Waiter[]): number =>
  queue.reduce((sum, waiter) => sum + weightOf(waiter), 0);

/** The front has a limit in waiters, and one in bytes, because waiters differ a lot in size. An empty front takes any waiter. */
export const hasPlace = (front: readonly Waiter[], waiter: Waiter, lengthMax: number): boolean =>
  front.length === 0 || (front.length < lengthMax && queueWeight(front) + weightOf(waiter) <= lockLimits.frontBytesMax);

/** The numbers of a holder, and the names of its attributes. */
const holderBytes = 64;

const weighed = new WeakMap<Claim, number>();

/** About what the holder of a part adds to the item. It counts nothing that a renewal changes. */
export function holderWeight(claim: Claim): number {
  // A release that grants to hundreds of readers needs the same weights again and again.
  const known = weighed.get(claim);
  if (known !== undefined) return known;
  const { leaseId, owner, sessionId = '', metadata, notify } = claim;
  const texts = [owner, sessionId, ...[metadata, notify].map((part) => JSON.stringify(part ?? ''))];
  // The leaseId is part of the names of two attributes.
  const weight = holderBytes + texts.reduce((sum, text) => sum + utf8.encode(text).length, 2 * leaseId.length);
  weighed.set(claim, weight);
  return weight;
}

/** The weight of all holders that have only some of the permits. A holder of all permits is alone and always fits. */
export const holdersWeight = ({ holders, limit }: Pick<LockState, 'holders' | 'limit'>): number =>
  holders.reduce((sum, holder) => sum + (holder.permits < limit ? holderWeight(holder) : 0), 0);
