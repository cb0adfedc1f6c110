import type { Facts } from '../lock/commands.ts';
import { hasPages } from '../lock/pages.ts';
import type { LockState } from '../lock/state.ts';
import { mayBeTaken, nextDueAt } from '../lock/validity.ts';
import { after, type EpochMs, epochMs } from '../time/clock.ts';

/** A look that changed nothing isn't repeated at once, so that the reaper never spins. */
const lookPauseMs = 200;

/** When the reaper has to look at a lock although nobody asks: a lease may be taken over, or a parked waiter's time is up. */
export function lookDueAt(state: LockState, facts: Facts): EpochMs | null {
  if (state.queue.length === 0 && !hasPages(state)) return null;
  // A polling waiter ends its own wait. A parked waiter is notified of the end.
  const deadlines = state.queue.filter(({ notify }) => notify !== undefined).map(({ deadlineAt }) => deadlineAt);
  const instants = [nextDueAt(state, facts), ...deadlines].filter((instant) => instant !== null);
  return instants.length === 0 ? null : epochMs(Math.min(...instants));
}

/**
 * Whether a change calls for a timer. If the state before needed one at or before that time, no: that timer fires, finds nothing due
 * and arms the next. So neither a renewal nor a hand-off to an equally long lease adds timers.
 */
export function callsForTimer(before: LockState, next: LockState, facts: Facts): boolean {
  const dueAt = lookDueAt(next, facts);
  if (dueAt === null) return false;
  const coveredAt = lookDueAt(before, facts);
  return coveredAt === null || dueAt < coveredAt;
}

/** When to look again after a sweep, which has done all that can be done now. */
export function lookAgainAt(state: LockState, facts: Facts): EpochMs | null {
  // Skip expired holders: their permits don't suffice for the first waiter.
  const holders = state.holders.filter((holder) => !mayBeTaken(holder, facts));
  const dueAt = lookDueAt({ ...state, holders }, facts);
  return dueAt === null ? null : epochMs(Math.max(dueAt, after(facts.now, lookPauseMs)));
}
