/** The clocks, timers and random numbers of the process, and what the SDK makes of them. */
import { getEventListeners } from 'node:events';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { asyncDispose, elapsedMs, markNow, pause, type Runtime, systemRuntime } from '../../../src/client/runtime.ts';
import { VirtualProcess, VirtualTime } from '../../../src/testing/virtual-time.ts';

describe('the runtime of a process', () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    // In this order: a mock restores the timer that it found, which is a fake one.
    vi.restoreAllMocks();
    vi.useRealTimers();
  });

  it('has both clocks', async () => {
    const [monotonic, wall] = [systemRuntime.monotonicMs(), systemRuntime.wallMs()];
    await vi.advanceTimersByTimeAsync(1_000);
    expect([systemRuntime.monotonicMs() - monotonic, systemRuntime.wallMs() - wall]).toEqual([1_000, 1_000]);
    expect(wall).toBe(Date.now() - 1_000);
  });

  it('runs a timer once after its time, and not if it was cancelled', async () => {
    const run = vi.fn();
    systemRuntime.after(1_000, run);
    const cancel = systemRuntime.after(500, run);
    cancel();
    await vi.advanceTimersByTimeAsync(999);
    expect(run).not.toHaveBeenCalled();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(run).toHaveBeenCalledTimes(1);
  });

  it.each([
    [-5, 0],
    [2 ** 31 - 1, 2 ** 31 - 1],
    [2 ** 40, 2 ** 31 - 1],
  ])('sets no timer that Node would not keep: %i ms become %i', (ms, set) => {
    const setTimer = vi.spyOn(globalThis, 'setTimeout');
    systemRuntime.after(ms, () => {})();
    expect(setTimer).toHaveBeenCalledWith(expect.any(Function), set);
  });

  it.each([
    [undefined, true],
    [false, true],
    [true, false],
  ])('keeps the process alive with a timer, but not in the background (%s)', (background, isKept) => {
    vi.useRealTimers();
    const setTimer = vi.spyOn(globalThis, 'setTimeout');
    const cancel = systemRuntime.after(60_000, () => {}, background);
    const [timer] = setTimer.mock.results.map(({ value }) => value as NodeJS.Timeout);
    expect(timer?.hasRef()).toBe(isKept);
    cancel();
  });

  it('sets timers where they are numbers, as in a browser, and where they can not be told anything', () => {
    for (const timer of [7, {}]) {
      vi.spyOn(globalThis, 'setTimeout').mockReturnValue(timer as unknown as NodeJS.Timeout);
      const clear = vi.spyOn(globalThis, 'clearTimeout').mockReturnValue(undefined);
      systemRuntime.after(1, () => {}, true)();
      expect(clear).toHaveBeenCalledWith(timer);
      vi.restoreAllMocks();
    }
  });

  it('makes ids of 144 random bits, in the characters that a leaseId may have', () => {
    const bytes = (value: number) =>
      vi.spyOn(crypto, 'getRandomValues').mockImplementationOnce((array) => {
        (array as unknown as Uint8Array).fill(value);
        return array;
      });
    bytes(0xff);
    expect(systemRuntime.newId()).toBe('_'.repeat(24));
    bytes(0xfb);
    expect(systemRuntime.newId()).toBe('-_v7'.repeat(6));
    expect(systemRuntime.newId()).toMatch(/^[\w-]{24}$/);
    expect(systemRuntime.newId()).not.toBe(systemRuntime.newId());
  });

  it('disposes by the symbol of the language', () => {
    expect(asyncDispose).toBe(Symbol.asyncDispose);
  });
});

describe('the time since a mark', () => {
  it.each([
    ['the monotonic clock stopped', 0, 500, 500],
    ['the wall clock was set back', 500, -9_000, 500],
    ['both went back', -1, -1, 0],
  ])('is the longer time of both clocks: %s', (_, monotonicMs, wallMs, expected) => {
    const at = { monotonicMs: 1_000, wallMs: 5_000 };
    const runtime = { ...systemRuntime, monotonicMs: () => at.monotonicMs, wallMs: () => at.wallMs };
    const mark = markNow(runtime);
    expect(mark).toEqual({ monotonicMs: 1_000, wallMs: 5_000 });
    at.monotonicMs += monotonicMs;
    at.wallMs += wallMs;
    expect(elapsedMs(runtime, mark)).toBe(expected);
  });
});

describe('a pause', () => {
  const world = () => {
    const time = new VirtualTime();
    return { time, runtime: new VirtualProcess(time, 'client', 1) };
  };

  it('ends after its time, and leaves no listener on the signal', async () => {
    const { time, runtime } = world();
    const { signal } = new AbortController();
    const done = vi.fn();
    void pause(runtime, 1_000, signal).then(done);
    expect(getEventListeners(signal, 'abort')).toHaveLength(1);
    await time.advance(999);
    expect(done).not.toHaveBeenCalled();
    await time.advance(1);
    expect(done).toHaveBeenCalled();
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  });

  it('ends with the reason of the signal, and its timer is cancelled', async () => {
    const { time, runtime } = world();
    const giveUp = new AbortController();
    let reason: unknown;
    pause(runtime, 1_000, giveUp.signal).catch((error: unknown) => {
      reason = error;
    });
    giveUp.abort('no patience');
    await time.settle();
    expect([reason, time.nextAt]).toEqual(['no patience', undefined]);
  });

  it('does not begin if the signal has fired', async () => {
    const { time, runtime } = world();
    let reason: unknown;
    pause(runtime, 1_000, AbortSignal.abort('too late')).catch((error: unknown) => {
      reason = error;
    });
    await time.settle();
    expect([reason, time.nextAt]).toEqual(['too late', undefined]);
  });

  it('needs no signal', async () => {
    const { time, runtime } = world();
    let outcome = 'none';
    pause(runtime, 1_000).then(
      () => {
        outcome = 'over';
      },
      () => {
        outcome = 'failed';
      },
    );
    await time.advance(999);
    expect(outcome).toBe('none');
    await time.advance(1);
    expect(outcome).toBe('over');
  });

  it('keeps the process alive, unless it is in the background', () => {
    const set: unknown[] = [];
    const runtime: Runtime = {
      ...systemRuntime,
      after: (_ms, _run, background) => {
        set.push(background);
        return () => {};
      },
    };
    void pause(runtime, 1);
    void pause(runtime, 1, undefined, true);
    expect(set).toEqual([false, true]);
  });
});
