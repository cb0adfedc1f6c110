import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Twin } from '../../../src/testing/index.ts';

const warn = vi.spyOn(console, 'warn').mockImplementation(() => {});

beforeEach(() => {
  // Only the timer of the warning. The twin has its own time.
  vi.useFakeTimers({ toFake: ['setTimeout'] });
  warn.mockClear();
});
afterEach(() => {
  vi.useRealTimers();
});

/** One client holds the lock, and the other one waits for it. */
async function heldTwin() {
  const twin = new Twin();
  const [one, other] = [twin.client(), twin.client()];
  const lock = await one.acquire('wallet:42', { leaseMs: 60_000 });
  const waiting = other.acquire('wallet:42', { waitMs: 10_000 }).catch((error: Error) => error.name);
  return { twin, lock, other, waiting };
}

describe('a test that forgets to let time pass', () => {
  it('is told what waits, and what to call', async () => {
    const { twin, waiting } = await heldTwin();
    await twin.settle();
    await vi.advanceTimersByTimeAsync(4_000);
    expect(warn.mock.calls).toEqual([
      [
        "The twin's time stands still, and something waits for it to pass: acquireLock wallet:42 of client 2. " +
          'Call `await twin.advance(ms)`, or wrap the promise: `await twin.until(promise)`.',
      ],
    ]);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(warn, 'once is enough').toHaveBeenCalledTimes(1);
    expect(await twin.until(waiting)).toBe('WaitTimeoutError');
  });

  it('is told of a client that pauses between two tries', async () => {
    const twin = new Twin();
    const locks = twin.client();
    twin.failUnavailable(locks);
    const health = locks.health();
    await twin.settle();
    await vi.advanceTimersByTimeAsync(4_000);
    expect(warn.mock.lastCall?.[0]).toContain('client 1, which pauses before its next request');
    await twin.until(health);
  });

  it('is left alone if it does let time pass, or if nothing waits', async () => {
    const { twin, lock, waiting } = await heldTwin();
    await twin.settle();
    await vi.advanceTimersByTimeAsync(1_500);
    await twin.advance(1_000);
    await vi.advanceTimersByTimeAsync(1_500);
    await lock.release();
    await twin.until(waiting);
    await vi.advanceTimersByTimeAsync(10_000);
    expect(warn).not.toHaveBeenCalled();
  });
});
