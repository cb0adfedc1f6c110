import { describe, expect, it } from 'vitest';
import { unknownLock, withEvent, withHistory, withLook } from '../../../src/console/model/lock-picture.ts';
import { event, holder, start, view, waiter } from './example.ts';

const held = withLook(
  unknownLock('wallet:42'),
  view({ fence: 7, holders: [holder('ada', 7, 0)], queue: [waiter('bob', 1, 500)], queueDepth: 1 }),
  start + 1_000,
);

describe('a picture of a lock', () => {
  it('follows a hand-off before the lock is read again', () => {
    const released = withEvent(held, event('released', 'ada', 2_000, { fence: 7, heldMs: 2_000 }));
    const after = withEvent(released, event('granted', 'bob', 2_000, { fence: 8, waitedMs: 1_500 }));
    expect(after).toMatchObject({ fence: 8, queueDepth: 0, queue: [], waitingSince: null, isGuess: true });
    expect(after.holders).toMatchObject([{ owner: 'bob', fence: 8, since: start + 2_000, endsAt: null }]);
  });

  it('counts waiters that join and waiters that leave', () => {
    const two = withEvent(held, event('queued', 'eve', 1_500));
    expect(two.queue.map(({ owner }) => owner)).toEqual(['bob', 'eve']);
    const one = withEvent(two, event('wait-timeout', 'bob', 1_800, { waitedMs: 1_300 }));
    expect(one).toMatchObject({ queueDepth: 1, waitingSince: start + 1_500 });
  });

  it('is not changed by an event from before the last read', () => {
    const late = withEvent(held, event('granted', 'old', 500, { fence: 6 }));
    expect(late.holders.map(({ owner }) => owner)).toEqual(['ada']);
    expect(late.queueDepth).toBe(1);
    expect(late.events).toHaveLength(1);
  });

  it('is read again after every event, even if clocks differ', () => {
    expect(withEvent(held, event('granted', 'old', 500, { fence: 6 })).isGuess).toBe(true);
  });

  it('counts an event once, even if it comes twice', () => {
    const once = withEvent(held, event('queued', 'eve', 1_500));
    expect(withEvent(once, event('queued', 'eve', 1_500))).toBe(once);
    expect(withHistory(once, [event('queued', 'eve', 1_500)]).events).toHaveLength(1);
  });

  it('keeps events in order when the history adds older ones, up to a limit', () => {
    const seen = withEvent(held, event('queued', 'eve', 1_500));
    const more = withHistory(seen, [event('granted', 'ada', 0, { fence: 7 }), event('queued', 'bob', 500)], 2);
    expect(more.events.map(({ owner }) => owner)).toEqual(['bob', 'eve']);
  });

  it('remembers a lease that expired without an event', () => {
    const look = view({ fence: 7, state: 'free' });
    expect(withLook(held, look, start + 40_000).lapsed).toEqual([{ fence: 7, at: start + 31_000 }]);
    expect(withLook(held, look, start + 2_000).lapsed).toEqual([]);
  });

  it('takes the time from the grant to the end as the lease, until it is renewed', () => {
    expect(held.holders[0]?.leaseMs).toBe(31_000);
    const later = withLook(held, view({ fence: 7, holders: [holder('ada', 7, 0, 20_000)] }), start + 11_000);
    expect(later.holders[0]).toMatchObject({ leaseMs: 31_000, endsAt: start + 31_000 });
  });

  it('does not go back to an earlier read', () => {
    expect(withLook(held, view({ state: 'free' }), start + 500)).toBe(held);
  });
});
