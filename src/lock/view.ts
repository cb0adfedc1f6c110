/**
 * What is seen in the state of a lock: who holds, who waits, and where. What others may see never has a leaseId, a
 * session id or an address for a delivery.
 */

import { epochMs, toIso } from '../time/clock.ts';
import { type Facts, frontLengthMaxOf } from './commands.ts';
import { everyPermit, type Holder, hasMore, type LockState, permitsHeld } from './state.ts';
import { isPresent, mayBeTaken, sessionOf, takeoverAt } from './validity.ts';

/** A holder as others see it. `remainingMs` is null if the lease ends with a session whose end isn't known. */
export interface HolderView {
  readonly owner: string;
  readonly fence: number;
  readonly remainingMs: number | null;
}

/** A holder as `inspect` shows it. */
export interface HolderDetail extends HolderView {
  readonly permits: number;
  readonly acquiredAt: string;
  /** A public short form. The id itself is secret. */
  readonly sessionId?: string;
  readonly metadata?: Readonly<Record<string, string>>;
}

/** A waiter as others see it. Position 1 is next. */
export interface WaiterView {
  readonly owner: string;
  readonly position: number;
  readonly waitingMs: number;
  readonly permits: number;
  /** A public short form. Set if the waiter waits under a session. */
  readonly sessionId?: string;
}

/** The permits of a holder or waiter as callers see them. An exclusive claim counts as one permit. */
export const shownPermits = (permits: number): number => (permits === everyPermit ? 1 : permits);

/** The limit as callers see it: 1 for a mutex, and the most readers while a read-write lock has readers. */
export function shownLimit(limit: number, holders: readonly { readonly permits: number }[]): number {
  if (limit !== everyPermit) return limit;
  return holders.some((holder) => holder.permits < everyPermit) ? everyPermit : 1;
}

/** When a holder's lease ends: its own end, or the end of its session. Null if that is not known. */
export function endsAt(holder: Holder, facts: Facts) {
  if (holder.expiresAt !== null) return holder.expiresAt;
  const session = sessionOf(holder, facts);
  return session?.alive ? session.expiresAt : null;
}

export function remainingMs(holder: Holder, facts: Facts): number | null {
  const end = endsAt(holder, facts);
  return end === null ? null : Math.max(0, end - facts.now);
}

/** The holders that keep others from a grant. An expired holder is one of them until it may be taken over. */
export const standingHolders = (state: LockState, facts: Facts): readonly Holder[] =>
  state.holders.filter((holder) => !mayBeTaken(holder, facts));

/** Permits are free, but all waiters are behind the front. This happens on a semaphore or with readers, after many of them were served. */
export const wantsMore = (state: LockState, facts: Facts): boolean =>
  hasMore(state) &&
  state.queue.length === 0 &&
  permitsHeld({ ...state, holders: standingHolders(state, facts) }) < state.limit;

/**
 * Whether the front has few waiters left while others wait behind it. Then the notifier lets some move up before the front is
 * empty. A third of the front lasts until that is done, unless holders hold for less than a tenth of a second.
 */
export const runsLow = (state: LockState, facts: Facts): boolean =>
  hasMore(state) && state.queue.length <= frontLengthMaxOf(facts) / 3;

export const presentWaiters = (state: LockState, facts: Facts) =>
  state.queue.filter((waiter) => isPresent(waiter, facts));

export const viewHolders = (state: LockState, facts: Facts): HolderView[] =>
  standingHolders(state, facts).map((holder) => ({
    owner: holder.owner,
    fence: holder.fence,
    remainingMs: remainingMs(holder, facts),
  }));

export const detailHolders = (
  state: LockState,
  facts: Facts,
  publicSessionId: (sessionId: string) => string,
): HolderDetail[] =>
  standingHolders(state, facts).map((holder) => ({
    owner: holder.owner,
    fence: holder.fence,
    permits: shownPermits(holder.permits),
    acquiredAt: toIso(holder.acquiredAt),
    remainingMs: remainingMs(holder, facts),
    ...(holder.sessionId === undefined ? {} : { sessionId: publicSessionId(holder.sessionId) }),
    ...(holder.metadata === undefined ? {} : { metadata: holder.metadata }),
  }));

export const viewQueue = (
  state: LockState,
  facts: Facts,
  publicSessionId: (sessionId: string) => string,
): WaiterView[] =>
  presentWaiters(state, facts).map((waiter, index) => ({
    owner: waiter.owner,
    position: index + 1,
    waitingMs: waitedMs(waiter, facts.now),
    permits: shownPermits(waiter.permits),
    ...(waiter.sessionId === undefined ? {} : { sessionId: publicSessionId(waiter.sessionId) }),
  }));

/**
 * The position of a waiter in the front, from one. Absent waiters ahead of it don't count: they will be dropped, and the
 * first present waiter must sweep the lock. Undefined if the lease is not in the front.
 */
export function positionOf(state: LockState, leaseId: string, facts: Facts): number | undefined {
  const index = state.queue.findIndex((waiter) => waiter.leaseId === leaseId);
  return index < 0 ? undefined : state.queue.slice(0, index).filter((ahead) => isPresent(ahead, facts)).length + 1;
}

/** How long a claim waited until the given instant. Not below zero: two hosts wrote the two times, and their clocks may differ. */
export const waitedMs = (claim: { readonly queuedAt?: number }, until: number): number =>
  claim.queuedAt === undefined ? 0 : Math.max(0, until - claim.queuedAt);

/** The queue is in order, so the next waiter has waited longest. 0 if nobody waits. */
export function longestWaitMs(state: LockState, facts: Facts): number {
  const [next] = presentWaiters(state, facts);
  return next === undefined ? 0 : waitedMs(next, facts.now);
}

export const limitInForce = (state: LockState, facts: Facts): number =>
  shownLimit(state.limit, standingHolders(state, facts));

/** When a caller should try again: at the earliest takeover, but soon, because a release may come at any time. */
export function retryAfterMs(state: LockState, facts: Facts): number {
  const takeovers = standingHolders(state, facts).map(
    (holder) => takeoverAt(holder, facts) ?? epochMs(Number.POSITIVE_INFINITY),
  );
  const earliestMs = Math.min(...takeovers) - facts.now;
  return Math.round(Math.max(retryAfterMsMin, Math.min(earliestMs, retryAfterMsMax)));
}
/** A shorter time would only add load. */
const retryAfterMsMin = 50;
/** With a longer time, a lock that was released right after the refusal would stay free too long. */
const retryAfterMsMax = 2_000;
