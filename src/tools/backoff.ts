/** Beyond 2^30 every bound has long been reached; without a limit, years of failures would overflow. */
const doublingsMax = 30;

const boundMs = (attempt: number, baseMs: number, maxMs: number): number =>
  Math.min(maxMs, baseMs * 2 ** Math.min(attempt, doublingsMax));

/**
 * A random wait up to a bound that doubles with each attempt, counted from 0. All of it is random, so that callers who
 * collided spread out instead of meeting again.
 */
export const backoffMs = (attempt: number, baseMs: number, maxMs: number, random: () => number): number =>
  random() * boundMs(attempt, baseMs, maxMs);

/** As `backoffMs`, but half of the bound is certain: for retries that must never be immediate. */
export const steadyBackoffMs = (attempt: number, baseMs: number, maxMs: number, random: () => number): number =>
  (boundMs(attempt, baseMs, maxMs) * (1 + random())) / 2;
