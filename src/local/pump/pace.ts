import type { DurationMs } from '../../time/clock.ts';
import { steadyBackoffMs } from '../../tools/backoff.ts';

export interface Pace {
  /** The pause between two reads while changes come in. */
  readonly busyMs: DurationMs;
  /** The longest pause between two reads while no changes come in. */
  readonly idleMaxMs: DurationMs;
}

/**
 * An empty GetRecords costs about 1.5 ms of CPU in this process and 0.4 ms (dynoxide) or 1.5 ms (DynamoDB Local) in the
 * engine. Each page also costs the writes of its history. At 20 ms, a waiter here learns soon enough of another
 * process's write. At 50 ms, an idle pump takes 3–4 % of a core here and 1–5 % in the engine.
 */
export const localPace: Pace = { busyMs: 20, idleMaxMs: 50 };

/**
 * Four times a second while nobody here waits, the same as Lambda. A process wakes its own waiters without the stream.
 * Changes that come together are delivered and stored together, which leaves the engine free for callers.
 */
const unawaitedMs: DurationMs = 250;

/** The pace of a service in which callers may wait for another process's write. */
export const awaitingPace = (isAwaited: () => boolean): Pace => ({
  get busyMs() {
    return isAwaited() ? localPace.busyMs : unawaitedMs;
  },
  idleMaxMs: localPace.idleMaxMs,
});

/** The pause grows by a quarter each time. It goes from busy to idle in about 12 empty reads, a quarter of a second. */
const idleGrowth = 1.25;

/**
 * A read of dynoxide takes longer if its stream holds more: three times as long with 20,000 records as with none. So
 * the pause also depends on how long a read takes. At most half of the time is spent reading when busy, and a tenth
 * when idle.
 */
const idleLooks = 9;

export interface Look {
  readonly received: number;
  readonly tookMs: DurationMs;
}

export function nextPollMs(pace: Pace, previousMs: DurationMs, look: Look, batchSize: number): DurationMs {
  // After a full page, more records are already there.
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

/** With 5 retries, a record blocks its shard for about a second before it is given up. Other locks wait behind it. */
export const handlerBackoff: Backoff = { baseMs: 50, maxMs: 2_000 };

/**
 * An engine takes 0.05 to 3 s to start. The first retry is soon enough for a fast one, and the maximum finds a slow one
 * without much delay.
 */
export const engineBackoff: Backoff = { baseMs: 50, maxMs: 1_000 };

/**
 * How long to wait after this many failures in a row. No retry is immediate. Retries of callers that failed together
 * are spread.
 */
export const retryInMs = ({ baseMs, maxMs }: Backoff, failures: number, random: () => number): DurationMs =>
  steadyBackoffMs(Math.max(0, failures - 1), baseMs, maxMs, random);
