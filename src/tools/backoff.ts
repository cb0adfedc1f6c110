/** After 2^30 every maximum is long reached. Without this limit, years of failures would overflow. */
const doublingsMax = 30;

const boundMs = (attempt: number, baseMs: number, maxMs: number): number =>
  Math.min(maxMs, baseMs * 2 ** Math.min(attempt, doublingsMax));

/**
 * A random wait up to a maximum that doubles with each attempt, counted from 0. All of it is random, so that callers
 * that collided do not meet again.
 */
export const backoffMs = (attempt: number, baseMs: number, maxMs: number, random: () => number): number =>
  random() * boundMs(attempt, baseMs, maxMs);

/** Like `backoffMs`, but the wait is at least half of that maximum: for retries that must never be immediate. */
export const steadyBackoffMs = (attempt: number, baseMs: number, maxMs: number, random: () => number): number =>
  (boundMs(attempt, baseMs, maxMs) * (1 + random())) / 2;
