import { randomBytes } from 'node:crypto';
import { lockLimits } from '../lock/limits.ts';
import type { QueueSizes } from '../lock/pages.ts';
import type { LockStore } from '../store/lock-store.ts';
import type { SessionStore } from '../store/session-store.ts';
import { type Clock, systemClock } from '../time/clock.ts';
import { systemTimers, type Timers } from '../time/timers.ts';
import type { LockContext } from './context.ts';
import { LockMemory } from './lock-memory.ts';
import { NotifiedWaits } from './notified-waits.ts';
import { PolledWaits } from './polled-waits.ts';
import { Refusals } from './refusals.ts';
import { SessionLives } from './session-lives.ts';

/** API Gateway gives up after 30 s; 20 leave room for a cold start, the store's retries and the way back. */
export const pollMsDefault = 20_000;

/** 128 bits: nobody guesses it, and no two are ever the same. */
const randomId = (): string => randomBytes(16).toString('base64url');

/**
 * Where several processes serve, a page of a busy lock fills up within about a tenth of a second. A process that serves alone learns of all
 * writes, its own and those that the stream shows.
 */
const rememberedMs = 100;

/** A lock context on the real clock. `alone`: one process serves, so what it writes wakes its own waiters. */
export function systemLockContext(options: {
  store: LockStore;
  alone: boolean;
  clock?: Clock;
  timers?: Timers;
  random?: () => number;
  pollMs?: number;
  /** Other sizes of front and page than the usual ones, for tests. */
  sizes?: QueueSizes | undefined;
  graceMs?: number;
  leaseMsMax?: number;
  waitMsMax?: number;
  sessionStore: SessionStore;
}): LockContext {
  const { clock = systemClock, timers = systemTimers, random = Math.random } = options;
  const graceMs = options.graceMs ?? lockLimits.graceMs;
  const memory = new LockMemory(clock);
  return {
    store: options.store,
    clock,
    timers,
    random,
    newLeaseId: randomId,
    // A session id stands in paths as a name does, and a name starts with a letter or digit.
    newSessionId: () => `s${randomId()}`,
    graceMs,
    ...(options.leaseMsMax === undefined ? {} : { leaseMsMax: options.leaseMsMax }),
    ...(options.waitMsMax === undefined ? {} : { waitMsMax: options.waitMsMax }),
    pollMs: options.pollMs ?? pollMsDefault,
    ...(options.sizes === undefined ? {} : { sizes: options.sizes }),
    memory,
    rememberedMs: options.alone ? Number.POSITIVE_INFINITY : rememberedMs,
    waits: options.alone ? new NotifiedWaits({ clock, timers, memory }) : new PolledWaits({ timers, random }),
    refusals: new Refusals({ memory, clock, graceMs }),
    sessionStore: options.sessionStore,
    sessions: new SessionLives({ store: options.sessionStore, graceMs }),
  };
}
