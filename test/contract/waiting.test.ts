import { describe, expect, it } from 'vitest';
import { countWaiting } from '../bench/waiting.ts';

describe('a hand-off with one more waiter', () => {
  it.each([10, 50, 200, 1_000])('costs at most 4 write units and 2.5 requests with %i waiting', async (waiting) => {
    const { handOff, rePoll, look, itemBytes, pageBytes } = await countWaiting({ waiting, processes: 1 });
    expect(handOff.writeUnits).toBeLessThanOrEqual(4);
    expect(handOff.requests).toBeLessThanOrEqual(2.5);
    expect(handOff.readUnits).toBeLessThanOrEqual(0.5);
    expect(itemBytes).toBeLessThanOrEqual(2_048);
    expect(pageBytes).toBeLessThanOrEqual(1_024);
    // One small write, and no refused one before it.
    expect(rePoll).toEqual({ requests: 1, readUnits: 0, writeUnits: waiting > 10 ? 1 : 2 });
    expect(look).toEqual({ requests: 1, readUnits: 1, writeUnits: 0 });
  });

  it.each([10, 200])('costs a read more if twenty processes share the requests, with %i waiting', async (waiting) => {
    const { handOff } = await countWaiting({ waiting, processes: 20 });
    expect(handOff.writeUnits).toBeLessThanOrEqual(4);
    expect(handOff.readUnits).toBeLessThanOrEqual(1.25);
    expect(handOff.requests).toBeLessThanOrEqual(3.75);
  });
});
