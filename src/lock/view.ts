/** What others may see of a lock. It never has a leaseId, a session id or an address for a delivery. */
import { epochMs, toIso } from '../time/clock.ts';
import type { Facts } from './commands.ts';
import { shownLimit, shownPermits } from './permits.ts';
import type { Holder, LockState, Waiter } from './state.ts';
import { isPresent, mayBeTaken, takeoverAt } from './validity.ts';

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

/** When a holder's lease ends: its own end, or the end of its session. Null if that is not known. */
export function endsAt(holder: Holder, facts: Facts) {
  if (holder.expiresAt !== null) return holder.expiresAt;
  const session = holder.sessionId === undefined ? undefined : facts.sessions?.get(holder.sessionId);
  return session?.alive ? session.expiresAt : null;
}

export function remainingMs(holder: Holder, facts: Facts): number | null {
  const end = endsAt(holder, facts);
  return end === null ? null : Math.max(0, end - facts.now);
}

/** The holders that keep others from a grant. An expired holder is one of them until it may be taken over. */
export const standingHolders = (state: LockState, facts: Facts): readonly Holder[] =>
  state.holders.filter((holder) => !mayBeTaken(holder, facts));

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
    waitingMs: waitingMs(waiter, facts),
    permits: shownPermits(waiter.permits),
    ...(waiter.sessionId === undefined ? {} : { sessionId: publicSessionId(waiter.sessionId) }),
  }));

const waitingMs = ({ queuedAt }: Waiter, { now }: Facts): number => Math.max(0, now - queuedAt);

/** The queue is in order, so the next waiter has waited longest. 0 if nobody waits. */
export function longestWaitMs(state: LockState, facts: Facts): number {
  const [next] = presentWaiters(state, facts);
  return next === undefined ? 0 : waitingMs(next, facts);
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
