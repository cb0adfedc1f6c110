import { describe, expect, it } from 'vitest';
import { ProcessTimers } from '../../../src/local/timers.ts';
import { VirtualTime } from '../../../src/testing/virtual-time.ts';
import { after } from '../../../src/time/clock.ts';

const key = { namespace: 'test', name: 'a' };

function world() {
  const time = new VirtualTime();
  const timers = new ProcessTimers({ clock: time, timers: time });
  const looks: string[] = [];
  timers.onFire(({ name }) => looks.push(`${name} at ${time.now() - time.startAt}`));
  const arm = (ms: number, name = 'a') => timers.arm({ ...key, name }, after(time.now(), ms));
  return { time, timers, looks, arm };
}

describe('the timers of a process', () => {
  it('look at each lock at its time', async () => {
    const { time, looks, arm } = world();
    await Promise.all([arm(300, 'b'), arm(200, 'a')]);
    await time.advance(199);
    expect(looks).toEqual([]);
    await time.advance(101);
    expect(looks).toEqual(['a at 200', 'b at 300']);
  });

  it('look once at a lock that was armed twice, at the earlier time', async () => {
    for (const order of [
      [100, 500],
      [500, 100],
    ]) {
      const { time, timers, looks, arm } = world();
      for (const ms of order) await arm(ms);
      expect(timers.size).toBe(1);
      await time.advance(1_000);
      expect(looks).toEqual(['a at 100']);
    }
  });

  it('can be armed again after they fired, also for a later time', async () => {
    const { time, timers, looks, arm } = world();
    await arm(100);
    await time.advance(100);
    expect(timers.size).toBe(0);
    await arm(100);
    await time.advance(100);
    expect(looks).toEqual(['a at 100', 'a at 200']);
  });

  it('look at nothing after they were stopped, even if they are armed then', async () => {
    const { time, timers, looks, arm } = world();
    await arm(100);
    timers.stop();
    await arm(50, 'b');
    expect(timers.size).toBe(0);
    await time.advance(1_000);
    expect(looks).toEqual([]);
  });
});
