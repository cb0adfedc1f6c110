import { describe, expect, it } from 'vitest';
import { VirtualTime } from '../../../src/testing/virtual-time.ts';
import { Serializer } from '../../../src/tools/serializer.ts';
import { SingleFlight } from '../../../src/tools/single-flight.ts';
import { watched } from '../service/world.ts';

describe('work in turn', () => {
  it('is done one after the other, and is told if it waited too long, also for work before the one before it', async () => {
    const time = new VirtualTime();
    const turns = new Serializer(time, 2_000);
    let end = () => {};
    const slow = turns.run('a', () => new Promise<void>((resolve) => (end = resolve)));
    const isInTurn = async (inTurn: boolean) => inTurn;
    const second = watched(turns.run('a', isInTurn));
    await time.advance(1_999);
    expect(second.done).toBe(false);
    await time.advance(1);
    expect(await second.promise).toBe(false);
    // The first one still works, so the next one is not in turn either.
    const third = watched(turns.run('a', isInTurn));
    await time.advance(1_000);
    expect(third.done).toBe(false);
    end();
    await slow;
    await time.advance(0);
    expect(await third.promise).toBe(true);
  });

  it('does not wait for work with another id', async () => {
    const time = new VirtualTime();
    const turns = new Serializer(time, 2_000);
    void turns.run('join', () => new Promise<void>(() => {}));
    expect(await turns.run('release', async () => 'released')).toBe('released');
  });

  it('goes on after work that failed', async () => {
    const turns = new Serializer(new VirtualTime(), 2_000);
    const failed = turns.run('a', () => Promise.reject(new Error('out of reach')));
    const next = turns.run('a', async (isInTurn) => isInTurn);
    await expect(failed).rejects.toThrow('out of reach');
    expect(await next).toBe(true);
  });
});

describe('work in single flight', () => {
  it('is shared by all who ask while it is under way, and is done again after that', async () => {
    const flights = new SingleFlight<number>();
    let runs = 0;
    const work = async () => {
      runs += 1;
      return runs;
    };
    expect(flights.joined('a')).toBeUndefined();
    const first = flights.run('a', work);
    expect(await Promise.all([first, flights.run('a', work), flights.joined('a')])).toEqual([1, 1, 1]);
    expect(await flights.run('b', work)).toBe(2);
    expect(flights.joined('a')).toBeUndefined();
    expect(await flights.run('a', work)).toBe(3);
  });

  it('that fails fails for all who wait for it, and is tried again', async () => {
    const flights = new SingleFlight<number>();
    const failing = () => Promise.reject(new Error('out of reach'));
    const both = [flights.run('a', failing), flights.run('a', failing)];
    await Promise.all(both.map((one) => expect(one).rejects.toThrow('out of reach')));
    expect(await flights.run('a', async () => 1)).toBe(1);
  });
});
