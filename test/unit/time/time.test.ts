import { afterEach, describe, expect, it, vi } from 'vitest';
import { VirtualTime } from '../../../src/testing/virtual-time.ts';
import { after, epochMs, systemClock, toIso, toTtlSeconds } from '../../../src/time/clock.ts';
import { pauseFor, systemTimers } from '../../../src/time/timers.ts';

describe('an instant', () => {
  const noon = epochMs(Date.UTC(2027, 0, 15, 12));
  const later = (ms: number) => after(noon, ms);

  it('is moved by a duration, and written as ISO 8601 in UTC', () => {
    expect(later(1_500)).toBe(noon + 1_500);
    expect(toIso(later(1_500))).toBe('2027-01-15T12:00:01.500Z');
  });

  it('is rounded up to the seconds of a TTL, so that no item is deleted early', () => {
    expect(toTtlSeconds(noon)).toBe(noon / 1_000);
    expect(toTtlSeconds(later(1))).toBe(noon / 1_000 + 1);
  });
});

describe('the clock and the timers of the system', () => {
  afterEach(() => {
    vi.useRealTimers();
  });

  it('are those of the process', () => {
    vi.useFakeTimers({ now: 1_800_000_000_000 });
    const ran: string[] = [];
    systemTimers.after(100, () => ran.push('first'));
    const cancel = systemTimers.after(200, () => ran.push('cancelled'));
    cancel();
    vi.advanceTimersByTime(99);
    expect(ran).toEqual([]);
    vi.advanceTimersByTime(1_000);
    expect(ran).toEqual(['first']);
    expect(systemClock.now()).toBe(1_800_000_001_099);
  });

  it('run at once what is overdue, and nothing early, however long the delay', () => {
    vi.useFakeTimers();
    const delays: (number | undefined)[] = [];
    const { setTimeout } = globalThis;
    vi.spyOn(globalThis, 'setTimeout').mockImplementation(((run: () => void, ms?: number) => {
      delays.push(ms);
      return setTimeout(run, ms);
    }) as typeof setTimeout);
    for (const ms of [-5, 0, 7, 2 ** 31 - 1, 2 ** 31, Number.POSITIVE_INFINITY]) systemTimers.after(ms, () => {});
    vi.restoreAllMocks();
    // With a longer delay, Node would run it at once.
    expect(delays).toEqual([0, 0, 7, 2 ** 31 - 1, 2 ** 31 - 1, 2 ** 31 - 1]);
  });
});

describe('pauseFor', () => {
  it('ends after its time', async () => {
    const time = new VirtualTime();
    let isOver = false;
    const pause = pauseFor(time, 50).then(() => {
      isOver = true;
    });
    await time.advance(49);
    expect(isOver).toBe(false);
    await time.advance(1);
    await pause;
    expect(isOver).toBe(true);
  });
});
