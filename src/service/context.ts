import type { Facts, SessionFact } from '../lock/commands.ts';
import type { LockState } from '../lock/state.ts';
import type { LockKey, LockStore } from '../store/lock-store.ts';
import type { SessionStore } from '../store/session-store.ts';
import type { Clock, EpochMs } from '../time/clock.ts';
import type { Timers } from '../time/timers.ts';
import type { RefusalMemory } from './refusal-memory.ts';
import type { WaitingRoom } from './waiting-room.ts';

/** Tells which of the sessions that claims hang on are alive. Who is found past its end is marked dead before it is reported so. */
export interface SessionFacts {
  of(namespace: string, sessionIds: readonly string[], now: EpochMs): Promise<ReadonlyMap<string, SessionFact>>;
}

/** What the use cases work with. */
export interface LockContext {
  readonly store: LockStore;
  readonly clock: Clock;
  readonly random: () => number;
  readonly timers: Timers;
  readonly newLeaseId: () => string;
  readonly newSessionId: () => string;
  readonly graceMs: number;
  /** How long an acquire that waits is kept open. */
  readonly pollMs: number;
  /** What this deployment allows, where that is less than the rules do. */
  readonly leaseMsMax?: number;
  readonly waitMsMax?: number;
  readonly room: WaitingRoom;
  readonly refusals: RefusalMemory;
  readonly sessions: SessionFacts;
  readonly sessionStore: SessionStore;
}

const noSessions: ReadonlyMap<string, SessionFact> = new Map();

/** What may be known when deciding on a state: the time, and the life of the sessions that the state hangs on. */
export const factsAbout = (context: LockContext, { namespace }: LockKey, state: LockState): Promise<Facts> =>
  factsAmong(context, namespace, [state]);

/** The same for several locks, and for a session that none of them may name yet. */
export async function factsAmong(
  context: LockContext,
  namespace: string,
  states: readonly LockState[],
  sessionId?: string,
): Promise<Facts> {
  const ids = new Set<string>(sessionId === undefined ? [] : [sessionId]);
  for (const { holders, queue } of states) {
    for (const claim of [...holders, ...queue]) if (claim.sessionId !== undefined) ids.add(claim.sessionId);
  }
  const sessions = ids.size === 0 ? noSessions : await context.sessions.of(namespace, [...ids], context.clock.now());
  return { now: context.clock.now(), graceMs: context.graceMs, sessions };
}

/** Tells this process of a state that it wrote or was shown by the stream. */
export function announce({ room, refusals }: LockContext, key: LockKey, state: LockState): void {
  room.announce(key, state);
  refusals.forget(key);
}
