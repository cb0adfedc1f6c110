import { hasMore, type LockKey } from '../lock/state.ts';
import { sweepPages } from '../queue/finding.ts';
import { apply } from '../service/apply.ts';
import { factsAbout, type LockContext } from '../service/context.ts';
import type { AwaitedLocks } from '../store/notices.ts';
import { type EpochMs, epochMs } from '../time/clock.ts';
import { errorText } from '../tools/error-text.ts';
import type { Log } from '../tools/log.ts';
import { forEachAtMost } from '../tools/pool.ts';
import { lookAgainAt } from './look-times.ts';
import type { LockTimers } from './ports.ts';

export interface ReaperPorts {
  readonly locks: LockContext;
  readonly timers: LockTimers;
  readonly awaited: AwaitedLocks;
  readonly log: Log;
}

export interface Swept {
  readonly looked: number;
  readonly failed: number;
  /** False if the time ended before every lock was looked at. */
  readonly complete: boolean;
}

/** Ends expired leases in time, even if nobody polls. */
export interface Reaper {
  /** Sweeps the lock, and arms a timer for the next look while somebody waits. `fired` is the timer that caused this look. */
  look(key: LockKey, fired?: EpochMs): Promise<void>;
  /** Looks at every lock that has waiters, in case its timer was lost. */
  sweepAwaited(until: EpochMs): Promise<Swept>;
}

/** Ten thousand awaited locks, at five milliseconds for a look, are done within three seconds. */
const looksAtOnceMax = 20;

export function createReaper(ports: ReaperPorts): Reaper {
  const { locks, timers, awaited, log } = ports;

  async function look(key: LockKey, fired?: EpochMs): Promise<boolean> {
    const { state } = await apply(locks, key, { kind: 'sweep' });
    const deadlineAt = await sweepPages(locks, key, state);
    const instants = [lookAgainAt(state, await factsAbout(locks, key, state)), deadlineAt];
    const nextAt = Math.min(...instants.map((instant) => instant ?? Number.POSITIVE_INFINITY));
    if (Number.isFinite(nextAt)) await timers.arm(key, epochMs(nextAt), fired);
    return state.queue.length > 0 || hasMore(state);
  }

  async function lookListed(key: LockKey): Promise<void> {
    // A release does not touch the index, so it stays one cheap write. A lock without waiters is removed from the index here.
    if (!(await look(key))) await awaited.forget(key);
  }

  return {
    look: async (key, fired) => {
      await look(key, fired);
    },
    async sweepAwaited(until) {
      let looked = 0;
      let failed = 0;
      let complete = true;
      const inTime = async function* () {
        for await (const key of awaited.list()) {
          complete = locks.clock.now() < until;
          if (!complete) return;
          yield key;
        }
      };
      await forEachAtMost(inTime(), looksAtOnceMax, async (key) => {
        looked += 1;
        await lookListed(key).catch((error: unknown) => {
          failed += 1;
          log.warn('An awaited lock could not be swept.', { namespace: key.namespace, error: errorText(error) });
        });
      });
      return { looked, failed, complete };
    },
  };
}
