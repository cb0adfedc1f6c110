import { lockLimits } from '../../src/lock/limits.ts';
import { BellRoom } from '../../src/service/bell-room.ts';
import type { LockContext } from '../../src/service/context.ts';
import { PacedRoom } from '../../src/service/paced-room.ts';
import { RefusalMemory } from '../../src/service/refusal-memory.ts';
import { StoredSessionFacts } from '../../src/service/sessions.ts';
import { pollMsDefault } from '../../src/service/system.ts';
import type { VirtualTime } from '../../src/testing/virtual-time.ts';
import type { Timers } from '../../src/time/timers.ts';
import { causeOfTimer, runAs } from './cause.ts';
import type { DriftingClock } from './clock.ts';
import type { Process } from './process.ts';
import type { StorePath } from './store-path.ts';

/** The timers of a process, which remember on whose behalf they were set. */
export const timersOf = (process: Process, time: VirtualTime): Timers => ({
  after: (ms, run) => {
    const cause = causeOfTimer(process.name, time.now() + ms);
    return process.after(ms, () => runAs(cause, run));
  },
});

export interface ContextParts {
  readonly clock: DriftingClock;
  readonly timers: Timers;
  readonly random: () => number;
  readonly stores: StorePath;
  readonly waiting: 'bell' | 'paced';
  readonly newId: (kind: string) => string;
}

/** What the use cases work with, in a process of the simulation. */
export function lockContextOf({ clock, timers, random, stores, waiting, newId }: ContextParts): LockContext {
  const { graceMs } = lockLimits;
  return {
    store: stores.locks,
    clock,
    timers,
    random,
    newLeaseId: () => newId('L'),
    newSessionId: () => newId('S'),
    graceMs,
    pollMs: pollMsDefault,
    room: waiting === 'bell' ? new BellRoom({ clock, timers }) : new PacedRoom({ timers, random }),
    refusals: new RefusalMemory(clock),
    sessionStore: stores.sessions,
    sessions: new StoredSessionFacts({ store: stores.sessions, graceMs }),
  };
}
