import { describe, expect, it } from 'vitest';
import { formatMs, parseDurationMs, readDurationMs } from '../../../src/cli/duration.ts';

describe('parseDurationMs', () => {
  it.each([
    ['30s', 30_000],
    ['5m', 300_000],
    ['1500ms', 1_500],
    ['1500', 1_500],
    ['0', 0],
    ['1.5s', 1_500],
    ['1h30m', 5_400_000],
    ['2d', 172_800_000],
  ])('reads %s', (text, ms) => {
    expect(parseDurationMs(text)).toBe(ms);
  });

  it.each(['', 's', '5 s', '-5s', '5sec', 'soon', '1e3', '5m!', '0x10', '5s5'])('refuses %j', (text) => {
    expect(parseDurationMs(text)).toBeUndefined();
  });
});

describe('readDurationMs', () => {
  it('takes the shortest and the longest time that are allowed', () => {
    expect(['1s', '15m'].map((text) => readDurationMs('--wait', text, 1_000, 900_000))).toEqual([1_000, 900_000]);
  });

  it('names the flag, what is allowed and what came', () => {
    expect(() => readDurationMs('--wait', '20m', 0, 900_000)).toThrow("--wait expects from 0ms to 15m, but got '20m'.");
    expect(() => readDurationMs('--wait', 'soon', 0, 900_000)).toThrow(
      "such as 30s, 5m, 1h30m or 1500ms, but got 'soon'",
    );
  });
});

describe('formatMs', () => {
  it.each([
    [0, '0ms'],
    [999, '999ms'],
    [1_000, '1s'],
    [2_590, '2.5s'],
    [59_999, '59s'],
    [60_000, '1m'],
    [90_500, '1m30s'],
    [3_600_000, '1h'],
    [3_605_000, '1h'],
    [86_400_000, '1d'],
    [90_061_000, '1d1h'],
  ])('shows %d ms as %s', (ms, text) => {
    expect(formatMs(ms)).toBe(text);
  });
});
