import { describe, expect, it } from 'vitest';
import { Twin } from '../../../src/testing/twin.ts';

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
});
