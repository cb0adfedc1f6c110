/** How numbers and times are said to people. */

const second = 1_000;
const minute = 60 * second;
const hour = 60 * minute;
const day = 24 * hour;

/** A span in at most two units, short enough for a table: `850 ms`, `3.2 s`, `4 min 10 s`, `2 h 5 min`. */
export function spanOf(ms: number): string {
  const rounded = Math.max(0, Math.round(ms));
  if (rounded < second) return `${rounded} ms`;
  if (rounded < 10 * second) return `${(Math.floor(rounded / 100) / 10).toFixed(1)} s`;
  if (rounded < minute) return `${Math.floor(rounded / second)} s`;
  if (rounded < hour) return inTwo(rounded, minute, 'min', second, 's');
  if (rounded < day) return inTwo(rounded, hour, 'h', minute, 'min');
  return inTwo(rounded, day, 'd', hour, 'h');
}

function inTwo(ms: number, large: number, largeName: string, small: number, smallName: string): string {
  const rest = Math.floor((ms % large) / small);
  return `${Math.floor(ms / large)} ${largeName}${rest === 0 ? '' : ` ${rest} ${smallName}`}`;
}

/** The same without fractions, for what changes every second. */
export const wholeSpanOf = (ms: number): string => {
  const seconds = Math.max(0, Math.ceil(ms / second)) * second;
  return seconds === 0 ? '0 s' : seconds < 10 * second ? `${seconds / second} s` : spanOf(seconds);
};

const twoDigits = (value: number): string => String(value).padStart(2, '0');

/** The time of day where the reader is. */
export function clockOf(at: number): string {
  const time = new Date(at);
  return [time.getHours(), time.getMinutes(), time.getSeconds()].map(twoDigits).join(':');
}

/** The day as well, where it is not today. */
export function momentOf(at: number, now: number): string {
  const time = new Date(at);
  const sameDay = time.toDateString() === new Date(now).toDateString();
  const date = `${time.getFullYear()}-${twoDigits(time.getMonth() + 1)}-${twoDigits(time.getDate())}`;
  return sameDay ? clockOf(at) : `${date} ${clockOf(at)}`;
}

/** `1,024 locks`, `1 lock`. */
export const countOf = (count: number, one: string, many = `${one}s`): string =>
  `${grouped(count)} ${count === 1 ? one : many}`;

export const grouped = (count: number): string => String(count).replace(/\B(?=(\d{3})+$)/g, ',');

/** How long ago something was, to the second, so that it does not flicker. */
export const agoOf = (ms: number): string =>
  ms < 1_000 ? 'just now' : `${wholeSpanOf(Math.floor(ms / 1_000) * 1_000)} ago`;
