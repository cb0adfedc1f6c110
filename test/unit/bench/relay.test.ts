import { describe, expect, it } from 'vitest';
import type { Contestant, Holding } from '../../bench/contestant.ts';
import { Relay } from '../../bench/workloads/relay.ts';

type Waiter = (holding: Holding) => void;

/** A lock in memory that grants from the front of its queue, or from its back. */
function contestantServing(from: 'front' | 'back'): { contestant: Contestant; queue: Waiter[]; isHeld(): boolean } {
  const queue: Waiter[] = [];
  let held = false;
  const holding = (): Holding => ({
    release: async () => {
      // Not at once, so that timers run between two hand-offs.
      await new Promise((resolve) => {
        setImmediate(resolve);
      });
      const next = from === 'front' ? queue.shift() : queue.pop();
      held = next !== undefined;
      next?.(holding());
    },
  });
  const contestant: Contestant = {
    id: 'memory',
    name: 'Memory',
    store: 'redis',
    ours: false,
    how: '',
    waitsQuietly: true,
    requestsMin: 2,
    take: async () => {
      held = true;
      return holding();
    },
    join: () => {
      const { promise, resolve } = Promise.withResolvers<Holding>();
      queue.push(resolve);
      const leave = async () => {
        const index = queue.indexOf(resolve);
        if (index >= 0) queue.splice(index, 1);
      };
      return { granted: promise, leave };
    },
    queued: async () => queue.length,
    stop: async () => {},
  };
  return { contestant, queue, isHeld: () => held };
}

const bounds = { roundsMax: 20, budgetMs: 60_000 };

describe('Relay', () => {
  it('sees no inversion if the oldest waiter is served', async () => {
    const { contestant, queue } = contestantServing('front');
    const relay = new Relay(contestant);
    expect(await relay.fill(5)).toBe(true);
    expect(queue).toHaveLength(5);
    const { times, inversions } = await relay.pass(bounds);
    expect({ handOffs: times.length, inversions }).toEqual({ handOffs: 20, inversions: 0 });
  });

  it('sees an inversion in every hand-off to the youngest', async () => {
    const { contestant } = contestantServing('back');
    const relay = new Relay(contestant);
    await relay.fill(5);
    expect((await relay.pass(bounds)).inversions).toBe(20);
  });

  it('keeps the number of waiters', async () => {
    const { contestant, queue } = contestantServing('front');
    const relay = new Relay(contestant);
    await relay.fill(3);
    await relay.pass(bounds);
    expect(queue).toHaveLength(3);
  });

  it('runs the step between two hand-offs before each of them', async () => {
    const relay = new Relay(contestantServing('front').contestant);
    await relay.fill(2);
    let writes = 0;
    await relay.pass(bounds, async () => {
      writes += 1;
    });
    expect(writes).toBe(20);
  });

  it('passes the lock on until the time is over, and leaves no waiter', async () => {
    const { contestant, queue, isHeld } = contestantServing('front');
    const relay = new Relay(contestant);
    await relay.fill(4);
    let waitingAtTheEnd = 0;
    const { handOffs, failed } = await relay.run(1, () => {
      waitingAtTheEnd = queue.length;
    });
    expect(handOffs).toBeGreaterThan(0);
    expect(failed).toBe(0);
    expect(waitingAtTheEnd).toBeGreaterThanOrEqual(3);
    expect(queue).toHaveLength(0);
    expect(isHeld()).toBe(false);
  });

  it('counts releases that fail', async () => {
    const { contestant } = contestantServing('front');
    const failing: Contestant = {
      ...contestant,
      join: (name, terms, who) => {
        const { granted, leave } = contestant.join(name, terms, who);
        const broken = granted.then((holding) => ({
          release: async () => {
            await holding.release();
            throw new Error('The answer was lost.');
          },
        }));
        return { granted: broken, leave };
      },
    };
    const relay = new Relay(failing);
    await relay.fill(2);
    const { handOffs, failed } = await relay.run(1);
    expect(failed).toBeGreaterThan(0);
    expect(handOffs).toBeGreaterThan(0);
  });
});
