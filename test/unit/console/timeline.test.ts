import { describe, expect, it } from 'vitest';
import { unknownLock, withHistory, withLook } from '../../../src/console/model/lock-picture.ts';
import { estimator, measuresOf } from '../../../src/console/model/measures.ts';
import { timelineOf, waitLanesMax } from '../../../src/console/model/timeline.ts';
import { event, holder, start, view, waiter } from './example.ts';

const minute = 60_000;
const now = start + minute;
const lockWith = (...events: ReturnType<typeof event>[]) => withHistory(unknownLock('wallet:42'), events);

describe('a timeline', () => {
  it('shows a crash: the lease expires, and the waiter gets the lock', () => {
    const lock = withLook(
      lockWith(
        event('granted', 'ada', 10_000, { fence: 1 }),
        event('queued', 'bob', 12_000, { fence: 1 }),
        event('expired', 'ada', 20_000, { fence: 1, heldMs: 10_000 }),
        event('granted', 'bob', 20_000, { fence: 2, waitedMs: 8_000 }),
      ),
      view({ fence: 2, holders: [holder('bob', 2, 20_000)] }),
      now,
    );
    const { holds, waits, fences } = timelineOf(lock, minute, now);
    expect(holds).toMatchObject([
      { owner: 'ada', from: start + 10_000, to: start + 20_000, end: 'expired', lane: 0 },
      { owner: 'bob', from: start + 20_000, to: now, end: 'holding', lane: 0 },
    ]);
    expect(waits).toMatchObject([{ owner: 'bob', from: start + 12_000, to: start + 20_000, end: 'granted', fence: 2 }]);
    expect(fences.map(({ fence }) => fence)).toEqual([1, 2]);
  });

  it('shows a lease whose grant is no longer known from how long it was held', () => {
    const { holds } = timelineOf(lockWith(event('released', 'ada', 5_000, { heldMs: 3_000 })), minute, now);
    expect(holds).toMatchObject([{ from: start + 2_000, to: start + 5_000, end: 'released' }]);
  });

  it('draws permits that are held at the same time in separate lanes', () => {
    const both = [event('granted', 'ada', 1_000, { fence: 1 }), event('granted', 'bob', 2_000, { fence: 2 })];
    const ends = [event('released', 'ada', 5_000, { fence: 1 }), event('released', 'bob', 6_000, { fence: 2 })];
    const after = [event('granted', 'eve', 7_000, { fence: 3 }), event('released', 'eve', 8_000, { fence: 3 })];
    const { holds, holdLanes } = timelineOf(lockWith(...both, ...ends, ...after), minute, now);
    expect(holds.map(({ lane }) => lane)).toEqual([0, 1, 0]);
    expect(holdLanes).toBe(2);
  });

  it('says how many waiters have no lane, including those behind the front', () => {
    const queue = Array.from({ length: 100 }, (_, index) => waiter(`w${index}`, index + 1, 10_000 - index));
    const lock = withLook(unknownLock('wallet:42'), view({ fence: 1, queue, queueDepth: 1_000 }), now);
    const line = timelineOf(lock, minute, now);
    expect(line.waits).toHaveLength(waitLanesMax);
    expect(line.waitsHidden).toBe(1_000 - waitLanesMax);
    expect(line.depths.at(-1)?.depth).toBe(1_000);
    expect(line.depths[0]).toEqual({ at: now - minute, depth: 0 });
  });

  it('ends the bar of a lease whose end was not seen', () => {
    const lock = withLook(
      lockWith(event('granted', 'ada', 1_000, { fence: 1 })),
      view({ fence: 1, state: 'free' }),
      now,
    );
    expect(timelineOf(lock, minute, now).holds).toMatchObject([{ end: 'unseen', to: start + 2_000 }]);
  });
});

describe('measures', () => {
  const turns = (holdMs: number, waitedMs: number) =>
    lockWith(
      event('granted', 'ada', 10_000, { fence: 1, waitedMs }),
      event('released', 'ada', 10_000 + holdMs, { fence: 1, heldMs: holdMs }),
    );

  it.each([
    [1_000, 0, 'easy', 'Nobody had to wait: this lock is not a bottleneck.'],
    [10_000, 1_000, 'easy', 'Waits are short against holds: hardly a bottleneck.'],
    [1_000, 1_000, 'some', 'Waiting takes about as long as holding: this lock slows its users.'],
    [1_000, 3_500, 'bottleneck', 'Waiting takes 3.5 times as long as holding: this lock is the bottleneck.'],
  ])('of %i ms held and %i ms waited say so', (holdMs, waitedMs, weight, words) => {
    expect(measuresOf(turns(holdMs, waitedMs), minute, now)).toMatchObject({ weight, words });
  });

  it('of a lock that nobody used say that', () => {
    expect(measuresOf(unknownLock('idle'), minute, now).weight).toBe('idle');
  });

  it('count how leases ended, and for how much of the time it was held', () => {
    const { ended, heldShare, grants } = measuresOf(turns(30_000, 0), minute, now);
    expect([ended, heldShare, grants]).toEqual([[1, 0, 0, 0], 0.5, 1]);
  });

  it('count the time once in which several permits are held', () => {
    const lease = (fence: number, from: number, to: number) => [
      event('granted', 'ada', from, { fence }),
      event('released', 'ada', to, { fence, heldMs: to - from }),
    ];
    const lock = lockWith(...lease(1, 0, 30_000), ...lease(2, 5_000, 10_000), ...lease(3, 15_000, 20_000));
    expect(measuresOf(lock, minute, now).heldShare).toBe(0.5);
  });

  it('estimate a wait from how long leases lasted', () => {
    const lock = withLook(turns(10_000, 0), view({ fence: 2, holders: [holder('bob', 2, 56_000)] }), now);
    const estimate = estimator(lock, now);
    expect([estimate?.(1), estimate?.(3)]).toEqual([6_000, 26_000]);
    expect(estimator(unknownLock('idle'), now)).toBeUndefined();
  });
});
