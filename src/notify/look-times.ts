import type { Facts } from '../lock/commands.ts';
import { nextDueAt } from '../lock/due.ts';
import type { LockState } from '../lock/state.ts';
import { mayBeTaken } from '../lock/validity.ts';
import { after, type EpochMs, epochMs } from '../time/clock.ts';

/** A look that could not help isn't repeated at once: time passes, nothing spins. */
const lookPauseMs = 200;

/** When a lock has to be looked at though nobody asks: a lease may be taken over, or a parked waiter's time is up. */
export function lookDueAt(state: LockState, facts: Facts): EpochMs | null {
  if (state.queue.length === 0) return null;
  // A waiter that polls minds its own deadline; one that is parked is told of its end.
  const deadlines = state.queue.filter(({ notify }) => notify !== undefined).map(({ deadlineAt }) => deadlineAt);
  const instants = [nextDueAt(state, facts), ...deadlines].filter((instant) => instant !== null);
  return instants.length === 0 ? null : epochMs(Math.min(...instants));
}

/**
 * Whether a change calls for a timer. Not where the state before already needed one at or before that time: its timer fires,
 * finds nothing due and moves on. So neither a renewal nor a hand-over to an equally long lease adds any.
 */
export function callsForTimer(before: LockState, next: LockState, facts: Facts): boolean {
  const dueAt = lookDueAt(next, facts);
  if (dueAt === null) return false;
  const coveredAt = lookDueAt(before, facts);
  return coveredAt === null || dueAt < coveredAt;
}

/** When to look again after a sweep, which has done all that could be done now. */
export function lookAgainAt(state: LockState, facts: Facts): EpochMs | null {
  // Who could be taken over and was not is of no use to the head of the queue, which wants more than that.
  const holders = state.holders.filter((holder) => !mayBeTaken(holder, facts));
  const dueAt = lookDueAt({ ...state, holders }, facts);
  return dueAt === null ? null : epochMs(Math.max(dueAt, after(facts.now, lookPauseMs)));
}
