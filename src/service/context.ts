/** What the use cases work with: the context, how a process makes it, and the facts for a decision. */
import { randomBytes } from 'node:crypto';
import type { Facts, SessionFact } from '../lock/commands.ts';
import { lockLimits } from '../lock/limits.ts';
import type { LockKey, LockState } from '../lock/state.ts';
import { type QueueContext, readAndLearn } from '../queue/context.ts';
import { isBefore, LockCache } from '../queue/lock-cache.ts';
import type { LockStore } from '../queue/lock-store.ts';
import { PageHints } from '../queue/page-hints.ts';
import type { PageStore } from '../queue/page-store.ts';
import { type QueueSizes, queueSizes } from '../queue/pages.ts';
import type { SessionStore } from '../store/session-store.ts';
import { type Clock, systemClock } from '../time/clock.ts';
import { systemTimers, type Timers } from '../time/timers.ts';
import { defined } from '../tools/collections.ts';
import { Serializer } from '../tools/serializer.ts';
import { SingleFlight } from '../tools/single-flight.ts';
import type { Applied } from './apply.ts';
import { Grants } from './grants.ts';
import { NotifiedWaits } from './notified-waits.ts';
import { polledWaits } from './polled-waits.ts';
import { Refusals } from './refusals.ts';
import { SessionLives } from './session-lives.ts';
import type { Waits } from './waits.ts';

export interface LockContext extends QueueContext {
  readonly newLeaseId: () => string;
  readonly newSessionId: () => string;
  readonly graceMs: number;
  /** How long an acquire request that waits is kept open. */
  readonly pollMs: number;
  /** Limits of this deployment that are below those of the rules. */
  readonly leaseMsMax?: number;
  readonly waitMsMax?: number;
  /** The sweeps of this process that are under way, by lock. */
  readonly sweeps: SingleFlight<Applied>;
  readonly grants: Grants;
  /** How long a remembered state is trusted by writes that would need another request to check it. */
  readonly rememberedMs: number;
  readonly waits: Waits;
  readonly refusals: Refusals;
  readonly sessions: SessionLives;
  readonly sessionStore: SessionStore;
}

/** API Gateway ends a request after 30 s. 20 s leave time for a cold start, the store's retries and the answer. */
const pollMsDefault = 20_000;

/** 128 bits: nobody can guess it, and no two are the same. */
const randomId = (): string => randomBytes(16).toString('base64url');

/**
 * If several processes serve, a page of a busy lock fills up within about a tenth of a second. A process that serves
 * alone learns of all writes: its own, and those in the stream.
 */
const rememberedMs = 100;

/** How long work waits for earlier work on the same lock: a tenth of a poll, or some hundred writes. After that, it is decided again. */
const turnMsMax = 2_000;

/** A context on the real clock. `alone`: only this process serves, so its own writes wake its waiters. */
export function systemLockContext(options: {
  store: LockStore;
  pages: PageStore;
  alone: boolean;
  clock?: Clock | undefined;
  timers?: Timers | undefined;
  random?: (() => number) | undefined;
  pollMs?: number | undefined;
  sizes?: QueueSizes | undefined;
  graceMs?: number;
  leaseMsMax?: number | undefined;
  waitMsMax?: number | undefined;
  sessionStore: SessionStore;
}): LockContext {
  const { clock = systemClock, timers = systemTimers, random = Math.random } = options;
  const graceMs = options.graceMs ?? lockLimits.graceMs;
  const sizes = options.sizes ?? queueSizes;
  const cache = new LockCache(clock);
  return {
    store: options.store,
    pages: options.pages,
    sizes,
    cache,
    hints: new PageHints(),
    turns: new Serializer(timers, turnMsMax),
    sweeps: new SingleFlight(),
    grants: new Grants(),
    alone: options.alone,
    clock,
    timers,
    random,
    newLeaseId: randomId,
    // A session id is part of paths, like a name, and a name starts with a letter or digit.
    newSessionId: () => `s${randomId()}`,
    graceMs,
    ...defined({ leaseMsMax: options.leaseMsMax, waitMsMax: options.waitMsMax }),
    pollMs: options.pollMs ?? pollMsDefault,
    rememberedMs: options.alone ? Number.POSITIVE_INFINITY : rememberedMs,
    waits: options.alone
      ? new NotifiedWaits({ clock, timers, cache })
      : polledWaits({ clock, timers, cache, random, sizes }),
    refusals: new Refusals({ cache, clock, graceMs }),
    sessionStore: options.sessionStore,
    sessions: new SessionLives({ store: options.sessionStore, graceMs }),
  };
}

const noSessions: ReadonlyMap<string, SessionFact> = new Map();

/** The facts for a decision about a state: the time, and whether the sessions of its holders and waiters are alive. */
export const factsAbout = (context: LockContext, { namespace }: LockKey, state: LockState): Promise<Facts> =>
  factsAmong(context, namespace, [state]);

/** The facts for showing a state. Nothing is decided on them, so a session that was alive a moment ago is not read again. */
export async function factsForLook(context: LockContext, { namespace }: LockKey, state: LockState): Promise<Facts> {
  const ids = sessionIdsIn([state]);
  const sessions = ids.length === 0 ? noSessions : await context.sessions.lately(namespace, ids, context.clock.now());
  return { ...bareFacts(context), sessions };
}

/** The facts for several locks, and for a session that none of them may name yet. */
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

/** The facts without sessions: all that is known before a read. */
export const bareFacts = ({ clock, graceMs, sizes }: LockContext): Facts => ({
  now: clock.now(),
  graceMs,
  frontLengthMax: sizes.front,
});

export const sessionIdsIn = (states: readonly LockState[]): string[] => {
  const ids = new Set<string>();
  for (const { holders, queue } of states) {
    for (const claim of [...holders, ...queue]) if (claim.sessionId !== undefined) ids.add(claim.sessionId);
  }
  return [...ids];
};

/**
 * Reads the lock for half of the price. An eventually consistent read may be out of date, so it is used only as far as it can't do harm. If it
 * is older than the known state, it says nothing. If a wait would end by it, its caller gets an answer. Then the lock is
 * read again, so that nobody is told of a grant that was revoked before.
 */
export async function peekAndLearn(
  context: LockContext,
  key: LockKey,
  endsWait: (state: LockState) => boolean,
): Promise<LockState> {
  const state = await context.store.peek(key);
  const known = context.cache.seen(key)?.state;
  // A missing item was deleted, or is so new that this read does not show it.
  if (state.rev === 0) return readAndLearn(context, key);
  if (known !== undefined && isBefore(state, known)) return known;
  if (endsWait(state)) return readAndLearn(context, key);
  context.cache.learn(key, state);
  return state;
}
