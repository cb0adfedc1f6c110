import { describe, expect, it } from 'vitest';
import { lockLimits } from '../../../src/lock/limits.ts';
import { BellRoom } from '../../../src/service/bell-room.ts';
import { acquireOf } from '../../support/lock-worlds.ts';
import { alice, bob, carol } from '../lock/story.ts';
import { key, SeenLock, watched } from './world.ts';

const { graceMs } = lockLimits;
const waiting = { waitMs: 60_000 };
const release = { kind: 'release', leaseId: alice } as const;

function hall(leaseMs = 30_000) {
  const lock = new SeenLock();
  const room = new BellRoom({ clock: lock.time, timers: lock.time });
  lock.write(acquireOf(alice, { leaseMs }));
  const sit = (leaseId: string, { withinMs = 20_000, gone }: { withinMs?: number; gone?: AbortSignal } = {}) => {
    const seat = room.enter(lock);
    lock.write(acquireOf(leaseId, waiting));
    const wait = seat.wait({ leaseId, known: lock.state, until: lock.in(withinMs), gone });
    return watched(wait.finally(() => seat.leave()));
  };
  return { lock, room, sit, time: lock.time };
}

describe('a wait for the bell', () => {
  it('polls nothing, and ends when a write that grants is announced', async () => {
    const { lock, room, sit, time } = hall();
    const seat = sit(bob);
    await time.advance(10_000);
    expect(seat.done).toBe(false);
    room.announce(key, lock.write(release));
    expect((await seat.promise).holders).toMatchObject([{ leaseId: bob }]);
    expect(lock).toMatchObject({ looks: 0, sweeps: 0 });
  });

  it('misses no grant that was announced before the waiter sat down', async () => {
    const { lock, room, time } = hall();
    const seat = room.enter(lock);
    const known = lock.write(acquireOf(bob, waiting));
    room.announce(key, lock.write(release));
    const wait = watched(seat.wait({ leaseId: bob, known, until: lock.in(20_000) }));
    await time.settle();
    expect(wait.done).toBe(true);
    expect((await wait.promise).holders).toMatchObject([{ leaseId: bob }]);
  });

  it('sleeps on while the news concerns others', async () => {
    const { lock, room, sit, time } = hall();
    const first = sit(bob);
    const second = sit(carol);
    room.announce(key, lock.write(release));
    await time.settle();
    expect([first.done, second.done]).toEqual([true, false]);
  });

  it('is not woken by news that are older than what is known', async () => {
    const { lock, room, sit, time } = hall();
    const before = lock.state;
    const seat = sit(bob);
    room.announce(key, before);
    room.announce(key, { ...lock.state, queue: [] });
    await time.settle();
    expect(seat.done, 'neither an older revision nor the same one counts').toBe(false);
  });

  it('is not woken by news of another lock', async () => {
    const { lock, room, sit, time } = hall();
    const seat = sit(bob);
    room.announce({ ...key, name: 'other' }, lock.write(release));
    await time.settle();
    expect(seat.done).toBe(false);
  });

  it('is woken by one sweep at the instant at which time alone brings the turn', async () => {
    const { lock, sit, time } = hall(1_000);
    const seats = [sit(bob), sit(carol)];
    await time.advance(1_000 + graceMs - 1);
    expect(lock.sweeps).toBe(0);
    await time.advance(1);
    expect(lock.sweeps, 'one timer per lock, however many wait').toBe(1);
    expect(seats.map(({ done }) => done)).toEqual([true, false]);
  });

  it('moves that instant when the holder renews', async () => {
    const { lock, room, sit, time } = hall(1_000);
    const seat = sit(bob);
    await time.advance(900);
    room.announce(key, lock.write({ kind: 'renew', leaseId: alice }));
    await time.advance(1_000 + graceMs - 1);
    expect(lock.sweeps, 'the timer of the first end was moved, not kept').toBe(0);
    await time.advance(1);
    expect(lock.sweeps).toBe(1);
    expect(seat.done).toBe(true);
  });

  it('tries a sweep again after a pause where the store fails, without spinning', async () => {
    const { lock, sit, time } = hall(1_000);
    const seat = sit(bob);
    lock.failure = new Error('out of reach');
    await time.advance(1_000 + graceMs + 950);
    expect(lock.sweeps).toBe(10);
    lock.failure = undefined;
    await time.advance(100);
    expect((await seat.promise).holders).toMatchObject([{ leaseId: bob }]);
  });

  it('ends at its time with what is known', async () => {
    const { sit, time } = hall();
    const seat = sit(bob, { withinMs: 2_000 });
    await time.advance(1_999);
    expect(seat.done).toBe(false);
    await time.advance(1);
    expect((await seat.promise).queue).toMatchObject([{ leaseId: bob }]);
    await time.settle();
    expect(time.nextAt, 'nobody waits any more, so nothing is swept').toBeUndefined();
  });

  it('ends when nobody is there any more, also where that was so from the start', async () => {
    const { sit, time } = hall();
    const gone = new AbortController();
    const seat = sit(bob, { gone: gone.signal });
    await time.settle();
    expect(seat.done).toBe(false);
    gone.abort();
    await time.settle();
    expect(seat.done).toBe(true);
    const late = sit(carol, { gone: gone.signal });
    await time.settle();
    expect(late.done).toBe(true);
  });

  it('is taken over by a repeat of the same request, and the first is answered with what is known', async () => {
    const { lock, room, sit, time } = hall();
    const first = sit(bob);
    await time.settle();
    const repeat = sit(bob);
    await time.settle();
    expect([first.done, repeat.done]).toEqual([true, false]);
    expect((await first.promise).queue).toMatchObject([{ leaseId: bob }]);
    room.announce(key, lock.write(release));
    expect((await repeat.promise).holders).toMatchObject([{ leaseId: bob }]);
  });

  it('leaves no timer behind when the last waiter has left', async () => {
    const { lock, room, sit, time } = hall();
    const seats = [sit(bob), sit(carol)];
    room.announce(key, lock.write(release));
    room.announce(key, lock.write({ kind: 'release', leaseId: bob }));
    await Promise.all(seats.map(({ promise }) => promise));
    await time.settle();
    expect(time.nextAt).toBeUndefined();
  });
});
