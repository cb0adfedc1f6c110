/** What the SDK does with the signals of its callers. */
import { getEventListeners } from 'node:events';
import { describe, expect, it } from 'vitest';
import type { Holdfast } from '../../../src/client/index.ts';
import { Twin } from '../../../src/testing/index.ts';

type Call = (locks: Holdfast, signal: AbortSignal) => Promise<unknown>;

const calls: [string, Call][] = [
  ['acquire', (locks, signal) => locks.acquire('a', { signal })],
  ['acquireAll', (locks, signal) => locks.acquireAll(['a', 'b'], { signal })],
  ['inspect', (locks, signal) => locks.inspect('a', { signal })],
  ['session', (locks, signal) => locks.session({ signal })],
  ['record put', (locks, signal) => locks.record('a').put(1, 'absent', { signal })],
  ['record update', (locks, signal) => locks.record('a').update(() => 1, { signal })],
  ['adopt', async (locks, signal) => locks.adopt((await locks.acquire('c')).detach(), { signal })],
  ['once', (locks, signal) => locks.once('job', { signal }, () => 1)],
];

describe('a signal that fired before the call', () => {
  it.each(calls)('ends %s with its reason, and nothing is taken or written', async (_, call) => {
    const twin = new Twin();
    const locks = twin.client();
    await expect(twin.until(call(locks, AbortSignal.abort(new Error('too late'))))).rejects.toThrow('too late');
    const [lock, record] = [await locks.inspect('a'), await locks.record('a').get()];
    expect([lock.fence, record]).toEqual([0, undefined]);
  });
});

describe('a signal that fires while a request is repeated', () => {
  it.each(calls.filter(([name]) => name !== 'adopt'))('ends the pause of %s at once', async (_, call) => {
    const twin = new Twin();
    const locks = twin.client({ patience: { retryMs: 60_000, tryMs: 60_000 }, breaker: { failuresMax: 1_000 } });
    twin.partition(locks);
    const giveUp = new AbortController();
    let reason: unknown;
    const calling = call(locks, giveUp.signal).catch((error: unknown) => {
      reason = error;
    });
    // By now the pauses are long.
    await twin.advance(10_000);
    giveUp.abort(new Error('no patience'));
    await twin.settle();
    expect(reason).toMatchObject({ message: 'no patience' });
    await calling;
  });
});

describe('a signal that lives as long as the process', () => {
  it.each(calls)('has no listener left after %s', async (_, call) => {
    const twin = new Twin();
    const locks = twin.client();
    const { signal } = new AbortController();
    twin.loseResponse(locks);
    await twin.until(call(locks, signal));
    await locks.close();
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  });

  it('has no listener left after a wait that was granted, a wait that was not, and a watch', async () => {
    const twin = new Twin();
    const [holder, waiter] = [twin.client(), twin.client()];
    const { signal } = new AbortController();
    const held = await holder.acquire('a', { leaseMs: 60_000 });
    await twin.until(waiter.acquire('a', { waitMs: 30_000, signal })).catch(() => undefined);
    const waiting = waiter.acquire('a', { waitMs: 30_000, signal });
    await twin.advance(25_000);
    await held.release();
    await (await twin.until(waiting)).release();
    for await (const event of waiter.watch({ lock: 'a', signal })) if (event.type === 'connected') break;
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  });
});
