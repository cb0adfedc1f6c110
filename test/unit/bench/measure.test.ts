import { describe, expect, it, vi } from 'vitest';
import { rateOf, summarize, takeTurns } from '../../bench/measure.ts';

describe('summarize', () => {
  it('finds the median and the 99th percentile in any order of times', () => {
    const times = Array.from({ length: 100 }, (_, index) => 100 - index);
    expect(summarize(times)).toEqual({ p50: 51, p99: 100, count: 100 });
  });

  it('has no result without times', () => {
    expect(summarize([])).toEqual({ p50: Number.NaN, p99: Number.NaN, count: 0 });
  });
});

describe('takeTurns', () => {
  it('gives each contestant one turn in each round', async () => {
    const order: string[] = [];
    const turn = (name: string) => async () => order.push(name);
    const timings = await takeTurns({ roundsMax: 2, budgetMs: 60_000 }, { one: turn('one'), other: turn('other') });
    expect(order).toEqual(['one', 'other', 'one', 'other']);
    expect(timings.one.count).toBe(2);
  });

  it('begins no round when the time is used up', async () => {
    const timings = await takeTurns({ roundsMax: 5, budgetMs: 0 }, { one: async () => {} });
    expect(timings.one.count).toBe(0);
  });
});

describe('rateOf', () => {
  it('counts what all clients did until the time was over', async () => {
    vi.useFakeTimers({ toFake: ['performance'] });
    try {
      const seen: number[] = [];
      const work = async (client: number) => {
        seen.push(client);
        vi.advanceTimersByTime(4);
      };
      // Each turn takes four milliseconds on the one clock. After the fifth turn, the twenty milliseconds are over.
      expect(await rateOf(3, 20, work)).toEqual({ count: 5, perMs: 5 / 20 });
      expect(seen).toEqual([0, 1, 2, 0, 1]);
    } finally {
      vi.useRealTimers();
    }
  });
});
