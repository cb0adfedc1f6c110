import { getEventListeners } from 'node:events';
import { describe, expect, it } from 'vitest';
import { fired, joinSignals, unlessAborted } from '../../../src/client/abort.ts';

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
    await expect(unlessAborted(never, AbortSignal.abort(new Error('before')))).rejects.toThrow('before');
    const giveUp = new AbortController();
    const working = unlessAborted(never, giveUp.signal);
    giveUp.abort(new Error('meanwhile'));
    await expect(working).rejects.toThrow('meanwhile');
  });
});

describe('fired', () => {
  it('resolves when the signal fires, or at once if it has fired', async () => {
    await fired(AbortSignal.abort());
    const later = new AbortController();
    let isFired = false;
    const waiting = fired(later.signal).then(() => {
      isFired = true;
    });
    await Promise.resolve();
    expect(isFired).toBe(false);
    later.abort();
    await waiting;
    expect(isFired).toBe(true);
  });
});
