import { randomBytes } from 'node:crypto';
import { lockLimits } from '../lock/limits.ts';
import type { LockStore } from '../store/lock-store.ts';
import { systemClock } from '../time/clock.ts';
import { systemTimers } from '../time/timers.ts';
import { BellRoom } from './bell-room.ts';
import type { LockContext, SessionFacts } from './context.ts';
import { PacedRoom } from './paced-room.ts';
import { RefusalMemory } from './refusal-memory.ts';

/** API Gateway gives up after 30 s; 20 leave room for a cold start, the store's retries and the way back. */
export const pollMsDefault = 20_000;

/** A lock context on the real clock. `alone`: one process serves, so what it writes rings its own waiters. */
export function systemLockContext(options: {
  store: LockStore;
  alone: boolean;
  pollMs?: number;
  graceMs?: number;
  sessions?: SessionFacts;
}): LockContext {
  const random = Math.random;
  const room = options.alone
    ? new BellRoom({ clock: systemClock, timers: systemTimers })
    : new PacedRoom({ timers: systemTimers, random });
  return {
    store: options.store,
    clock: systemClock,
    timers: systemTimers,
    random,
    newLeaseId: () => randomBytes(16).toString('base64url'),
    graceMs: options.graceMs ?? lockLimits.graceMs,
    pollMs: options.pollMs ?? pollMsDefault,
    room,
    refusals: new RefusalMemory(systemClock),
    ...(options.sessions === undefined ? {} : { sessions: options.sessions }),
  };
}
