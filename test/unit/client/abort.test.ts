import { getEventListeners } from 'node:events';
import { describe, expect, it } from 'vitest';
import { fired, joinSignals, unlessAborted } from '../../../src/client/abort.ts';

/** The reason of a rejection that has happened by now. Undefined if there is none yet. */
async function refusalOf(work: Promise<unknown>): Promise<unknown> {
  let reason: unknown;
  work.catch((error: unknown) => {
    reason = error;
  });
  await new Promise((resolve) => setImmediate(resolve));
  return reason;
}

const listeners = (signal: AbortSignal) => getEventListeners(signal, 'abort').length;

describe('joined signals', () => {
  it('fire with the first of them, with its reason', () => {
    const [one, other] = [new AbortController(), new AbortController()];
    const { signal } = joinSignals(one.signal, undefined, other.signal);
    expect(signal.aborted).toBe(false);
    other.abort('the other');
    one.abort('the one');
    expect(signal.reason).toBe('the other');
  });

  it('have fired if one of them had fired before', () => {
    const { signal } = joinSignals(new AbortController().signal, AbortSignal.abort('before'));
    expect([signal.aborted, signal.reason]).toEqual([true, 'before']);
  });

  it('fire by hand too', () => {
    const { signal, abort } = joinSignals();
    abort('by hand');
    expect(signal.reason).toBe('by hand');
  });

  it('leave no listener behind when they are let go', () => {
    const one = new AbortController();
    const { signal, letGo } = joinSignals(one.signal);
    expect(listeners(one.signal)).toBe(1);
    letGo();
    expect(listeners(one.signal)).toBe(0);
    one.abort();
    expect(signal.aborted).toBe(false);
  });
});

describe('work unless aborted', () => {
  it('gives its result or its error, and leaves no listener behind', async () => {
    const { signal } = new AbortController();
    expect(await unlessAborted(Promise.resolve(7), signal)).toBe(7);
    await expect(unlessAborted(Promise.reject(new Error('broken')), signal)).rejects.toThrow('broken');
    expect(listeners(signal)).toBe(0);
  });

  it('ends with the reason of the signal, before or while it runs', async () => {
    const never = new Promise<never>(() => {});
    expect(await refusalOf(unlessAborted(never, AbortSignal.abort('before')))).toBe('before');
    const giveUp = new AbortController();
    const working = unlessAborted(never, giveUp.signal);
    expect(await refusalOf(working)).toBeUndefined();
    giveUp.abort('meanwhile');
    expect(await refusalOf(working)).toBe('meanwhile');
  });
});

describe('fired', () => {
  it('resolves when the signal fires, or at once if it has fired', async () => {
    const hasFired = async (signal: AbortSignal, act = () => {}) => {
      let isFired = false;
      void fired(signal).then(() => {
        isFired = true;
      });
      act();
      await new Promise((resolve) => setImmediate(resolve));
      return isFired;
    };
    const later = new AbortController();
    expect(await hasFired(AbortSignal.abort())).toBe(true);
    expect(await hasFired(later.signal)).toBe(false);
    expect(await hasFired(later.signal, () => later.abort())).toBe(true);
  });
});
