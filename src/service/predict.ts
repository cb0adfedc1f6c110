import type { Acquire, Facts, LockCommand, Release } from '../lock/commands.ts';
import { decide } from '../lock/decide.ts';
import { hasMore, type LockState } from '../lock/state.ts';
import type { Seen } from '../queue/lock-cache.ts';

/**
 * How a command begins. `send`: with its common case, in one write. `refused`: that write would be refused, so the command is decided
 * on the state that was seen last. `read`: the same, but that state is too old, and a read costs a fraction of a refused write.
 */
export type Prediction = 'send' | 'read' | 'refused';

/**
 * Predicts whether the first write would be refused, so that it need not be sent: a refused write is billed like any other. Pure. If
 * what was seen is out of date, the next writes are refused, and `decide` is asked. `isRecent`: the state can be trusted by writes
 * that would need another request to check it.
 */
export function predict(seen: Seen | undefined, command: LockCommand, facts: Facts, isRecent: boolean): Prediction {
  if (seen === undefined) return 'send';
  switch (command.kind) {
    case 'refill':
      return isRecent ? 'refused' : 'send';
    case 'release':
      return isRecent && isRefusedRelease(seen.state, command) ? 'refused' : 'send';
    case 'acquire':
      return predictAcquire(seen.state, command, facts, isRecent);
    default:
      return 'send';
  }
}

/** A page must move up first, or a part of an awaited lock is released, so `decide` must say who is served. */
function isRefusedRelease(known: LockState, command: Release): boolean {
  const holder = known.holders.find(({ leaseId }) => leaseId === command.leaseId);
  const needsMore = hasMore(known) && known.queue.length === 0;
  return (needsMore || isAmongWaiters(known, command)) && holder !== undefined && holder.leaseMs !== null;
}

/**
 * Whether a command releases a part of a lock that others wait for. Then `decide` must say who is served, so releases at
 * the same time would refuse each other.
 */
export function isAmongWaiters(known: LockState | undefined, command: LockCommand): boolean {
  if (command.kind !== 'release' || known === undefined) return false;
  if (known.queue.length === 0 && !hasMore(known)) return false;
  return known.holders.some(({ leaseId, permits }) => leaseId === command.leaseId && permits < known.limit);
}

/** Others are known to hold the lock or to wait for it, so a waiter joins the queue or keeps its place. */
function predictAcquire(known: LockState, command: Acquire, facts: Facts, isRecent: boolean): Prediction {
  if (command.waitMs === 0 || command.sessionId !== undefined) return 'send';
  // To find out whether a session is alive costs a read, as much as a refusal.
  if ([...known.holders, ...known.queue].some(({ sessionId }) => sessionId !== undefined)) return 'send';
  const { change, answer } = decide(known, command, facts);
  if (answer.kind !== 'waiting') return 'send';
  switch (change.kind) {
    // The conditions of these writes check all that they assume.
    case 'attend':
      return 'refused';
    case 'replace':
      return isRecent ? 'refused' : 'send';
    case 'arrive':
      return isRecent || known.queue.length > 0 ? 'refused' : 'read';
    case 'none':
      return 'read';
    case 'join-behind':
      // The front was full, and nobody waited behind it.
      if (!hasMore(known)) return 'refused';
      // A page does not know whether the lease holds the lock or has ended. So only a new lease joins by a remembered state.
      return isRecent && command.place === 'new' ? 'refused' : 'read';
    default:
      return 'send';
  }
}
