import { type EpochMs, epochMs } from '../time/clock.ts';
import type { Facts } from './commands.ts';
import { hasPages } from './pages.ts';
import { type LockState, permitsHeld } from './state.ts';
import { takeoverAt } from './validity.ts';

/**
 * When time alone would next change something for those who wait: a lease may be taken over, or a waiter that blocks others
 * leaves. Null if nobody waits, or where only another write can help.
 */
export function nextDueAt(state: LockState, facts: Facts): EpochMs | null {
  const [head, second] = state.queue;
  // With an empty front, the first page moves up as soon as there is room.
  if (head === undefined && !hasPages(state)) return null;
  const instants = state.holders.map((holder) => takeoverAt(holder, facts) ?? sessionCheckAt(holder.sessionId, facts));
  const hasRoom = permitsHeld(state) < state.limit;
  const isOthersBehind = second !== undefined || hasPages(state);
  if (state.holders.length === 0 || (head === undefined && hasRoom)) instants.push(facts.now);
  else if (head !== undefined && isOthersBehind && hasRoom) instants.push(head.aliveUntil);
  const known = instants.filter((instant) => instant !== null);
  return known.length === 0 ? null : epochMs(Math.min(...known));
}

/** A live session can end by itself at its expiry plus the skew bound, not before. */
function sessionCheckAt(sessionId: string | undefined, facts: Facts): EpochMs | null {
  const session = sessionId === undefined ? undefined : facts.sessions?.get(sessionId);
  return session?.alive ? epochMs(session.expiresAt + facts.graceMs) : null;
}
