import { UsageError } from './failure.ts';

const unitMs = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

const partPattern = /(\d+(?:\.\d+)?)(ms|s|m|h|d)/y;

/** Reads `30s`, `1500ms`, `1h30m`, or a plain number of milliseconds; undefined if it is none of them. */
export function parseDurationMs(text: string): number | undefined {
  if (/^\d{1,12}$/.test(text)) return Number(text);
  let totalMs = 0;
  partPattern.lastIndex = 0;
  while (partPattern.lastIndex < text.length) {
    const [, amount, unit] = partPattern.exec(text) ?? [];
    if (amount === undefined) return undefined;
    totalMs += Number(amount) * unitMs[unit as keyof typeof unitMs];
  }
  return text === '' ? undefined : Math.round(totalMs);
}

/** Reads the duration of a flag, and checks it against the service's limits. */
export function readDurationMs(flag: string, text: string, minMs: number, maxMs: number): number {
  const ms = parseDurationMs(text);
  if (ms === undefined) {
    throw new UsageError(`${flag} expects a duration such as 30s, 5m, 1h30m or 1500ms, but got '${text}'.`);
  }
  if (ms < minMs || ms > maxMs) {
    throw new UsageError(`${flag} expects from ${formatMs(minMs)} to ${formatMs(maxMs)}, but got '${text}'.`);
  }
  return ms;
}

/** A duration for people: the two largest units, since nobody reads the seconds of a day. */
export function formatMs(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)}ms`;
  if (ms < 10_000) return `${(Math.floor(ms / 100) / 10).toString()}s`;
  const seconds = Math.floor(ms / 1_000);
  const parts = [
    [Math.floor(seconds / 86_400), 'd'],
    [Math.floor(seconds / 3_600) % 24, 'h'],
    [Math.floor(seconds / 60) % 60, 'm'],
    [seconds % 60, 's'],
  ] as const;
  const first = parts.findIndex(([amount]) => amount > 0);
  return parts
    .slice(first, first + 2)
    .filter(([amount]) => amount > 0)
    .map(([amount, unit]) => `${amount}${unit}`)
    .join('');
}
