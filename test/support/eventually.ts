import { setTimeout as pause } from 'node:timers/promises';

/** Only for a busy machine. A test that is about time compares with what would happen without the feature. */
const patienceMs = 120_000;
/** The first looks are close together, because most waits are short. Later ones must not load the machine. */
const [firstPauseMs, pauseMsMax] = [10, 200];

/** Repeats a check until it passes. */
export async function eventually<T>(check: () => T | Promise<T>): Promise<T> {
  const until = performance.now() + patienceMs;
  for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(1.5 * pauseMs, pauseMsMax)) {
    try {
      return await check();
    } catch (error) {
      if (performance.now() > until) throw error;
    }
    await pause(pauseMs);
  }
}
