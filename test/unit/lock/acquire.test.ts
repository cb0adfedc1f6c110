import { describe, expect, it } from 'vitest';
import { decide } from '../../../src/lock/decide.ts';
import { lockLimits } from '../../../src/lock/limits.ts';
import type { Waiter } from '../../../src/lock/state.ts';
import { everyPermit, unusedLock } from '../../../src/lock/state.ts';
import { acquireOf, startOfTime } from '../../support/lock-worlds.ts';
import { alice, bob, carol, dave, LockStory } from './story.ts';

const { graceMs, frontLengthMax } = lockLimits;
const waiting = { waitMs: 60_000 };

describe('acquire', () => {
  describe('of a free lock', () => {
    it('grants from now, for the lease that was asked for', () => {
      const lock = new LockStory();
      const answer = lock.tell(acquireOf(alice, { leaseMs: 5_000 }));
      expect(answer).toMatchObject({
        kind: 'granted',
        holder: { leaseId: alice, acquiredAt: startOfTime, expiresAt: startOfTime + 5_000 },
      });
    });

    it('starts the fence of an unused lock above the clock, so it rises even after the item was deleted', () => {
      const lock = new LockStory().after(acquireOf(alice));
      expect(lock.state.fence).toBe(startOfTime + 1);
    });

    it('raises the fence by one and the revision by one', () => {
      const lock = new LockStory().after(acquireOf(alice), { kind: 'release', leaseId: alice });
      const { fence, rev } = lock.state;
      lock.after(acquireOf(bob));
      expect(lock.state).toMatchObject({ fence: fence + 1, rev: rev + 1, holders: [{ fence: fence + 1 }] });
    });

    it('takes another limit than before, because nobody uses the old one', () => {
      const lock = new LockStory().after(acquireOf(alice, { limit: 3 }), { kind: 'release', leaseId: alice });
      expect(lock.tell(acquireOf(bob, { limit: 5 })).kind).toBe('granted');
      expect(lock.state.limit).toBe(5);
    });

    it('takes another limit if the only holder has an expired lease', () => {
      const lock = new LockStory().after(acquireOf(alice, { limit: 3, leaseMs: 1_000 })).pass(1_000 + graceMs);
      expect(lock.tell(acquireOf(bob, { limit: 5 })).kind).toBe('granted');
      expect(lock.state.ended).toEqual([{ leaseId: alice, how: 'expired' }]);
    });
  });

  describe('with a lease that is known', () => {
    it('answers the same grant while it holds, and does not extend it', () => {
      const lock = new LockStory();
      const first = lock.tell(acquireOf(alice));
      expect(lock.pass(9_000).tell(acquireOf(alice))).toEqual(first);
      expect(lock.unchanged).toBe(true);
    });

    it.each([
      ['a task token', { type: 'task-token', token: 'token-1' } as const, true],
      ['a WebSocket', { type: 'websocket', connectionId: 'here' } as const, false],
    ])(
      'that waited by %s and is granted now keeps its delivery: it is needed by tasks, and not by clients',
      (_by, notify, isKept) => {
        const lock = new LockStory().after(
          acquireOf(alice, { leaseMs: 1_000 }),
          acquireOf(bob, { ...waiting, attendMs: null, notify }),
        );
        const again = acquireOf(bob, { ...waiting, attendMs: null, notify });
        expect(lock.pass(1_000 + graceMs).tell(again).kind).toBe('granted');
        expect(lock.state.holders[0]?.notify).toEqual(isKept ? notify : undefined);
      },
    );

    it('is refused if another task token or callback has it, whether that one holds or waits', () => {
      const tokenOf = (token: string) =>
        ({ ...waiting, attendMs: null, notify: { type: 'task-token', token } }) as const;
      const callback = { ...waiting, attendMs: null, notify: { type: 'durable-callback', id: 'two' } } as const;
      const lock = new LockStory().after(acquireOf(alice, tokenOf('one')), acquireOf(bob, tokenOf('one')));
      for (const lease of [alice, bob]) {
        for (const other of [tokenOf('two'), callback]) {
          expect(lock.tell(acquireOf(lease, other))).toEqual({ kind: 'lease-of-another' });
          expect(lock.unchanged).toBe(true);
        }
      }
      expect(lock.tell(acquireOf(bob, tokenOf('one')))).toMatchObject({ kind: 'waiting', position: 1 });
      // A waiter may still change how it waits: here it polls, and then parks again.
      expect(lock.tell(acquireOf(bob, waiting))).toMatchObject({ kind: 'waiting', position: 1 });
      expect(lock.tell(acquireOf(bob, tokenOf('two')))).toMatchObject({ kind: 'waiting', position: 1 });
    });

    it('refuses a lease that was released: a late duplicate does not take the lock again', () => {
      const lock = new LockStory().after(acquireOf(alice), { kind: 'release', leaseId: alice });
      expect(lock.tell(acquireOf(alice))).toEqual({ kind: 'lost', reason: 'released' });
      expect(lock.holders).toEqual([]);
    });

    it('refuses a lease that expired, even if nobody has taken the lock since', () => {
      const lock = new LockStory().after(acquireOf(alice)).pass(10_000);
      expect(lock.tell(acquireOf(alice))).toEqual({ kind: 'lost', reason: 'expired' });
    });

    it('refuses a lease that was revoked', () => {
      const lock = new LockStory().after(acquireOf(alice));
      lock.after({ kind: 'revoke', fence: lock.state.fence, reason: 'stuck' });
      expect(lock.tell(acquireOf(alice))).toMatchObject({ kind: 'lost', reason: 'revoked' });
    });
  });

  describe('of a held lock', () => {
    it('is refused without a wait, and changes nothing', () => {
      const lock = new LockStory().after(acquireOf(alice));
      expect(lock.tell(acquireOf(bob))).toEqual({ kind: 'held' });
      expect(lock.unchanged).toBe(true);
    });

    it('joins the queue with a wait, behind earlier waiters', () => {
      const lock = new LockStory().after(acquireOf(alice), acquireOf(bob, waiting));
      expect(lock.tell(acquireOf(carol, waiting))).toMatchObject({ kind: 'waiting', position: 2 });
      expect(lock.queue).toEqual([bob, carol]);
    });

    it('is refused if it names another limit than the one in use', () => {
      const lock = new LockStory().after(acquireOf(alice, { limit: 3 }));
      expect(lock.tell(acquireOf(bob))).toEqual({ kind: 'limit-mismatch' });
      expect(lock.tell(acquireOf(bob, { limit: 4, ...waiting }))).toEqual({ kind: 'limit-mismatch' });
    });

    it('is granted if enough permits are left', () => {
      const lock = new LockStory().after(acquireOf(alice, { limit: 3, permits: 2 }));
      expect(lock.tell(acquireOf(bob, { limit: 3, permits: 2 }))).toEqual({ kind: 'held' });
      expect(lock.tell(acquireOf(carol, { limit: 3 })).kind).toBe('granted');
    });

    it('is granted to readers together, and to no writer at the same time', () => {
      const lock = new LockStory().after(acquireOf(alice, { mode: 'shared' }), acquireOf(bob, { mode: 'shared' }));
      expect(lock.holders).toEqual([alice, bob]);
      expect(lock.tell(acquireOf(carol, { mode: 'exclusive' }))).toEqual({ kind: 'held' });
      expect(lock.tell(acquireOf(carol)), 'a plain mutex is a writer').toEqual({ kind: 'held' });
    });
  });

  describe('of a lock that others wait for', () => {
    it('does not overtake them, even if it would fit', () => {
      const semaphore = new LockStory().after(
        acquireOf(alice, { limit: 3, permits: 2 }),
        acquireOf(bob, { limit: 3, permits: 3, ...waiting }),
      );
      expect(semaphore.tell(acquireOf(carol, { limit: 3, permits: 1 }))).toEqual({ kind: 'held' });
      const readWrite = new LockStory().after(acquireOf(alice, { mode: 'shared' }), acquireOf(bob, waiting));
      expect(readWrite.tell(acquireOf(carol, { mode: 'shared' }))).toEqual({ kind: 'held' });
    });

    it('first grants to the waiter that is due, then refuses', () => {
      const lock = new LockStory().after(acquireOf(alice, { leaseMs: 1_000 }), acquireOf(bob, waiting));
      expect(lock.pass(1_000 + graceMs).tell(acquireOf(carol))).toEqual({ kind: 'held' });
      expect(lock.holders).toEqual([bob]);
    });

    it('is granted if all of them have left', () => {
      const lock = new LockStory().after(
        acquireOf(alice, { leaseMs: 1_000 }),
        acquireOf(bob, { ...waiting, attendMs: 500 }),
      );
      expect(lock.pass(1_000 + graceMs).tell(acquireOf(carol)).kind).toBe('granted');
      expect(lock.queue).toEqual([]);
    });
  });

  describe('of a lock whose lease expired', () => {
    const ranOut = (passedMs: number, more = {}) =>
      new LockStory().after(acquireOf(alice, { leaseMs: 1_000, ...more })).pass(passedMs);

    it('is refused up to the last millisecond of the grace, and granted after it', () => {
      expect(ranOut(1_000 + graceMs - 1).tell(acquireOf(bob))).toEqual({ kind: 'held' });
      expect(ranOut(1_000 + graceMs).tell(acquireOf(bob)).kind).toBe('granted');
    });

    it('waits for the lock delay as well', () => {
      const delayed = { lockDelayMs: 3_000 };
      expect(ranOut(1_000 + graceMs + 2_999, delayed).tell(acquireOf(bob))).toEqual({ kind: 'held' });
      expect(ranOut(1_000 + graceMs + 3_000, delayed).tell(acquireOf(bob)).kind).toBe('granted');
    });

    it('does not wait for the lock delay if the lease was released', () => {
      const lock = new LockStory().after(acquireOf(alice, { lockDelayMs: 3_000 }), { kind: 'release', leaseId: alice });
      expect(lock.tell(acquireOf(bob)).kind).toBe('granted');
    });

    it('does not end the expired lease if the permits fit without that', () => {
      const lock = ranOut(1_000 + graceMs, { limit: 3 }).after(acquireOf(bob, { limit: 3 }));
      expect(lock.holders).toEqual([alice, bob]);
    });
  });

  describe('by a waiter that asks again', () => {
    it('keeps its place and its deadline, and counts as present again', () => {
      const lock = new LockStory().after(acquireOf(alice), acquireOf(bob, waiting), acquireOf(carol, waiting));
      const place = lock.state.queue[0] as Waiter;
      const answer = lock.pass(5_000).tell(acquireOf(bob, waiting));
      expect(answer).toMatchObject({ kind: 'waiting', position: 1, waiter: { deadlineAt: place.deadlineAt } });
      expect(lock.state.queue[0]?.presentUntil).toBe(place.presentUntil + 5_000);
      expect(lock.queue).toEqual([bob, carol]);
    });

    it('gets the grant that was made in the meantime', () => {
      const lock = new LockStory().after(acquireOf(alice), acquireOf(bob, waiting));
      lock.after({ kind: 'release', leaseId: alice });
      expect(lock.tell(acquireOf(bob, waiting))).toMatchObject({ kind: 'granted', holder: { leaseId: bob } });
    });

    it('is granted at once if a lease before it has expired', () => {
      const lock = new LockStory().after(acquireOf(alice, { leaseMs: 1_000 }), acquireOf(bob, waiting));
      expect(lock.pass(1_000 + graceMs).tell(acquireOf(bob, waiting)).kind).toBe('granted');
    });

    it('learns after its deadline that its wait is over, and how long it was', () => {
      const lock = new LockStory().after(acquireOf(alice), acquireOf(bob, { waitMs: 2_000 }));
      expect(lock.pass(2_000).tell(acquireOf(bob, { waitMs: 2_000 }))).toEqual({
        kind: 'wait-timeout',
        waitedMs: 2_000,
      });
      expect(lock.queue).toEqual([]);
    });

    it('queues again at the end if it was absent for too long, and is in the queue once', () => {
      const away = { ...waiting, attendMs: 1_000 };
      const lock = new LockStory().after(acquireOf(alice), acquireOf(bob, away), acquireOf(carol, waiting));
      expect(lock.pass(1_000).tell(acquireOf(bob, away))).toMatchObject({ kind: 'waiting', position: 2 });
      expect(lock.queue).toEqual([carol, bob]);
    });
  });

  it('under a session of which nothing is known is granted', () => {
    const { now } = new LockStory();
    const acquire = acquireOf(alice, { leaseMs: null, sessionId: 'session-1' });
    expect(decide(unusedLock, acquire, { now, graceMs }).answer.kind).toBe('granted');
  });

  describe('as a waiter', () => {
    it('is present during its poll and the absence after it, and never after its deadline', () => {
      const lock = new LockStory().after(
        acquireOf(alice),
        acquireOf(bob, { waitMs: 60_000, attendMs: 25_000 }),
        acquireOf(carol, { waitMs: 2_000, attendMs: 25_000 }),
      );
      expect(lock.state.queue.map(({ presentUntil }) => presentUntil - lock.now)).toEqual([25_000, 2_000]);
    });

    it('is present until its deadline if it is parked', () => {
      const lock = new LockStory().after(acquireOf(alice), acquireOf(bob, { waitMs: 80_000_000, attendMs: null }));
      expect(lock.state.queue[0]).toMatchObject({ presentUntil: lock.now + 80_000_000 });
    });
  });

  describe('of a lock with a long queue', () => {
    const waiterOf = (index: number, more: Partial<Waiter> = {}): Waiter => ({
      leaseId: `waiter-${index}-0000000000`,
      owner: `waiter ${index}`,
      permits: everyPermit,
      leaseMs: 10_000,
      queuedAt: startOfTime,
      deadlineAt: (startOfTime + 60_000) as Waiter['deadlineAt'],
      presentUntil: (startOfTime + 60_000) as Waiter['presentUntil'],
      ...more,
    });
    const crowded = (length: number, more?: Partial<Waiter>) => {
      const { state } = new LockStory().after(acquireOf(alice));
      return new LockStory({ ...state, queue: Array.from({ length }, (_, index) => waiterOf(index, more)) });
    };

    it('takes the last place in the front', () => {
      const lock = crowded(frontLengthMax - 1);
      expect(lock.tell(acquireOf(dave, waiting))).toMatchObject({ position: frontLengthMax });
      expect(lock.last?.change).toMatchObject({ kind: 'arrive' });
    });

    it('joins behind the front if that is full, and changes nothing yet', () => {
      const lock = crowded(frontLengthMax);
      expect(lock.tell(acquireOf(dave, waiting))).toMatchObject({ kind: 'waiting', position: frontLengthMax + 1 });
      expect(lock.last?.change).toMatchObject({ kind: 'join-behind', waiter: { leaseId: dave } });
      expect(lock.unchanged).toBe(true);
    });

    it('joins behind the front while others wait there, even if the front has space', () => {
      const lock = crowded(1);
      lock.state = { ...lock.state, behind: { first: 7, last: 9 } };
      expect(lock.after(acquireOf(dave, waiting)).last?.change).toMatchObject({
        kind: 'join-behind',
        waiter: { leaseId: dave },
      });
      expect(lock.tell(acquireOf(dave))).toEqual({ kind: 'held' });
    });

    it('drops absent waiters if the front is full', () => {
      const lock = crowded(frontLengthMax, { presentUntil: startOfTime });
      expect(lock.tell(acquireOf(dave, waiting))).toMatchObject({ kind: 'waiting', position: 1 });
      expect(lock.queue).toEqual([dave]);
    });

    it('only appends while there is space, so arrivals never conflict', () => {
      const lock = crowded(frontLengthMax - 1, { presentUntil: startOfTime });
      expect(lock.tell(acquireOf(dave, waiting))).toMatchObject({ kind: 'waiting', position: 1 });
      expect(lock.queue).toHaveLength(frontLengthMax);
    });
  });

  describe('while a grant to another waiter is due', () => {
    const due = () =>
      new LockStory()
        .after(acquireOf(alice, { leaseMs: 1_000 }), acquireOf(bob, { ...waiting, attendMs: 60_000 }))
        .pass(1_000 + graceMs);

    it('writes that grant first, and queues behind it', () => {
      const lock = due().after(acquireOf(carol, waiting));
      expect([lock.holders, lock.queue]).toEqual([[bob], [carol]]);
    });

    it('writes that grant even if it does not wait', () => {
      const lock = due();
      expect(lock.tell(acquireOf(carol))).toEqual({ kind: 'held' });
      expect(lock.holders).toEqual([bob]);
    });
  });

  it('that is refused writes nothing, even if a waiter is absent', () => {
    const lock = new LockStory().after(acquireOf(alice), acquireOf(bob, { ...waiting, attendMs: 100 })).pass(100);
    expect(lock.tell(acquireOf(carol))).toEqual({ kind: 'held' });
    expect(lock.unchanged).toBe(true);
  });
});
