import { describe, expect, it } from 'vitest';
import { Twin } from '../../../src/testing/twin.ts';
import { coreOf } from './inside.ts';

describe('renew for less time than is left', () => {
  it('stops relying on the longer lease if the answer was lost', async () => {
    const twin = new Twin();
    const [one, other] = [twin.client(), twin.client()];
    const lock = await one.acquire('wallet:42', { leaseMs: 60_000, autoRenew: false });
    twin.loseResponse(one, { operation: 'renew' });
    await expect(twin.until(lock.renew(2_000))).rejects.toThrow();
    // The service has shortened the lease, so another caller gets the lock. By then the first caller must know it.
    const next = await twin.until(other.acquire('wallet:42', { waitMs: 10_000 }));
    expect(next.isHeld()).toBe(true);
    expect(lock.isHeld()).toBe(false);
  });

  it('still relies on it if it asked for a longer one', async () => {
    const twin = new Twin();
    const one = twin.client();
    const lock = await one.acquire('wallet:42', { leaseMs: 10_000, autoRenew: false });
    twin.loseRequest(one, { operation: 'renew' });
    await expect(twin.until(lock.renew(60_000))).rejects.toThrow();
    await twin.advance(5_000);
    expect(lock.isHeld()).toBe(true);
    await twin.advance(5_000);
    expect(lock.isHeld()).toBe(false);
  });

  it('ignores the late answer to an earlier, longer renewal', async () => {
    const twin = new Twin();
    const [one, other] = [twin.client(), twin.client()];
    const lock = await one.acquire('wallet:42', { leaseMs: 60_000, autoRenew: false });
    const { transport } = coreOf(one);
    const request = transport.request.bind(transport);
    const held = Promise.withResolvers<void>();
    let renewals = 0;
    transport.request = async (call, signal) => {
      renewals += call.operation === 'renewLock' ? 1 : 0;
      const isFirst = renewals === 1;
      const answer = await request(call, signal);
      // The answer to the first renewal comes after everything else, and that to the second never.
      if (isFirst) await held.promise;
      else if (call.operation === 'renewLock') await new Promise(() => {});
      return answer;
    };
    const longer = lock.renew();
    const shorter = lock.renew(2_000).catch(() => undefined);
    await twin.advance(100);
    held.resolve();
    await longer;
    const next = await twin.until(other.acquire('wallet:42', { waitMs: 10_000 }));
    expect(next.isHeld()).toBe(true);
    expect(lock.isHeld()).toBe(false);
    await twin.until(shorter);
  });
});
