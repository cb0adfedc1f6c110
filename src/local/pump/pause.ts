import { setTimeout } from 'node:timers/promises';
import type { DurationMs } from '../../time/clock.ts';

/** Resolves after the time, or as soon as the signal aborts. */
export const pause = async (durationMs: DurationMs, signal: AbortSignal): Promise<void> => {
  if (durationMs > 0) await setTimeout(durationMs, undefined, { signal }).catch(() => {});
};
