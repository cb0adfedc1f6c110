/** An instant, in milliseconds since the Unix epoch, by the clock of the process that read it. */
export type EpochMs = number & { readonly __unit: 'EpochMs' };

/**
 * A span of time in milliseconds. Plain numbers named `…Ms` are durations. Instants are branded, so that the two never
 * mix.
 */
export type DurationMs = number;

export interface Clock {
  now(): EpochMs;
}

export const epochMs = (ms: number): EpochMs => ms as EpochMs;

export const after = (instant: EpochMs, durationMs: DurationMs): EpochMs => (instant + durationMs) as EpochMs;

export const toIso = (instant: EpochMs): string => new Date(instant).toISOString();

/** DynamoDB's TTL attribute has whole seconds. Rounding up never deletes an item early. */
export const toTtlSeconds = (instant: EpochMs): number => Math.ceil(instant / 1000);

export const systemClock: Clock = { now: () => Date.now() as EpochMs };
