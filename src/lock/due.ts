import { type EpochMs, epochMs } from '../time/clock.ts';
import type { Facts } from './commands.ts';
import { hasPages } from './pages.ts';
import { type LockState, permitsHeld } from './state.ts';
import { takeoverAt } from './validity.ts';

/**
 * When time alone will next change something for the waiters: a lease may be taken over, or a waiter that blocks others
 * leaves. Null if nobody waits, or if only another write can help.
 */
export function nextDueAt(state: LockState, facts: Facts): EpochMs | null {
  const [head, second] = state.queue;
  // If the front is empty, the first page moves up as soon as permits are free.
  if (head === undefined && !hasPages(state)) return null;
  const instants = state.holders.map((holder) => takeoverAt(holder, facts) ?? sessionCheckAt(holder.sessionId, facts));
  const hasRoom = permitsHeld(state) < state.limit;
  const hasOthersBehind = second !== undefined || hasPages(state);
  if (state.holders.length === 0 || (head === undefined && hasRoom)) instants.push(facts.now);
  else if (head !== undefined && hasOthersBehind && hasRoom) instants.push(head.aliveUntil);
  const known = instants.filter((instant) => instant !== null);
  return known.length === 0 ? null : epochMs(Math.min(...known));
}

/** Without a write, a live session ends at its expiry plus the grace, and not before. */
function sessionCheckAt(sessionId: string | undefined, facts: Facts): EpochMs | null {
  const session = sessionId === undefined ? undefined : facts.sessions?.get(sessionId);
  return session?.alive ? epochMs(session.expiresAt + facts.graceMs) : null;
}
