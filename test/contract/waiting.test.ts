import { describe, expect, it } from 'vitest';
import { measureDirect } from '../bench/direct.ts';
import { countWaiting } from '../bench/waiting.ts';

describe('a hand-off with one more waiter', () => {
  it.each([10, 50, 200, 1_000])('costs at most 2.5 write units and 2.5 requests with %i waiting', async (waiting) => {
    const { handOff, rePoll, look, itemBytes, pageBytes } = await countWaiting({ waiting, processes: 1 });
    expect(handOff.writeUnits).toBeLessThanOrEqual(2.5);
    expect(handOff.requests).toBeLessThanOrEqual(2.5);
    expect(handOff.readUnits).toBeLessThanOrEqual(0.5);
    expect(itemBytes).toBeLessThanOrEqual(1_024);
    expect(pageBytes).toBeLessThanOrEqual(1_024);
    // One small write, and no refused one before it.
    expect(rePoll).toEqual({ requests: 1, readUnits: 0, writeUnits: 1 });
    expect(look).toEqual({ requests: 1, readUnits: 1, writeUnits: 0 });
  });

  it.each([1, 2])(
    'costs two writes with %i waiting: the lock is known to be held, so no try is refused',
    async (waiting) => {
      const { handOff } = await countWaiting({ waiting, processes: 1 });
      expect(handOff).toEqual({ requests: 2, writeUnits: 2, readUnits: 0 });
    },
  );

  it('costs the same in twenty processes while nobody waits in a page', async () => {
    const { handOff } = await countWaiting({ waiting: 10, processes: 20 });
    expect(handOff).toEqual({ requests: 2, writeUnits: 2, readUnits: 0 });
  });

  it.each([50, 200])('costs a read more if twenty processes share the requests, with %i waiting', async (waiting) => {
    const { handOff } = await countWaiting({ waiting, processes: 20 });
    expect(handOff.writeUnits).toBeLessThanOrEqual(2.5);
    expect(handOff.readUnits).toBeLessThanOrEqual(1.25);
    expect(handOff.requests).toBeLessThanOrEqual(3.75);
  });
});

describe('a hand-off in direct mode', () => {
  it.each([
    [2, 3],
    [10, 11],
    [50, 20],
  ])('takes the time of five writes (median) with %i waiting in %i processes', async (waiting, processes) => {
    const { p50, readUnitsPerSecond } = await measureDirect({ waiting, processes });
    expect(p50).toBeLessThanOrEqual(5);
    expect(readUnitsPerSecond.quiet).toBeLessThanOrEqual(100);
    expect(readUnitsPerSecond.busy).toBeLessThanOrEqual(500);
  });

  it('takes one write and about a look if all are in one process', async () => {
    const { p50, used } = await measureDirect({ waiting: 10, processes: 1 });
    expect(p50).toBeLessThanOrEqual(1.5);
    expect(used.requests).toBeLessThanOrEqual(5);
  });
});
