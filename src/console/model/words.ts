/** How numbers and times are written for people. */

const second = 1_000;
const minute = 60 * second;
const hour = 60 * minute;
const day = 24 * hour;

const units = [
  [day, 'd', hour, 'h'],
  [hour, 'h', minute, 'min'],
  [minute, 'min', second, 's'],
] as const;

/** A span in at most two units, short enough for a table: `850 ms`, `3.2 s`, `4 min 10 s`, `2 h 5 min`. */
export function spanOf(ms: number): string {
  const rounded = Math.max(0, Math.round(ms));
  for (const [large, largeName, small, smallName] of units) {
    const rest = Math.floor((rounded % large) / small);
    if (rounded >= large) return `${Math.floor(rounded / large)} ${largeName}${rest ? ` ${rest} ${smallName}` : ''}`;
  }
  if (rounded < second) return `${rounded} ms`;
  return rounded < 10 * second
    ? `${(Math.floor(rounded / 100) / 10).toFixed(1)} s`
    : `${Math.floor(rounded / second)} s`;
}

/** The same without fractions, for times that change every second. */
export const wholeSpanOf = (ms: number): string => {
  const seconds = Math.max(0, Math.ceil(ms / second)) * second;
  return seconds < 10 * second ? `${seconds / second} s` : spanOf(seconds);
};

/** Swedish dates look like ISO 8601: `2026-11-17 09:05:00`. They are in the reader's time zone. */
const moments = new Intl.DateTimeFormat('sv', { dateStyle: 'short', timeStyle: 'medium' });

/** The time of day in the reader's time zone. */
export const clockOf = (at: number): string => moments.format(at).slice(11);

/** With the date, if it is not today. */
export function momentOf(at: number, now: number): string {
  const [moment, today] = [at, now].map((instant) => moments.format(instant));
  return moment?.slice(0, 10) === today?.slice(0, 10) ? clockOf(at) : (moment ?? '');
}

/** `1,024 locks`, `1 lock`. */
export const countOf = (count: number, one: string): string => `${grouped(count)} ${one}${count === 1 ? '' : 's'}`;

export const grouped = (count: number): string => count.toLocaleString('en');

export const capital = (word: string): string => word.charAt(0).toUpperCase() + word.slice(1);

/** How long ago something was, in whole seconds, so that it does not flicker. */
export const agoOf = (ms: number): string =>
  ms < 1_000 ? 'just now' : `${wholeSpanOf(Math.floor(ms / 1_000) * 1_000)} ago`;
