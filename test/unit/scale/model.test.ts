/** Tests that the model of AWS does what its facts say. Only then do its results mean anything. */
import { describe, expect, it } from 'vitest';
import { Bill } from '../../scale/bill.ts';
import { hotLock } from '../../scale/scenarios/hot-lock.ts';
import { longWait } from '../../scale/scenarios/long-wait.ts';
import { stampede } from '../../scale/scenarios/trouble.ts';
import { TokenBucket } from '../../scale/token-bucket.ts';
import { ScaleWorld } from '../../scale/world.ts';

describe('a key of the modelled table', () => {
  it('gives its units, and then none until they are refilled', () => {
    const bucket = new TokenBucket(1_000, 0);
    bucket.take(1_000);
    expect(bucket.isEmpty(0)).toBe(true);
    expect(bucket.isEmpty(1)).toBe(false);
    bucket.take(500);
    expect(bucket.isEmpty(400)).toBe(true);
    expect(bucket.isEmpty(600)).toBe(false);
  });
});

describe('a bill', () => {
  it('charges for the use since the last bill', () => {
    const bill = new Bill();
    bill.writeUnits = 1_000_000;
    const before = bill.copy();
    bill.writeUnits += 1_000_000;
    bill.requests = 1_000_000;
    expect(bill.since(before).dollars).toBeCloseTo(0.625 + 1);
  });
});

describe('the modelled service', () => {
  it('passes a busy lock on in order, and counts the requests', async () => {
    const row = await hotLock('direct', 2, { handOffs: 20, withinMs: 10_000, seed: 1 });
    expect(row.handOffs).toBeGreaterThanOrEqual(20);
    // A release that grants, and the new wait of the caller that released.
    expect(row.writeUnits).toBeGreaterThanOrEqual(2);
    expect(row.writeUnits).toBeLessThan(4);
  });

  it('grants one of many callers at once', async () => {
    expect(await stampede('correctness', 40, 1)).toMatchObject({ granted: 1, held: 39, failed: 0 });
  });

  it('has the same cost for waiting by push, for any number of waiters', async () => {
    const unitsOfOne = async (waiters: number) => {
      const { readUnits, writeUnits } = await longWait('push', waiters, { runMs: 30_000, seed: 1 });
      return (readUnits + writeUnits) / waiters;
    };
    // A request without its place would read every page of the queue.
    expect(await unitsOfOne(120)).toBeLessThan(1.2 * (await unitsOfOne(30)));
  });

  it('keeps the places of waiters on sockets while the store is unavailable', async () => {
    const world = new ScaleWorld(5);
    const { time, table } = world;
    const holding = world.client('direct').acquire('a', { leaseMs: 600_000, autoRenew: false });
    await time.advance(1_000);
    const ends: string[] = [];
    for (const name of ['first', 'second', 'third']) {
      const waiting = world.client('push').acquire('a', { waitMs: 600_000 });
      const work = async () => {
        await (await waiting).release();
        ends.push(name);
      };
      work().catch((error: Error) => ends.push(error.message));
      await time.advance(1_000);
    }
    await time.advance(10_000);
    table.isAway = true;
    await time.advance(60_000);
    table.isAway = false;
    expect(ends).toEqual([]);
    await time.advance(10_000);
    void (await holding).release();
    await time.advance(5_000);
    expect(ends).toEqual(['first', 'second', 'third']);
  });
});
