import { describe, expect, it } from 'vitest';
import { type ClientEvent, LeaseLostError } from '../../../src/client/index.ts';
import { Twin } from '../../../src/testing/index.ts';
import { coreOf } from './inside.ts';

const world = () => {
  const twin = new Twin();
  const events: ClientEvent[] = [];
  return { twin, events, one: twin.client({ onEvent: (event) => events.push(event) }), other: twin.client() };
};

describe('renewal', () => {
  it('keeps a lease until its release, with about three renewals in each lease', async () => {
    const { twin, one, events } = world();
    const lock = await one.acquire('wallet:42', { leaseMs: 9_000 });
    await twin.advance(90_000);
    expect(lock.isHeld()).toBe(true);
    const renewals = events.filter(({ type }) => type === 'renewed').length;
    expect(renewals).toBeGreaterThanOrEqual(26);
    expect(renewals).toBeLessThanOrEqual(34);
  });

  it('survives an outage that is shorter than the lease', async () => {
    const { twin, one } = world();
    const lock = await one.acquire('wallet:42', { leaseMs: 9_000 });
    await twin.advance(2_000);
    twin.partition(one);
    await twin.advance(5_000);
    twin.heal(one);
    await twin.advance(60_000);
    expect(lock.isHeld()).toBe(true);
  });

  it('survives an answer that never comes', async () => {
    const { twin, one } = world();
    const lock = await one.acquire('wallet:42', { leaseMs: 9_000 });
    twin.hang(one, { operation: 'renew' });
    await twin.advance(60_000);
    expect(lock.isHeld()).toBe(true);
  });

  it('comes in time if the grant was found late and only a part of the lease was left', async () => {
    const { twin, one, events } = world();
    // The grant was made, but its answer never came. The repeat that finds the grant comes ten seconds later.
    twin.hang(one, { operation: 'acquire' });
    const lock = await twin.until(one.acquire('wallet:42', { leaseMs: 30_000, waitMs: 0, deadlineMs: 20_000 }));
    const leftMs = lock.remainingMs();
    expect(leftMs).toBeLessThan(25_000);
    await twin.advance(leftMs * 0.4);
    expect(events.filter(({ type }) => type === 'renewed')).toHaveLength(1);
  });

  it.each(['released', 'lost'])('is not reported if its answer comes after the lock was %s', async (how) => {
    const { twin, one, events } = world();
    const lock = await one.acquire('wallet:42', { leaseMs: 9_000 });
    twin.delay(one, 2_500, { operation: 'renew' });
    await twin.advance(4_000);
    if (how === 'released') await lock.release();
    else twin.freeze(one);
    await twin.advance(20_000);
    await twin.thaw(one);
    await twin.advance(5_000);
    expect(events.filter(({ type }) => type === 'renewed')).toEqual([]);
  });

  it('stops after holdMsMax', async () => {
    const { twin, one } = world();
    const lock = await one.acquire('wallet:42', { leaseMs: 9_000, holdMsMax: 30_000 });
    await twin.advance(30_000);
    expect(lock.isHeld()).toBe(true);
    await twin.advance(9_000);
    expect(lock.signal.reason).toBeInstanceOf(LeaseLostError);
  });

  it('never asks for a lease that ends after holdMsMax, except for the shortest one that there is', async () => {
    const { twin, one, other } = world();
    const beganAt = twin.now();
    await one.acquire('wallet:42', { leaseMs: 9_000, holdMsMax: 20_000 });
    const ends: number[] = [];
    for (let second = 1; second <= 20; second++) {
      await twin.advance(1_000);
      const [holder] = (await other.inspect('wallet:42')).holders;
      ends.push(twin.now() - beganAt + (holder?.remainingMs ?? 0));
    }
    expect(Math.max(...ends)).toBeGreaterThanOrEqual(20_000);
    expect(Math.max(...ends)).toBeLessThanOrEqual(21_000);
  });

  it('is tried again soon after a failure, then less often, and each failure is reported', async () => {
    const { twin, one, events } = world();
    const failedAt: number[] = [];
    const lock = await one.acquire('wallet:42', { leaseMs: 30_000 });
    twin.partition(one);
    const beganAt = twin.now();
    while (twin.now() < beganAt + 25_000) {
      await twin.advance(50);
      const failures = events.filter(({ type }) => type === 'renewal-failed').length;
      while (failedAt.length < failures) failedAt.push(twin.now());
    }
    expect(events.find(({ type }) => type === 'renewal-failed')).toMatchObject({
      name: 'wallet:42',
      error: { code: 'unavailable' },
    });
    const pauses = failedAt.slice(1).map((at, index) => at - (failedAt[index] as number));
    expect(pauses[0]).toBeLessThanOrEqual(500);
    expect(Math.max(...pauses)).toBeGreaterThan(1_000);
    expect(Math.max(...pauses)).toBeLessThanOrEqual(4_000);
    expect(lock.isHeld()).toBe(true);
    twin.heal(one);
    await twin.advance(4_000);
    expect(events.at(-1)).toEqual({ type: 'renewed', name: 'wallet:42', remainingMs: 30_000 });
  });

  it('uses the new length from then on, if it was renewed for another one', async () => {
    const { twin, one, other, events } = world();
    const lock = await one.acquire('wallet:42', { leaseMs: 9_000 });
    await lock.renew(60_000);
    expect(lock.remainingMs()).toBe(59_000);
    await twin.advance(15_000);
    // The next one is due after a third of the new lease, not of the old one.
    expect(events.filter(({ type }) => type === 'renewed')).toHaveLength(1);
    await twin.advance(8_000);
    expect(events.filter(({ type }) => type === 'renewed')).toHaveLength(2);
    expect((await other.inspect('wallet:42')).holders[0]?.remainingMs).toBeGreaterThan(50_000);
  });

  it('does not happen if autoRenew is off', async () => {
    const { twin, one } = world();
    const lock = await one.acquire('wallet:42', { leaseMs: 9_000, autoRenew: false });
    await twin.advance(6_000);
    await lock.renew();
    await twin.advance(6_000);
    expect(lock.isHeld()).toBe(true);
    await twin.advance(3_000);
    expect(lock.isHeld()).toBe(false);
  });
});

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

describe('the lost-lock signal', () => {
  it('fires before another caller can be granted', async () => {
    const { twin, one, other } = world();
    const lock = await one.acquire('wallet:42', { leaseMs: 10_000 });
    const firedAt: number[] = [];
    lock.onLost(() => firedAt.push(twin.now()));
    twin.partition(one);
    const grantedAt = other.acquire('wallet:42', { waitMs: 60_000 }).then(() => twin.now());
    await twin.advance(15_000);
    expect(firedAt).toHaveLength(1);
    expect(firedAt[0]).toBeLessThan(await grantedAt);
    expect(lock.signal.reason).toMatchObject({ code: 'lease-lost', reason: 'unconfirmed' });
  });

  it('counts from before the request was sent, and not from its answer', async () => {
    const { twin, one, other } = world();
    twin.delay(one, 8_000, { operation: 'acquire' });
    const lock = await twin.until(one.acquire('wallet:42', { leaseMs: 60_000, autoRenew: false }));
    expect((await other.inspect('wallet:42')).holders[0]?.remainingMs).toBe(52_000);
    expect(lock.remainingMs()).toBe(51_000);
    twin.delay(one, 8_000, { operation: 'renew' });
    await twin.until(lock.renew());
    expect(lock.remainingMs()).toBe(51_000);
  });

  it('fires when a tenth of the lease is left', async () => {
    const { twin, one } = world();
    const lock = await one.acquire('wallet:42', { leaseMs: 1_500, autoRenew: false });
    await twin.advance(1_349);
    expect(lock.remainingMs()).toBe(1);
    const { signal } = lock;
    await twin.advance(1);
    expect(signal.aborted).toBe(true);
  });

  it('fires as soon as the answer to a renewal says that the lease was revoked', async () => {
    const { twin, one, other } = world();
    const lock = await one.acquire('wallet:42', { leaseMs: 9_000 });
    await other.revoke('wallet:42', { fence: lock.fence, reason: 'for the test' });
    await twin.advance(4_000);
    expect(lock.signal.reason).toMatchObject({ reason: 'revoked' });
  });

  it('is known at once to a process after a freeze, before any of its timers has run', async () => {
    const { twin, one, other } = world();
    const lock = await one.acquire('wallet:42', { leaseMs: 10_000 });
    const { signal } = lock;
    twin.freeze(one);
    await twin.advance(60_000);
    const taken = await other.acquire('wallet:42', { waitMs: 0 });
    expect(signal.aborted).toBe(false);
    const thawed = twin.thaw(one);
    expect(lock.fence).toBeLessThan(taken.fence);
    expect(signal.aborted).toBe(true);
    await thawed;
  });

  it('fires within a second after a freeze that also stopped the timers', async () => {
    const { twin, one } = world();
    const { signal } = await one.acquire('wallet:42', { leaseMs: 60_000 });
    await twin.advance(200);
    twin.freeze(one);
    await twin.advance(120_000);
    await twin.thaw(one);
    await twin.advance(1_000);
    expect(signal.aborted).toBe(true);
  });

  it('does not fire when the lock is released', async () => {
    const { twin, one } = world();
    const lock = await one.acquire('wallet:42', { leaseMs: 9_000 });
    await lock.release();
    await twin.advance(60_000);
    expect(lock.signal.aborted).toBe(false);
    expect(lock.isHeld()).toBe(false);
  });

  it('stays fired, even if a late renewal would succeed', async () => {
    const { twin, one } = world();
    const lock = await one.acquire('wallet:42', { leaseMs: 10_000 });
    twin.partition(one);
    await twin.advance(9_500);
    twin.heal(one);
    expect(lock.isHeld()).toBe(false);
    await expect(lock.renew()).rejects.toThrow(LeaseLostError);
  });
});
