import { describe, expect, it } from 'vitest';
import { Attempts } from '../../../src/service/attempts.ts';
import { VirtualTime } from '../../../src/testing/virtual-time.ts';
import { watched } from './world.ts';

function budget(random = () => 0.5) {
  const time = new VirtualTime();
  return { time, attempts: new Attempts({ clock: time, timers: time, random }) };
}

describe('the attempts of a command', () => {
  it('end after thirty lost races, with a pause after each three of them', async () => {
    const { time, attempts } = budget();
    const pausedAfter: number[] = [];
    const losses = async () => {
      for (let tries = 1; tries < 1_000; tries++) {
        const isLast = attempts.isLastOfRound;
        if ((await attempts.lost()) !== isLast) throw new Error('It did not say that this was the last of a round.');
        if (isLast) pausedAfter.push(tries);
      }
    };
    const outcome = losses().catch((error: unknown) => error);
    await time.advance(14_000);
    expect(await outcome).toMatchObject({ code: 'conflict' });
    expect(pausedAfter).toEqual([3, 6, 9, 12, 15, 18, 21, 24, 27]);
  });

  it('pause at random, up to a length that doubles with each round', async () => {
    const { time, attempts } = budget(() => 1);
    const lengths: number[] = [];
    const losses = async () => {
      for (let round = 0; round < 9; round++) {
        const from = time.now();
        for (let tries = 0; tries < 3; tries++) await attempts.lost();
        lengths.push(time.now() - from);
      }
    };
    const done = losses();
    await time.advance(14_000);
    await done;
    expect(lengths).toEqual([4, 8, 16, 32, 64, 128, 250, 250, 250]);
  });

  it.each([
    ['steps that were not lost', (attempts: Attempts) => attempts.progress()],
    ['pauses', (attempts: Attempts) => attempts.pause(0)],
  ])('are bounded too if they are only %s', async (_, step) => {
    const { time, attempts } = budget(() => 0);
    let steps = 0;
    const outcome = (async () => {
      for (; steps < 1_000; steps++) await step(attempts);
    })().catch((error: unknown) => error);
    await time.advance(1_000);
    expect(await outcome).toMatchObject({ code: 'conflict' });
    expect(steps).toBe(129);
  });

  it('end after fifteen seconds, and tell the caller to repeat its request', async () => {
    const { time, attempts } = budget();
    await time.advance(14_999);
    await attempts.progress();
    const paused = watched(attempts.pause(100));
    await time.advance(99);
    expect(paused.done).toBe(false);
    await time.advance(1);
    expect(paused.done).toBe(true);
    for (const step of [attempts.progress(), attempts.lost(), attempts.pause(1)])
      await expect(step).rejects.toMatchObject({ code: 'throttled' });
  });
});
