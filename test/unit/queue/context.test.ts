import { describe, expect, it } from 'vitest';
import { readAndLearn, unlessThrottled } from '../../../src/queue/context.ts';
import { StoreError } from '../../../src/table/store-error.ts';
import { key, longQueue } from './long-queue.ts';

describe('a read', () => {
  it('is remembered', async () => {
    const { time, newProcess, lock } = await longQueue(1);
    const process = newProcess(false);
    const state = await readAndLearn(process, key);
    expect(state).toEqual(await lock());
    expect(process.cache.seen(key)).toEqual({ state, at: time.now() });
  });
});

describe('a request that the table throttles', () => {
  it('counts as not sent, unlike any other failure', async () => {
    expect(await unlessThrottled(Promise.resolve('written'))).toBe('written');
    expect(await unlessThrottled(Promise.reject(new StoreError('throttled', 'Less traffic, please.')))).toBeUndefined();
    const failures = [new StoreError('unavailable', 'No answer came.'), new Error('throttled')];
    for (const failure of failures) await expect(unlessThrottled(Promise.reject(failure))).rejects.toBe(failure);
  });
});
