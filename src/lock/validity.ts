/** What time and the ends of sessions do to a lock: which leases and waits are still valid, and when that changes. */
import { after, type EpochMs, epochMs } from '../time/clock.ts';
import type { Facts, SessionFact } from './commands.ts';
import { type Claim, type Holder, hasMore, type LockState, permitsHeld, type Waiter } from './state.ts';

/** What is known about the session of a claim. Undefined without a session, or if nothing is known about it. */
export const sessionOf = ({ sessionId }: Claim, { sessions }: Facts): SessionFact | undefined =>
  sessionId === undefined ? undefined : sessions?.get(sessionId);

/** The end of the session of a claim. Undefined while the session lives. */
export const sessionEnd = (claim: Claim, facts: Facts) => {
  const session = sessionOf(claim, facts);
  return session?.alive === false ? session : undefined;
};

/** Until the instant of its end, a holder may renew and is shown as holding. */
export function isLive(holder: Holder, facts: Facts): boolean {
  if (holder.expiresAt === null) return sessionEnd(holder, facts) === undefined;
  return facts.now < holder.expiresAt;
}

/**
 * When the permits of a holder may be granted to another. Null while its session lives.
 *
 * A slow clock may delay a takeover, but never cause one too early: others are granted only after the lease's end plus
 * the grace. A session is marked dead only after its own end plus the grace, so nothing is added for it here. A holder
 * whose lease expired may still be writing. The lock delay gives those writes time to arrive.
 */
export function takeoverAt(holder: Holder, facts: Facts): EpochMs | null {
  const lockDelayMs = holder.lockDelayMs ?? 0;
  if (holder.expiresAt !== null) return after(holder.expiresAt, facts.graceMs + lockDelayMs);
  const end = sessionEnd(holder, facts);
  if (end === undefined) return null;
  return end.how === 'expired' ? after(end.endedAt, lockDelayMs) : end.endedAt;
}

export function mayBeTaken(holder: Holder, facts: Facts): boolean {
  const at = takeoverAt(holder, facts);
  return at !== null && at <= facts.now;
}

/** Only a present waiter is granted: it asked recently or is parked, its deadline has not come, and its session lives. */
export const isPresent = (waiter: Waiter, facts: Facts): boolean =>
  facts.now < waiter.presentUntil && sessionEnd(waiter, facts) === undefined;

/**
 * When time alone will next change something for the waiters: a lease may be taken over, or a waiter that blocks others
 * leaves. Null if nobody waits, or if only another write can help.
 */
export function nextDueAt(state: LockState, facts: Facts): EpochMs | null {
  const [head, second] = state.queue;
  // If the front is empty, waiters move up as soon as permits are free.
  if (head === undefined && !hasMore(state)) return null;
  const instants = state.holders.map((holder) => takeoverAt(holder, facts) ?? sessionCheckAt(holder, facts));
  const hasRoom = permitsHeld(state) < state.limit;
  const hasOthersBehind = second !== undefined || hasMore(state);
  if (state.holders.length === 0 || (head === undefined && hasRoom)) instants.push(facts.now);
  else if (head !== undefined && hasOthersBehind && hasRoom) instants.push(head.presentUntil);
  const known = instants.filter((instant) => instant !== null);
  return known.length === 0 ? null : epochMs(Math.min(...known));
}

/** Without a write, a live session ends at its expiry plus the grace, and not before. */
function sessionCheckAt(holder: Holder, facts: Facts): EpochMs | null {
  const session = sessionOf(holder, facts);
  return session?.alive ? epochMs(session.expiresAt + facts.graceMs) : null;
}
