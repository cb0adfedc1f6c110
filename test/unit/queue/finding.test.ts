import { describe, expect, it } from 'vitest';
import { unusedLock } from '../../../src/lock/state.ts';
import { pagesByLease, readWhole, sweepPages } from '../../../src/queue/finding.ts';
import { key, leaseOf, leasesIn, longQueue, newcomer, waiting } from './long-queue.ts';

const parked = { ...waiting, place: 'new', attendMs: null, notify: { type: 'event', ref: 'somebody' } } as const;

describe('all waiters of a lock', () => {
  it('are found with one search, each with its page', async () => {
    const { context, first } = await longQueue(5);
    expect(await pagesByLease(context, key)).toEqual(
      new Map([
        [leaseOf(3), first],
        [leaseOf(4), first],
        [leaseOf(5), first + 1],
      ]),
    );
    expect(await pagesByLease(context, { ...key, name: 'unused' })).toEqual(new Map());
  });

  it('are shown in order, whether their pages are closed or not, and the store keeps its pages', async () => {
    const { context, lock, first, close } = await longQueue(6);
    await close(first);
    const before = await lock();
    const [whole] = await readWhole(context, [key]);
    expect(leasesIn(whole ?? unusedLock)).toEqual([1, 2, 3, 4, 5, 6].map(leaseOf));
    expect(whole).not.toHaveProperty('behind');
    expect(await lock()).toEqual(before);
  });
});

describe('a sweep of the pages', () => {
  it('ends the waits of parked waiters whose deadline has come, and tells the next deadline', async () => {
    const { time, context, ask, lock, pageAt, waiterIn } = await longQueue(2);
    const startedAt = time.now();
    await ask(3, { ...parked, waitMs: 10_000 });
    await ask(4, { ...newcomer, waitMs: 1_000 });
    await ask(5, { ...parked, waitMs: 30_000 });
    await ask(6, { ...parked, waitMs: 20_000 });
    const sweep = async () => sweepPages(context, key, await lock());
    expect(await sweep()).toBe(startedAt + 10_000);
    await time.advance(9_999);
    await sweep();
    const first = (await lock()).behind?.first ?? 0;
    expect(await waiterIn(first, 3)).toBeDefined();
    await time.advance(1);
    expect(await sweep()).toBe(startedAt + 20_000);
    expect(await waiterIn(first, 3)).toBeUndefined();
    const page = await pageAt(first);
    expect(page?.left).toMatchObject([{ how: 'gave-up' }]);
    expect(await waiterIn(first, 4), 'it polls, so it ends its wait itself').toBeDefined();
    await time.advance(20_000);
    expect(await sweep()).toBeNull();
    expect(await sweepPages(context, key, unusedLock)).toBeNull();
  });
});
