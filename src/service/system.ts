import { randomBytes } from 'node:crypto';
import { lockLimits } from '../lock/limits.ts';
import type { LockStore } from '../store/lock-store.ts';
import type { SessionStore } from '../store/session-store.ts';
import { systemClock } from '../time/clock.ts';
import { systemTimers } from '../time/timers.ts';
import { BellRoom } from './bell-room.ts';
import type { LockContext } from './context.ts';
import { PacedRoom } from './paced-room.ts';
import { RefusalMemory } from './refusal-memory.ts';
import { StoredSessionFacts } from './sessions.ts';

/** API Gateway gives up after 30 s; 20 leave room for a cold start, the store's retries and the way back. */
export const pollMsDefault = 20_000;

/** 128 bits: nobody guesses it, and no two are ever the same. */
const randomId = (): string => randomBytes(16).toString('base64url');

/** A lock context on the real clock. `alone`: one process serves, so what it writes rings its own waiters. */
export function systemLockContext(options: {
  store: LockStore;
  alone: boolean;
  pollMs?: number;
  graceMs?: number;
  leaseMsMax?: number;
  waitMsMax?: number;
  sessionStore: SessionStore;
}): LockContext {
  const random = Math.random;
  const graceMs = options.graceMs ?? lockLimits.graceMs;
  const room = options.alone
    ? new BellRoom({ clock: systemClock, timers: systemTimers })
    : new PacedRoom({ timers: systemTimers, random });
  return {
    store: options.store,
    clock: systemClock,
    timers: systemTimers,
    random,
    newLeaseId: randomId,
    // A session id stands in paths as a name does, and a name starts with a letter or digit.
    newSessionId: () => `s${randomId()}`,
    graceMs,
    ...(options.leaseMsMax === undefined ? {} : { leaseMsMax: options.leaseMsMax }),
    ...(options.waitMsMax === undefined ? {} : { waitMsMax: options.waitMsMax }),
    pollMs: options.pollMs ?? pollMsDefault,
    room,
    refusals: new RefusalMemory(systemClock),
    sessionStore: options.sessionStore,
    sessions: new StoredSessionFacts({ store: options.sessionStore, graceMs }),
  };
}
