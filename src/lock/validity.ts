import { after, type EpochMs } from '../time/clock.ts';
import type { Facts } from './commands.ts';
import type { Claim, Holder, Waiter } from './state.ts';

const sessionEnd = (claim: Claim, facts: Facts) => {
  const session = claim.sessionId === undefined ? undefined : facts.sessions?.get(claim.sessionId);
  return session?.alive === false ? session : undefined;
};

/** A holder may renew and is shown as holding until the instant of its end. */
export function isLive(holder: Holder, facts: Facts): boolean {
  if (holder.expiresAt === null) return sessionEnd(holder, facts) === undefined;
  return facts.now < holder.expiresAt;
}

/**
 * When a holder's permits may go to another; null while its session lives.
 *
 * A slow clock may delay a takeover, never hasten one: a lease is given away only after its end plus the skew
 * bound. A session is marked dead only after its own end plus that bound, so nothing is added for it here. Who lost its
 * lease by running out of time may still be writing: the lock delay gives those writes time to land.
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

/** A waiter is served only while somebody is there to be served, within its deadline and its session's life. */
export const isPresent = (waiter: Waiter, facts: Facts): boolean =>
  facts.now < waiter.aliveUntil && sessionEnd(waiter, facts) === undefined;
