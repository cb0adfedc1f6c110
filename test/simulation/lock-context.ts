import type { QueueSizes } from '../../src/queue/pages.ts';
import type { LockContext } from '../../src/service/context.ts';
import { systemLockContext } from '../../src/service/context.ts';
import type { VirtualTime } from '../../src/testing/virtual-time.ts';
import type { Timers } from '../../src/time/timers.ts';
import { causeOfTimer, runAs } from './cause.ts';
import type { DriftingClock } from './clock.ts';
import type { Process } from './process.ts';
import type { StorePath } from './store-path.ts';

/** The timers of a process. Each remembers the cause that set it. */
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
  readonly waiting: 'notified' | 'polled';
  readonly sizes: QueueSizes;
  readonly newId: (kind: string) => string;
}

/** What the use cases work with, in a process of the simulation. */
export function lockContextOf({ clock, timers, random, stores, waiting, sizes, newId }: ContextParts): LockContext {
  const alone = waiting === 'notified';
  return {
    // The real settings. Only time, random numbers and ids come from the simulation.
    ...systemLockContext({ store: stores.locks, sessionStore: stores.sessions, alone, clock, timers, random, sizes }),
    newLeaseId: () => newId('L'),
    newSessionId: () => newId('S'),
  };
}
