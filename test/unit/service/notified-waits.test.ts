import { describe, expect, it } from 'vitest';
import { lockLimits } from '../../../src/lock/limits.ts';
import { LockMemory } from '../../../src/service/lock-memory.ts';
import { NotifiedWaits } from '../../../src/service/notified-waits.ts';
import { acquireOf } from '../../support/lock-worlds.ts';
import { alice, bob, carol } from '../lock/story.ts';
import { key, SeenLock, watched } from './world.ts';

const { graceMs } = lockLimits;
const waiting = { waitMs: 60_000 };
const release = { kind: 'release', leaseId: alice } as const;

function awaitedLock(leaseMs = 30_000) {
  const lock = new SeenLock();
  const memory = new LockMemory(lock.time);
  const waits = new NotifiedWaits({ clock: lock.time, timers: lock.time, memory });
  lock.write(acquireOf(alice, { leaseMs }));
  const begin = (leaseId: string, { withinMs = 20_000, gone }: { withinMs?: number; gone?: AbortSignal } = {}) => {
    const open = waits.begin(lock);
    lock.write(acquireOf(leaseId, waiting));
    const wait = open.wait({ leaseId, known: lock.state, until: lock.in(withinMs), gone });
    return watched(wait.finally(() => open.end()));
  };
  return { lock, memory, waits, begin, time: lock.time };
}

describe('a notified wait', () => {
  it('polls nothing, and ends when a write that grants is announced', async () => {
    const { lock, memory, begin, time } = awaitedLock();
    const wait = begin(bob);
    await time.advance(10_000);
    expect(wait.done).toBe(false);
    memory.learn(key, lock.write(release));
    expect((await wait.promise).holders).toMatchObject([{ leaseId: bob }]);
    expect(lock).toMatchObject({ looks: 0, sweeps: 0 });
  });

  it('misses no grant that was announced before the wait began', async () => {
    const { lock, memory, waits, time } = awaitedLock();
    const open = waits.begin(lock);
    const known = lock.write(acquireOf(bob, waiting));
    memory.learn(key, lock.write(release));
    const wait = watched(open.wait({ leaseId: bob, known, until: lock.in(20_000) }));
    await time.settle();
    expect(wait.done).toBe(true);
    expect((await wait.promise).holders).toMatchObject([{ leaseId: bob }]);
  });

  it('goes on while announcements are about other waiters', async () => {
    const { lock, memory, begin, time } = awaitedLock();
    const first = begin(bob);
    const second = begin(carol);
    memory.learn(key, lock.write(release));
    await time.settle();
    expect([first.done, second.done]).toEqual([true, false]);
  });

  it('ignores announcements that are older than what is known', async () => {
    const { lock, memory, begin, time } = awaitedLock();
    const before = lock.state;
    const wait = begin(bob);
    memory.learn(key, before);
    memory.learn(key, { ...lock.state, queue: [] });
    await time.settle();
    expect(wait.done, 'neither an older revision nor the same one counts').toBe(false);
  });

  it('ignores announcements about another lock', async () => {
    const { lock, memory, begin, time } = awaitedLock();
    const wait = begin(bob);
    memory.learn({ ...key, name: 'other' }, lock.write(release));
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
    const { lock, memory, begin, time } = awaitedLock(1_000);
    const wait = begin(bob);
    await time.advance(900);
    memory.learn(key, lock.write({ kind: 'renew', leaseId: alice }));
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
    const { lock, memory, begin, time } = awaitedLock();
    const first = begin(bob);
    await time.settle();
    const repeat = begin(bob);
    await time.settle();
    expect([first.done, repeat.done]).toEqual([false, false]);
    memory.learn(key, lock.write(release));
    for (const wait of [first, repeat]) expect((await wait.promise).holders).toMatchObject([{ leaseId: bob }]);
  });

  it('leaves no timer after the last waiter has left', async () => {
    const { lock, memory, begin, time } = awaitedLock();
    const waits = [begin(bob), begin(carol)];
    memory.learn(key, lock.write(release));
    memory.learn(key, lock.write({ kind: 'release', leaseId: bob }));
    await Promise.all(waits.map(({ promise }) => promise));
    await time.settle();
    expect(time.nextAt).toBeUndefined();
  });
});
