import { describe, expect, it } from 'vitest';
import { lockLimits } from '../../../src/lock/limits.ts';
import { type Holder, unusedLock, type Waiter } from '../../../src/lock/state.ts';
import { acquireOf } from '../../support/lock-worlds.ts';
import { alice, bob, carol, dave, LockStory } from './story.ts';

const { graceMs, waiterAbsenceMs } = lockLimits;
const waiting = { waitMs: 60_000 };
const release = (leaseId: string) => ({ kind: 'release', leaseId }) as const;

describe('give-up', () => {
  const giveUp = (leaseId: string) => ({ kind: 'give-up', leaseId }) as const;

  it('leaves the queue and says how long the wait was', () => {
    const lock = new LockStory().after(acquireOf(alice), acquireOf(bob, waiting)).pass(2_500);
    expect(lock.tell(giveUp(bob))).toEqual({ kind: 'wait-timeout', waitedMs: 2_500 });
    expect(lock.queue).toEqual([]);
  });

  it('answers with the grant that came first, and keeps it', () => {
    const lock = new LockStory().after(acquireOf(alice), acquireOf(bob, waiting), release(alice));
    expect(lock.tell(giveUp(bob))).toMatchObject({ kind: 'granted', holder: { leaseId: bob } });
    expect(lock.holders).toEqual([bob]);
  });

  it('says how a cancelled wait has ended', () => {
    const lock = new LockStory().after(acquireOf(alice), acquireOf(bob, waiting), release(bob));
    expect(lock.tell(giveUp(bob))).toEqual({ kind: 'lost', reason: 'released' });
  });

  it('in a deadlock remembers the cycle, so every later request of the waiter gets it', () => {
    const lock = new LockStory().after(acquireOf(alice), acquireOf(bob, waiting));
    const cycle = '[{"owner":"bob"}]';
    expect(lock.tell({ ...giveUp(bob), deadlock: cycle })).toEqual({ kind: 'deadlock', cycle });
    expect(lock.tell(acquireOf(bob, waiting))).toEqual({ kind: 'deadlock', cycle });
    expect(lock.tell(release(bob))).toEqual({ kind: 'released', reason: 'already_released' });
    expect(lock.tell({ kind: 'renew', leaseId: bob })).toEqual({ kind: 'lost', reason: 'released' });
  });

  it('is answered with an empty cycle if the lock remembers a deadlock without its cycle', () => {
    const lock = new LockStory({ ...unusedLock, ended: [{ leaseId: bob, how: 'deadlock' }] });
    expect(lock.tell(giveUp(bob))).toEqual({ kind: 'deadlock', cycle: '[]' });
  });

  it('of a lease that does not wait changes nothing', () => {
    const lock = new LockStory().after(acquireOf(alice));
    expect(lock.tell(giveUp(bob))).toEqual({ kind: 'wait-timeout', waitedMs: 0 });
    expect(lock.unchanged).toBe(true);
  });

  it('of a waiter that was removed already says how long the wait was', () => {
    const lock = new LockStory().after(acquireOf(alice), acquireOf(bob, waiting));
    const [place] = lock.state.queue as [Waiter];
    lock.pass(60_000).after({ kind: 'sweep' });
    expect(lock.queue).toEqual([]);
    expect(lock.tell({ ...giveUp(bob), queuedAt: place.queuedAt })).toEqual({ kind: 'wait-timeout', waitedMs: 60_000 });
  });

  it.each([undefined, '[]'])('grants to the waiters behind it if only it blocked them (deadlock: %s)', (deadlock) => {
    const lock = new LockStory().after(
      acquireOf(alice, { mode: 'shared' }),
      acquireOf(bob, waiting),
      acquireOf(carol, { mode: 'shared', ...waiting }),
    );
    lock.after({ ...giveUp(bob), ...(deadlock === undefined ? {} : { deadlock }) });
    expect(lock.holders).toEqual([alice, carol]);
  });
});

describe('an absent waiter', () => {
  it('is dropped when it could be granted, and not before', () => {
    const dead = { ...waiting, attendMs: 100 };
    const lock = new LockStory().after(acquireOf(alice), acquireOf(bob, dead), acquireOf(carol, waiting)).pass(100);
    lock.after(release(carol));
    expect(lock.queue).toEqual([bob]);
    lock.after(release(alice));
    expect(lock.queue).toEqual([]);
  });
});

const onSocket = (connectionId: string) =>
  ({ ...waiting, attendMs: null, notify: { type: 'websocket', connectionId } }) as const;

describe('undelivered', () => {
  const grantedTo = (how: object) => {
    const lock = new LockStory().after(acquireOf(alice), acquireOf(bob, how), acquireOf(carol, waiting));
    return lock.after(release(alice)).pass(10);
  };
  const undelivered = ({ state }: LockStory) => ({ kind: 'undelivered', leaseId: bob, fence: state.fence }) as const;

  const asTask = { ...waiting, attendMs: null, notify: { type: 'task-token', token: 'gone' } } as const;

  it.each([
    ['', asTask],
    [', under a session too', { ...asTask, leaseMs: null, sessionId: 'session-1' }],
  ])('grants to the next waiter if the owner cannot come back%s', (_session, how) => {
    const lock = grantedTo(how);
    expect(lock.tell(undelivered(lock))).toEqual({ kind: 'done' });
    expect(lock.holders).toEqual([carol]);
    expect(lock.state.ended[0]).toEqual({ leaseId: bob, how: 'released' });
  });

  it('means one grant: the one with this lease and this fence', () => {
    const semaphore = { limit: 3 };
    const lock = new LockStory().after(
      acquireOf(alice, { ...semaphore, permits: 3 }),
      acquireOf(bob, { ...asTask, ...semaphore }),
      acquireOf(carol, { ...asTask, ...semaphore }),
      release(alice),
    );
    const [first, second] = lock.state.holders as [Holder, Holder];
    for (const fence of [second.fence, first.fence - 1]) {
      expect(lock.tell({ kind: 'undelivered', leaseId: bob, fence })).toEqual({ kind: 'done' });
      expect(lock.unchanged).toBe(true);
    }
    lock.tell({ kind: 'undelivered', leaseId: carol, fence: second.fence });
    expect(lock.holders).toEqual([bob]);
  });

  it('keeps the grant of a client without connection as long as a waiter may be absent', () => {
    const lock = grantedTo(onSocket('gone'));
    expect(lock.tell(undelivered(lock))).toEqual({ kind: 'done' });
    expect(lock.state.holders).toMatchObject([{ leaseId: bob, expiresAt: lock.now + waiterAbsenceMs }]);
    // Told twice, it is not shortened twice.
    lock.pass(1).tell(undelivered(lock));
    expect(lock.unchanged).toBe(true);
    expect(lock.tell({ kind: 'renew', leaseId: bob })).toMatchObject({ kind: 'granted' });
    expect(lock.state.holders[0]?.expiresAt).toBe(lock.now + (lock.state.holders[0]?.leaseMs ?? 0));
  });

  it('never makes the lease of such a client longer', () => {
    for (const leaseMs of [waiterAbsenceMs, waiterAbsenceMs + 10]) {
      const lock = grantedTo({ ...onSocket('gone'), leaseMs });
      expect(lock.tell(undelivered(lock))).toEqual({ kind: 'done' });
      expect(lock.unchanged).toBe(true);
    }
  });

  it.each([
    ['asked again', acquireOf(bob, onSocket('new'))],
    ['renewed it', { kind: 'renew', leaseId: bob } as const],
  ])('does not change a grant whose owner has %s', (_what, command) => {
    const lock = grantedTo(onSocket('gone')).after(command);
    const fence = lock.state.fence;
    lock.tell({ kind: 'undelivered', leaseId: bob, fence });
    expect(lock.unchanged).toBe(true);
    lock.tell({ kind: 'undelivered', leaseId: bob, fence: fence - 1 });
    expect(lock.unchanged).toBe(true);
  });

  it('keeps the grant of a client without connection as long as its session lives', () => {
    const lock = grantedTo({ ...onSocket('gone'), leaseMs: null, sessionId: 'session-1' });
    lock.tell(undelivered(lock));
    expect(lock.unchanged).toBe(true);
    expect(lock.last?.answer).toEqual({ kind: 'done' });
  });

  it('does not change a grant that was not to be delivered, or that there is none of', () => {
    for (const lock of [grantedTo(waiting), new LockStory()]) {
      lock.tell(undelivered(lock));
      expect(lock.unchanged).toBe(true);
    }
  });

  it('does not change a grant that its owner got by asking after it lost its connection', () => {
    const lock = new LockStory().after(acquireOf(alice), acquireOf(bob, onSocket('gone')));
    lock.pass(40_000).tell(acquireOf(bob, onSocket('new')));
    expect(lock.holders).toEqual([bob]);
    lock.tell(undelivered(lock));
    expect(lock.unchanged).toBe(true);
  });
});

describe('step-away', () => {
  const stepAway = (leaseId: string) => ({ kind: 'step-away', leaseId }) as const;

  it('keeps the place as long as a waiter may be absent', () => {
    const lock = new LockStory().after(acquireOf(alice), acquireOf(bob, waiting));
    expect(lock.tell(stepAway(bob))).toEqual({ kind: 'done' });
    expect(lock.state.queue[0]?.presentUntil).toBe(lock.now + waiterAbsenceMs);
    lock.pass(waiterAbsenceMs - 1).after(release(alice));
    expect(lock.holders).toEqual([bob]);
  });

  it('loses the place one millisecond after that', () => {
    const lock = new LockStory().after(acquireOf(alice), acquireOf(bob, waiting), stepAway(bob));
    lock.pass(waiterAbsenceMs).after(release(alice));
    expect(lock.holders).toEqual([]);
  });

  it('never makes the remaining time longer', () => {
    for (const waitMs of [1_000, waiterAbsenceMs]) {
      const lock = new LockStory().after(acquireOf(alice), acquireOf(bob, { waitMs }));
      expect(lock.tell(stepAway(bob))).toEqual({ kind: 'done' });
      expect(lock.unchanged).toBe(true);
    }
  });

  it('changes nothing for a parked waiter if one of its polls broke', () => {
    const lock = new LockStory().after(acquireOf(alice), acquireOf(bob, waiting), acquireOf(bob, onSocket('new')));
    expect(lock.tell(stepAway(bob))).toEqual({ kind: 'done' });
    expect(lock.unchanged).toBe(true);
  });

  it('applies only to waiters that are parked on the connection that ended', () => {
    const lock = new LockStory().after(acquireOf(alice), acquireOf(bob, onSocket('new')));
    lock.tell({ ...stepAway(bob), connectionId: 'old' });
    expect(lock.unchanged).toBe(true);
    lock.tell({ ...stepAway(bob), connectionId: 'new' });
    expect(lock.state.queue[0]?.presentUntil).toBe(lock.now + waiterAbsenceMs);
  });

  it('changes nothing for a caller that does not wait', () => {
    const lock = new LockStory().after(acquireOf(alice));
    for (const command of [stepAway(alice), stepAway(carol), { ...stepAway(carol), connectionId: 'one' }]) {
      expect(lock.tell(command)).toEqual({ kind: 'done' });
      expect(lock.unchanged).toBe(true);
    }
    expect(lock.holders).toEqual([alice]);
  });
});

describe('sweep', () => {
  const sweep = { kind: 'sweep' } as const;

  it('takes over an expired lease for the next waiter, at the exact millisecond', () => {
    const story = () => new LockStory().after(acquireOf(alice, { leaseMs: 1_000 }), acquireOf(bob, waiting));
    expect(
      story()
        .pass(1_000 + graceMs - 1)
        .after(sweep).holders,
    ).toEqual([alice]);
    expect(
      story()
        .pass(1_000 + graceMs)
        .after(sweep).holders,
    ).toEqual([bob]);
  });

  it('grants once, even if many waiters have died', () => {
    const dead = { ...waiting, attendMs: 100 };
    const lock = new LockStory().after(
      acquireOf(alice, { leaseMs: 1_000 }),
      acquireOf(bob, dead),
      acquireOf(carol, dead),
      acquireOf(dave, waiting),
    );
    const { fence } = lock.state;
    lock.pass(1_000 + graceMs).after(sweep);
    expect(lock.state).toMatchObject({ fence: fence + 1, holders: [{ leaseId: dave }], queue: [] });
  });

  it('drops absent waiters even if the lock stays held', () => {
    const lock = new LockStory().after(acquireOf(alice), acquireOf(bob, { ...waiting, attendMs: 100 }));
    lock.pass(100).after(sweep);
    expect(lock.queue).toEqual([]);
    expect(lock.holders).toEqual([alice]);
  });

  it('does not end an expired lease if nobody waits: its holder may still release it', () => {
    const lock = new LockStory()
      .after(acquireOf(alice, { leaseMs: 1_000 }))
      .pass(60_000)
      .after(sweep);
    expect(lock.unchanged).toBe(true);
    expect(lock.tell(release(alice))).toMatchObject({ kind: 'released', reason: 'ok' });
  });
});
