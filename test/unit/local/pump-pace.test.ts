import { describe, expect, it } from 'vitest';
import {
  awaitingPace,
  type Backoff,
  engineBackoff,
  handlerBackoff,
  nextPollMs,
  retryInMs,
} from '../../../src/local/pump/pace.ts';

const pace = { busyMs: 5, idleMaxMs: 50 };

describe('nextPollMs', () => {
  it('looks again at once after a full page', () => {
    expect(nextPollMs(pace, 50, { received: 100, tookMs: 2 }, 100)).toBe(0);
  });

  it('is short after any record', () => {
    expect(nextPollMs(pace, 50, { received: 1, tookMs: 2 }, 100)).toBe(5);
  });

  it('gets longer step by step up to its limit if nothing comes', () => {
    const pauses = [0];
    for (let look = 0; look < 15; look += 1) {
      pauses.push(nextPollMs(pace, pauses.at(-1) ?? 0, { received: 0, tookMs: 2 }, 100));
    }
    expect(pauses.slice(1, 4)).toEqual([5, 6.25, 7.8125]);
    expect(pauses.at(-1)).toBe(50);
    expect(pauses.indexOf(50)).toBe(12);
  });

  it('leaves a slow engine half of the time when busy and nine tenths when idle', () => {
    expect(nextPollMs(pace, 50, { received: 1, tookMs: 20 }, 100)).toBe(20);
    expect(nextPollMs(pace, 1_000, { received: 0, tookMs: 20 }, 100)).toBe(180);
  });
});

describe('the pace of a service', () => {
  it('is quick while somebody here waits, and that of Lambda otherwise', () => {
    let isAwaited = true;
    const awaiting = awaitingPace(() => isAwaited);
    expect(awaiting).toEqual({ busyMs: 20, idleMaxMs: 50 });
    isAwaited = false;
    expect(awaiting).toEqual({ busyMs: 250, idleMaxMs: 50 });
  });

  it('gives a handler two seconds at most between two tries, and an engine one', () => {
    const latest = (backoff: Backoff) => [1, 100].map((failures) => retryInMs(backoff, failures, () => 1));
    expect([latest(handlerBackoff), latest(engineBackoff)]).toEqual([
      [50, 2_000],
      [50, 1_000],
    ]);
  });
});

describe('retryInMs', () => {
  const backoff = { baseMs: 50, maxMs: 1_000 };

  it('doubles up to its limit, and half of it is not random', () => {
    const least = [1, 2, 3, 10, 1_000_000].map((failures) => retryInMs(backoff, failures, () => 0));
    expect(least).toEqual([25, 50, 100, 500, 500]);
    const most = [1, 2, 3, 10, 1_000_000].map((failures) => retryInMs(backoff, failures, () => 1));
    expect(most).toEqual([50, 100, 200, 1_000, 1_000]);
  });

  it('never answers zero, even for a failure that was not counted', () => {
    expect(retryInMs(backoff, 0, () => 0)).toBe(25);
  });
});
