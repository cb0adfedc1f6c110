import type { Facts, SessionFact } from '../lock/commands.ts';
import type { QueueSizes } from '../lock/pages.ts';
import type { LockState } from '../lock/state.ts';
import type { LockKey, LockStore } from '../store/lock-store.ts';
import type { SessionStore } from '../store/session-store.ts';
import type { Clock } from '../time/clock.ts';
import type { Timers } from '../time/timers.ts';
import type { LockMemory } from './lock-memory.ts';
import type { Refusals } from './refusals.ts';
import type { SessionLives } from './session-lives.ts';
import type { Waits } from './waits.ts';

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
  /** Other sizes of front and page than the usual ones, for tests. */
  readonly sizes?: QueueSizes | undefined;
  /** What this deployment allows, where that is less than the rules do. */
  readonly leaseMsMax?: number;
  readonly waitMsMax?: number;
  readonly memory: LockMemory;
  /** How long what is remembered of a lock is taken for true, by those writes that could find out only at a price. */
  readonly rememberedMs: number;
  readonly waits: Waits;
  readonly refusals: Refusals;
  readonly sessions: SessionLives;
  readonly sessionStore: SessionStore;
}

const noSessions: ReadonlyMap<string, SessionFact> = new Map();

/** What a decision about a state may know: the time, and whether the sessions of its holders and waiters are alive. */
export const factsAbout = (context: LockContext, { namespace }: LockKey, state: LockState): Promise<Facts> =>
  factsAmong(context, namespace, [state]);

/** The same for a look, on which nothing is decided: a session that was alive a moment ago is not read again. */
export async function factsForLook(context: LockContext, { namespace }: LockKey, state: LockState): Promise<Facts> {
  const ids = sessionIdsIn([state]);
  const sessions = ids.length === 0 ? noSessions : await context.sessions.lately(namespace, ids, context.clock.now());
  return { ...bareFacts(context), sessions };
}

/** The same for several locks, and for a session that none of them may name yet. */
export async function factsAmong(
  context: LockContext,
  namespace: string,
  states: readonly LockState[],
  sessionId?: string,
): Promise<Facts> {
  const ids = [...new Set([...sessionIdsIn(states), ...(sessionId === undefined ? [] : [sessionId])])];
  const sessions = ids.length === 0 ? noSessions : await context.sessions.of(namespace, ids, context.clock.now());
  return { ...bareFacts(context), sessions };
}

/** Without sessions: what is known before anything was read. */
export const bareFacts = ({ clock, graceMs, sizes }: LockContext): Facts => ({
  now: clock.now(),
  graceMs,
  ...(sizes === undefined ? {} : { sizes }),
});

const sessionIdsIn = (states: readonly LockState[]): string[] => {
  const ids = new Set<string>();
  for (const { holders, queue } of states) {
    for (const claim of [...holders, ...queue]) if (claim.sessionId !== undefined) ids.add(claim.sessionId);
  }
  return [...ids];
};
