import type { DurationMs } from '../../time/clock.ts';
import { steadyBackoffMs } from '../../tools/backoff.ts';

export interface Pace {
  /** Between two looks while changes come in. */
  readonly busyMs: DurationMs;
  /** The longest pause between two looks when nothing happens. */
  readonly idleMaxMs: DurationMs;
}

/**
 * An empty GetRecords costs about 1.5 ms of CPU in this process and 0.4 ms (dynoxide) or 1.5 ms (DynamoDB Local) in the
 * engine, and each page that is handed on costs writes of its history. At 20 ms a waiter here learns of what another process
 * wrote soon enough; at 50 ms an idle pump takes 3–4 % of a core here and 1–5 % there.
 */
export const localPace: Pace = { busyMs: 20, idleMaxMs: 50 };

/**
 * While nobody here waits, as often as Lambda looks at a stream: four times a second. A process wakes its own waiters without the stream, and
 * what came together is told and remembered together, which leaves the engine to those who call.
 */
const unawaitedMs: DurationMs = 250;

/** The pace of a service whose waiters may wait for what another process writes. */
export const awaitingPace = (isAwaited: () => boolean): Pace => ({
  get busyMs() {
    return isAwaited() ? localPace.busyMs : unawaitedMs;
  },
  idleMaxMs: localPace.idleMaxMs,
});

/** By a quarter each time, the pause takes about 12 empty looks, a quarter of a second, to go from busy to idle. */
const idleGrowth = 1.25;

/**
 * A look at dynoxide takes longer the more its stream holds: three times as long at 20,000 records as at none. So the
 * pause also follows what a look takes: at most half of the time is spent looking when busy, and a tenth when idle.
 */
const idleLooks = 9;

export interface Look {
  readonly received: number;
  readonly tookMs: DurationMs;
}

export function nextPollMs(pace: Pace, previousMs: DurationMs, look: Look, batchSize: number): DurationMs {
  // A full page means that more is waiting already.
  if (look.received >= batchSize) return 0;
  const busyMs = Math.max(pace.busyMs, look.tookMs);
  if (look.received > 0) return busyMs;
  const idleMs = Math.max(pace.idleMaxMs, look.tookMs * idleLooks);
  return Math.min(idleMs, Math.max(busyMs, previousMs * idleGrowth));
}

export interface Backoff {
  readonly baseMs: DurationMs;
  readonly maxMs: DurationMs;
}

/** With 5 retries a record holds up its shard for about a second before it is given up: other locks wait behind it. */
export const handlerBackoff: Backoff = { baseMs: 50, maxMs: 2_000 };

/** An engine takes 0.05 to 3 s to start: a first retry soon enough for the one, a bound that finds the other promptly. */
export const engineBackoff: Backoff = { baseMs: 50, maxMs: 1_000 };

/** How long to wait after so many failures in a row. No retry is immediate, and those that failed together spread out. */
export const retryInMs = ({ baseMs, maxMs }: Backoff, failures: number, random: () => number): DurationMs =>
  steadyBackoffMs(Math.max(0, failures - 1), baseMs, maxMs, random);
