import type { Facts } from '../lock/commands.ts';
import type { LockState } from '../lock/state.ts';
import { mayBeTaken, nextDueAt } from '../lock/validity.ts';
import { after, type EpochMs, epochMs } from '../time/clock.ts';

/** If a look changed nothing, the next one comes after this time, so there is no busy loop. */
const lookPauseMs = 200;

/** When the reaper must look at a lock, even if nobody asks: a lease may be taken over, or the deadline of a parked waiter has come. */
export function lookDueAt(state: LockState, facts: Facts): EpochMs | null {
  // A polling waiter ends its own wait. A parked waiter is notified of the end.
  const deadlines = state.queue.filter(({ notify }) => notify !== undefined).map(({ deadlineAt }) => deadlineAt);
  const instants = [nextDueAt(state, facts), ...deadlines].filter((instant) => instant !== null);
  return instants.length === 0 ? null : epochMs(Math.min(...instants));
}

/**
 * True if a change needs a new timer. If the state before already needed one at or before that time, no timer is added: that timer fires,
 * finds nothing due and arms the next. So renewals and hand-offs to an equally long lease add no timers.
 */
export function callsForTimer(before: LockState, next: LockState, facts: Facts): boolean {
  const dueAt = lookDueAt(next, facts);
  if (dueAt === null) return false;
  const coveredAt = lookDueAt(before, facts);
  return coveredAt === null || dueAt < coveredAt;
}

/** When to look again after a sweep. The sweep has done everything that is possible now. */
export function lookAgainAt(state: LockState, facts: Facts): EpochMs | null {
  // Skip expired holders: their permits don't suffice for the first waiter.
  const holders = state.holders.filter((holder) => !mayBeTaken(holder, facts));
  const dueAt = lookDueAt({ ...state, holders }, facts);
  return dueAt === null ? null : epochMs(Math.max(dueAt, after(facts.now, lookPauseMs)));
}
