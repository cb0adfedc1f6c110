import { getEventListeners } from 'node:events';
import { describe, expect, it } from 'vitest';
import { lockLimits } from '../../../src/lock/limits.ts';
import type { LockState } from '../../../src/lock/state.ts';
import { LockCache } from '../../../src/queue/lock-cache.ts';
import { type FirstWaiter, NotifiedWaits } from '../../../src/service/notified-waits.ts';
import { acquireOf } from '../../support/lock-worlds.ts';
import { alice, bob, carol } from '../lock/story.ts';
import { key, SeenLock, watched } from './world.ts';

const { graceMs } = lockLimits;
const waiting = { waitMs: 60_000 };
const release = { kind: 'release', leaseId: alice } as const;

function awaitedLock(leaseMs = 30_000) {
  const lock = new SeenLock();
  const cache = new LockCache(lock.time);
  const waits = new NotifiedWaits({ clock: lock.time, timers: lock.time, cache });
  lock.write(acquireOf(alice, { leaseMs }));
  const begin = (leaseId: string, { withinMs = 20_000, gone }: { withinMs?: number; gone?: AbortSignal } = {}) => {
    const open = waits.begin(lock);
    lock.write(acquireOf(leaseId, waiting));
    const wait = open.wait({ leaseId, known: lock.state, until: lock.in(withinMs), gone });
    return watched(wait.finally(() => open.end()));
  };
  return { lock, cache, waits, begin, time: lock.time };
}

describe('a notified wait', () => {
  it('polls nothing, and ends when a write that grants is announced', async () => {
    const { lock, cache, begin, time } = awaitedLock();
    const wait = begin(bob);
    await time.advance(10_000);
    expect(wait.done).toBe(false);
    cache.learn(key, lock.write(release));
    expect((await wait.promise).holders).toMatchObject([{ leaseId: bob }]);
    expect(lock).toMatchObject({ looks: 0, sweeps: 0 });
  });

  it('misses no grant that was announced before the wait began', async () => {
    const { lock, cache, waits, time } = awaitedLock();
    const open = waits.begin(lock);
    const known = lock.write(acquireOf(bob, waiting));
    cache.learn(key, lock.write(release));
    const wait = watched(open.wait({ leaseId: bob, known, until: lock.in(20_000) }));
    await time.settle();
    expect(wait.done).toBe(true);
    expect((await wait.promise).holders).toMatchObject([{ leaseId: bob }]);
  });

  it('goes on while announcements are about other waiters', async () => {
    const { lock, cache, begin, time } = awaitedLock();
    const first = begin(bob);
    const second = begin(carol);
    cache.learn(key, lock.write(release));
    await time.settle();
    expect([first.done, second.done]).toEqual([true, false]);
  });

  it('ignores announcements that are older than what is known', async () => {
    const { lock, cache, begin, time } = awaitedLock();
    const before = lock.state;
    const wait = begin(bob);
    cache.learn(key, before);
    cache.learn(key, { ...lock.state, queue: [] });
    await time.settle();
    expect(wait.done, 'neither an older revision nor the same one counts').toBe(false);
  });

  it('ignores announcements about another lock', async () => {
    const { lock, cache, begin, time } = awaitedLock();
    const wait = begin(bob);
    cache.learn({ ...key, name: 'other' }, lock.write(release));
    await time.settle();
    expect(wait.done).toBe(false);
  });

  it('ends by one sweep at the instant when the lease before it may be taken over', async () => {
    const { lock, begin, time } = awaitedLock(1_000);
    const waits = [begin(bob), begin(carol)];
    await time.advance(1_000 + graceMs - 1);
    expect(lock.sweeps).toBe(0);
    await time.advance(1);
    expect(lock.sweeps, 'one timer per lock, however many wait').toBe(1);
    expect(waits.map(({ done }) => done)).toEqual([true, false]);
  });

  it('moves that instant when the holder renews', async () => {
    const { lock, cache, begin, time } = awaitedLock(1_000);
    const wait = begin(bob);
    await time.advance(900);
    cache.learn(key, lock.write({ kind: 'renew', leaseId: alice }));
    await time.advance(1_000 + graceMs - 1);
    expect(lock.sweeps, 'the timer of the first end was moved, not kept').toBe(0);
    await time.advance(1);
    expect(lock.sweeps).toBe(1);
    expect(wait.done).toBe(true);
  });

  it('tries a sweep again after a pause if the store fails', async () => {
    const { lock, begin, time } = awaitedLock(1_000);
    const wait = begin(bob);
    lock.failure = new Error('out of reach');
    await time.advance(1_000 + graceMs + 950);
    expect(lock.sweeps).toBe(10);
    lock.failure = undefined;
    await time.advance(100);
    expect((await wait.promise).holders).toMatchObject([{ leaseId: bob }]);
  });

  it('ends at its time with the known state', async () => {
    const { begin, time } = awaitedLock();
    const wait = begin(bob, { withinMs: 2_000 });
    await time.advance(1_999);
    expect(wait.done).toBe(false);
    await time.advance(1);
    expect((await wait.promise).queue).toMatchObject([{ leaseId: bob }]);
    await time.settle();
    expect(time.nextAt, 'nobody waits any more, so nothing is swept').toBeUndefined();
  });

  it('ends if its caller is gone, even if it was gone from the start', async () => {
    const { begin, time } = awaitedLock();
    const gone = new AbortController();
    const wait = begin(bob, { gone: gone.signal });
    await time.settle();
    expect(wait.done).toBe(false);
    gone.abort();
    await time.settle();
    expect(wait.done).toBe(true);
    const late = begin(carol, { gone: gone.signal });
    await time.settle();
    expect(late.done).toBe(true);
  });

  it('goes on while the same request is repeated, so two requests do not end each other', async () => {
    const { lock, cache, begin, time } = awaitedLock();
    const first = begin(bob);
    await time.settle();
    const repeat = begin(bob);
    await time.settle();
    expect([first.done, repeat.done]).toEqual([false, false]);
    cache.learn(key, lock.write(release));
    for (const wait of [first, repeat]) expect((await wait.promise).holders).toMatchObject([{ leaseId: bob }]);
  });

  it('goes on if another copy of its request ends', async () => {
    const { lock, cache, begin, time } = awaitedLock();
    const first = begin(bob, { withinMs: 2_000 });
    const repeat = begin(bob);
    await time.advance(2_000);
    expect([first.done, repeat.done]).toEqual([true, false]);
    cache.learn(key, lock.write(release));
    await time.settle();
    expect(repeat.done).toBe(true);
    expect((await repeat.promise).holders).toMatchObject([{ leaseId: bob }]);
  });

  it('listens only while somebody waits', async () => {
    const { lock, cache, waits } = awaitedLock();
    let listeners = 0;
    const listen = cache.onNewerState.bind(cache);
    cache.onNewerState = (listener) => {
      listeners += 1;
      const stop = listen(listener);
      return () => {
        listeners -= 1;
        stop();
      };
    };
    const other = Object.assign(new SeenLock(), { key: { ...key, name: 'other' } });
    const opened = [waits.begin(lock), waits.begin(other)];
    expect(listeners).toBe(1);
    opened[0]?.end();
    expect(listeners).toBe(1);
    opened[1]?.end();
    expect(listeners).toBe(0);
    waits.begin(lock).end();
    expect(listeners).toBe(0);
  });

  it('reads no session before there is a waiter', () => {
    const { lock, cache, waits } = awaitedLock();
    let reads = 0;
    const facts = lock.facts.bind(lock);
    lock.facts = () => {
      reads += 1;
      return facts();
    };
    const open = waits.begin(lock);
    cache.learn(key, lock.write(acquireOf(bob, waiting)));
    expect(reads).toBe(0);
    open.end();
  });

  it('stops listening to its caller when it ends', async () => {
    const { lock, cache, begin } = awaitedLock();
    const gone = new AbortController();
    const wait = begin(bob, { gone: gone.signal });
    expect(getEventListeners(gone.signal, 'abort')).toHaveLength(1);
    cache.learn(key, lock.write(release));
    await wait.promise;
    expect(getEventListeners(gone.signal, 'abort')).toHaveLength(0);
  });

  it('sweeps at once if the lease before it may already be taken over', async () => {
    const { lock, waits, time } = awaitedLock(1_000);
    const known = lock.write(acquireOf(bob, waiting));
    await time.advance(1_000 + graceMs);
    const open = waits.begin(lock);
    const wait = watched(open.wait({ leaseId: bob, known, until: lock.in(20_000) }));
    await time.advance(1);
    expect([lock.sweeps, wait.done]).toEqual([1, true]);
    open.end();
  });

  it('plans by the latest state, though the sessions of an earlier one were read for longer', async () => {
    const { lock, cache, begin, time } = awaitedLock(1_000);
    const readings: (() => void)[] = [];
    const facts = lock.facts.bind(lock);
    lock.facts = async () => {
      await new Promise<void>((resolve) => readings.push(resolve));
      return facts();
    };
    begin(bob);
    await time.advance(900);
    cache.learn(key, lock.write({ kind: 'renew', leaseId: alice }));
    readings[1]?.();
    await time.settle();
    readings[0]?.();
    await time.advance(1_000 + graceMs - 1);
    expect(lock.sweeps).toBe(0);
    await time.advance(1);
    expect(lock.sweeps).toBe(1);
  });

  it('is not swept twice at a time for the same state, whoever joins meanwhile', async () => {
    const { lock, cache, waits, time } = awaitedLock(1_000);
    const sweeping: ((state: LockState) => void)[] = [];
    lock.sweep = () => {
      lock.sweeps += 1;
      return new Promise((resolve) => sweeping.push(resolve));
    };
    const earlier = lock.write(acquireOf(bob, waiting));
    const join = (known: LockState) => {
      const open = waits.begin(lock);
      return watched(open.wait({ leaseId: bob, known, until: lock.in(60_000) }).finally(() => open.end()));
    };
    const first = join(earlier);
    await time.advance(1_000 + graceMs);
    expect(lock.sweeps).toBe(1);
    join(earlier);
    await time.advance(1_000);
    expect(lock.sweeps).toBe(1);
    // A newer state is swept too, and the end of the first sweep is not taken for the end of the second.
    const later = { ...earlier, rev: earlier.rev + 1 };
    cache.learn(key, later);
    await time.advance(1_000);
    expect(lock.sweeps).toBe(2);
    sweeping[0]?.(earlier);
    await time.settle();
    join(later);
    await time.advance(1_000);
    expect([lock.sweeps, first.done]).toEqual([2, false]);
  });

  it('leaves no timer after the last waiter has left', async () => {
    const { lock, cache, begin, time } = awaitedLock();
    const waits = [begin(bob), begin(carol)];
    cache.learn(key, lock.write(release));
    cache.learn(key, lock.write({ kind: 'release', leaseId: bob }));
    await Promise.all(waits.map(({ promise }) => promise));
    await time.settle();
    expect(time.nextAt).toBeUndefined();
  });

  it('tries a sweep after a pause if the sessions could not be read', async () => {
    const { lock, begin, time } = awaitedLock(1_000);
    lock.facts = () => Promise.reject(new Error('out of reach'));
    const wait = begin(bob);
    await time.advance(99);
    expect(lock.sweeps).toBe(0);
    await time.advance(1);
    expect(lock.sweeps).toBe(1);
    await time.advance(1_000 + graceMs);
    expect(wait.done).toBe(true);
  });

  it('does nothing at any time if only another write can help', async () => {
    const { lock, waits, time } = awaitedLock();
    lock.write({ kind: 'renew', leaseId: alice });
    lock.state = { ...lock.state, holders: lock.state.holders.map((holder) => ({ ...holder, expiresAt: null })) };
    const open = waits.begin(lock);
    lock.write(acquireOf(bob, { waitMs: 60_000, attendMs: null }));
    const wait = watched(open.wait({ leaseId: bob, known: lock.state, until: lock.in(5_000) }));
    await time.advance(4_999);
    expect([lock.sweeps, wait.done]).toEqual([0, false]);
    await time.advance(1);
    expect(wait.done).toBe(true);
    open.end();
  });

  it('is counted while its request is open, and each lock has its own waits', async () => {
    const { lock, cache, waits } = awaitedLock();
    const other = new SeenLock();
    const opened = [
      waits.begin(lock),
      waits.begin(lock),
      waits.begin(Object.assign(other, { key: { ...key, name: 'b' } })),
    ];
    expect(waits.openCount).toBe(3);
    opened[0]?.end();
    expect(waits.openCount).toBe(2);
    opened[2]?.end();
    const known = lock.write(acquireOf(bob, waiting));
    const wait = watched(opened[1]?.wait({ leaseId: bob, known, until: lock.in(20_000) }) ?? Promise.reject());
    cache.learn(key, lock.write(release));
    expect((await wait.promise).holders, 'the first lock is still listened to').toMatchObject([{ leaseId: bob }]);
    opened[1]?.end();
    expect(waits.openCount).toBe(0);
  });

  it('begins anew after all requests have ended', async () => {
    const { lock, cache, begin, time } = awaitedLock();
    const first = begin(bob, { withinMs: 100 });
    await time.advance(100);
    await first.promise;
    await time.settle();
    const second = begin(bob);
    cache.learn(key, lock.write(release));
    expect((await second.promise).holders).toMatchObject([{ leaseId: bob }]);
  });

  it('is woken when the item of the lock was deleted', async () => {
    const { lock, begin, waits, time } = awaitedLock(1_000);
    const wait = begin(bob);
    lock.sweep = async () => ({ ...lock.state, rev: 0, fence: 0, holders: [], queue: [] });
    await time.advance(1_000 + graceMs);
    expect(wait.done).toBe(true);
    expect(waits.openCount).toBe(0);
  });

  it('that was given the latest state is not put back by an older one', async () => {
    const { lock, cache, waits, time } = awaitedLock();
    const open = waits.begin(lock);
    const older = lock.write(acquireOf(bob, waiting));
    cache.learn(key, lock.write(acquireOf(carol, waiting)));
    const wait = watched(open.wait({ leaseId: bob, known: older, until: lock.in(1_000) }));
    await time.advance(1_000);
    expect((await wait.promise).queue, 'the latest state is the answer').toHaveLength(2);
    open.end();
  });
});

describe('a notified wait in a page', () => {
  function pagedLock() {
    const world = awaitedLock(1_000);
    const { lock, waits } = world;
    lock.state = { ...lock.state, behind: { first: 7, last: 8 } };
    const behind = (leaseId: string, page: number) => {
      const open = waits.begin(lock);
      const wait = open.wait({ leaseId, known: lock.state, page, until: lock.in(20_000) });
      return watched(wait.finally(() => open.end()));
    };
    return { ...world, behind };
  }

  it('goes on while its page is there, and is woken when the page has moved up', async () => {
    const { lock, cache, behind, time } = pagedLock();
    const [first, second] = [behind(bob, 7), behind(carol, 8)];
    await time.settle();
    expect([first.done, second.done]).toEqual([false, false]);
    lock.state = { ...lock.state, rev: lock.state.rev + 1, behind: { first: 8, last: 8 } };
    cache.learn(key, lock.state);
    await time.settle();
    expect([first.done, second.done]).toEqual([true, false]);
  });

  it('goes on if its page has moved up into the front', async () => {
    const { lock, cache, behind, time } = pagedLock();
    const wait = behind(bob, 7);
    const moved = lock.write(acquireOf(bob, waiting));
    cache.learn(key, { ...moved, behind: { first: 8, last: 8 } });
    await time.settle();
    expect(wait.done).toBe(false);
  });

  it.each([[[7, 8]], [[8, 7]]])(
    'is swept for the waiter of the first page, in whatever order they came: %j',
    async (pages) => {
      const { lock, behind, time } = pagedLock();
      const leases = [bob, carol];
      const waits = pages.map((page, index) => behind(leases[index] ?? '', page));
      lock.failure = new Error('out of reach');
      lock.sweep = async () => {
        lock.sweeps += 1;
        return lock.state;
      };
      await time.advance(1_000 + graceMs);
      expect(lock.sweeps).toBe(1);
      expect(waits.map(({ done }) => done)).toEqual([false, false]);
    },
  );

  /** The first waiter of the process, as it was at each plan. */
  function firsts() {
    const { lock, cache } = pagedLock();
    const seen: FirstWaiter[] = [];
    const nextStep = (_state: unknown, first: FirstWaiter) => void seen.push(first);
    const waits = new NotifiedWaits({ clock: lock.time, timers: lock.time, cache, nextStep });
    const wait = async (leaseId: string, page?: number) => {
      void waits.begin(lock).wait({ leaseId, known: lock.state, page, until: lock.in(20_000) });
      await lock.time.settle();
    };
    return { lock, cache, seen, wait };
  }

  it('is behind those of earlier pages, and in one page the first that came is first', async () => {
    const { seen, wait } = firsts();
    await wait(carol, 8);
    await wait('lease-dave-0000000', 8);
    await wait(bob, 7);
    await wait('lease-erin-0000000', 8);
    const ofPage7 = { leaseId: bob, page: 7 };
    expect(seen).toEqual([{ leaseId: carol, page: 8 }, { leaseId: carol, page: 8 }, ofPage7, ofPage7]);
  });

  it('is behind every waiter in the front, and one whose page moved up is not planned for', async () => {
    const { lock, cache, seen, wait } = firsts();
    await wait(bob, 7);
    await wait(carol, 8);
    seen.splice(0);
    lock.state = { ...lock.state, rev: lock.state.rev + 1, behind: { first: 8, last: 8 } };
    cache.learn(key, lock.state);
    await lock.time.settle();
    expect(seen).toEqual([{ leaseId: carol, page: 8 }]);
    const { lock: other } = awaitedLock();
    const { queue } = other.write(acquireOf('lease-dave-0000000', waiting));
    lock.state = { ...lock.state, rev: lock.state.rev + 1, queue };
    await wait('lease-dave-0000000');
    expect(seen.at(-1)).toEqual({ leaseId: 'lease-dave-0000000', page: undefined });
  });
});
