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
export async function factsAbout(context: LockContext, key: LockKey, state: LockState): Promise<Facts> {
  const sessionIds = new Set<string>();
  for (const { sessionId } of [...state.holders, ...state.queue])
    if (sessionId !== undefined) sessionIds.add(sessionId);
  const sessions =
    sessionIds.size === 0 ? noSessions : await context.sessions.of(key.namespace, [...sessionIds], context.clock.now());
  return { now: context.clock.now(), graceMs: context.graceMs, sessions };
}

/** Tells this process of a state that it wrote or was shown by the stream. */
export function announce({ room, refusals }: LockContext, key: LockKey, state: LockState): void {
  room.announce(key, state);
  refusals.forget(key);
}
