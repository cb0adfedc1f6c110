/** Full jitter: a random wait up to a bound that doubles with each try, so that contenders spread instead of meeting again. */
export const jitteredMs = (attempt: number, baseMs: number, maxMs: number, random: () => number): number =>
  random() * Math.min(maxMs, baseMs * 2 ** attempt);
