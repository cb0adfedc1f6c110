import { describe, expect, it } from 'vitest';
import type { LockCommand } from '../../../src/lock/commands.ts';
import { lockLimits } from '../../../src/lock/limits.ts';
import type { LockState, Waiter } from '../../../src/lock/state.ts';
import { wantsMore } from '../../../src/lock/view.ts';
import { acquireOf } from '../../support/lock-worlds.ts';
import { alice, bob, carol, dave, LockStory } from './story.ts';

const { graceMs, frontLengthMax } = lockLimits;
const waiting = { waitMs: 60_000 };
const semaphore = { limit: 3 };
const moveUp = { kind: 'move-up' };
const release = (leaseId: string) => ({ kind: 'release', leaseId }) as const;
/** The lock with waiters behind its front. */
const behind = ({ state }: LockStory, more: Partial<LockState> = {}) =>
  new LockStory({ ...state, behind: { first: 7, last: 8 }, ...more });
const changeOf = (lock: LockStory, command: LockCommand) => lock.after(command).last?.change;

describe('the first page moves up', () => {
  it('before a lock with an empty front becomes free, and nothing else is decided', () => {
    const lock = behind(new LockStory().after(acquireOf(alice)));
    expect(changeOf(lock, release(alice))).toEqual(moveUp);
    expect(lock.last?.answer).toEqual({ kind: 'released', reason: 'ok' });
    expect(lock.unchanged).toBe(true);
  });

  it('before an expired lease is taken over', () => {
    const lock = behind(new LockStory().after(acquireOf(alice, { leaseMs: 1_000 })));
    expect(changeOf(lock.pass(1_000 + graceMs - 1), acquireOf(bob, waiting))).toMatchObject({ kind: 'join-behind' });
    expect(changeOf(lock.pass(1), acquireOf(bob, waiting))).toEqual(moveUp);
    expect(changeOf(lock, acquireOf(bob))).toEqual(moveUp);
    expect(lock.unchanged).toBe(true);
  });

  it('only if every lease of the lock is over', () => {
    const lock = behind(
      new LockStory().after(acquireOf(alice, { ...semaphore, leaseMs: 1_000 }), acquireOf(bob, semaphore)),
    );
    expect(changeOf(lock.pass(1_000 + graceMs), { kind: 'step-away', leaseId: dave })).toEqual({ kind: 'none' });
  });

  it('not while somebody is in the front', () => {
    const lock = behind(new LockStory().after(acquireOf(alice), acquireOf(bob, waiting), acquireOf(carol, waiting)));
    expect(changeOf(lock, release(alice))).toEqual({ kind: 'replace' });
    expect(lock.holders).toEqual([bob]);
    expect(changeOf(lock.pass(10_000 + graceMs), { kind: 'step-away', leaseId: dave })).toEqual({ kind: 'none' });
  });

  it('not for a renewal, which serves nobody', () => {
    const lock = behind(new LockStory().after(acquireOf(alice, { leaseMs: 1_000 })));
    lock.pass(1_000 + graceMs);
    expect(changeOf(lock, { kind: 'renew', leaseId: alice })).toEqual({ kind: 'none' });
    expect(lock.last?.answer).toEqual({ kind: 'lost', reason: 'expired' });
  });

  it('not if there are no pages', () => {
    const lock = new LockStory().after(acquireOf(alice));
    expect(changeOf(behind(lock, { behind: { first: 8, last: 7 } }), release(alice))).toEqual({ kind: 'replace' });
    expect(changeOf(lock, release(alice))).toEqual({ kind: 'replace' });
  });
});

describe('sweep', () => {
  it('moves a page up if permits are free and the front is empty', () => {
    const lock = behind(new LockStory().after(acquireOf(alice, semaphore)));
    expect(changeOf(lock, { kind: 'sweep' })).toEqual(moveUp);
    expect(lock.last?.answer).toEqual({ kind: 'done' });
    expect(lock.unchanged).toBe(true);
  });

  it('first grants to the front', () => {
    const lock = new LockStory().after(
      acquireOf(alice, { ...semaphore, permits: 3, leaseMs: 1_000 }),
      acquireOf(bob, { ...semaphore, ...waiting }),
    );
    const served = behind(lock);
    expect(changeOf(served.pass(1_000 + graceMs), { kind: 'sweep' })).toEqual({ kind: 'replace' });
    expect(served.holders).toEqual([bob]);
    expect(changeOf(served, { kind: 'sweep' })).toEqual(moveUp);
  });

  it('changes nothing if no permit is free, or without pages', () => {
    const held = new LockStory().after(acquireOf(alice));
    expect(changeOf(behind(held), { kind: 'sweep' })).toEqual({ kind: 'none' });
    expect(changeOf(held, { kind: 'sweep' })).toEqual({ kind: 'none' });
    expect(held.last?.answer).toEqual({ kind: 'done' });
  });
});

describe('refill', () => {
  const crowd = (length: number) => {
    const lock = new LockStory().after(acquireOf(alice));
    for (let index = 0; index < length; index += 1) lock.after(acquireOf(`waiter-${index}-0000000000`, waiting));
    return lock;
  };
  const few = Math.floor(frontLengthMax / 3);

  it('moves a page up if the front runs low', () => {
    const lock = behind(crowd(few));
    expect(changeOf(lock, { kind: 'refill' })).toEqual(moveUp);
    expect(lock.last?.answer).toEqual({ kind: 'done' });
    expect(lock.unchanged).toBe(true);
  });

  it('grants to waiters that moved up if permits are free', () => {
    const { queue } = new LockStory().after(
      acquireOf(alice, { ...semaphore, permits: 3 }),
      acquireOf(bob, { ...semaphore, ...waiting }),
      acquireOf(carol, { ...semaphore, ...waiting }),
    ).state;
    const { state } = new LockStory().after(acquireOf(alice, semaphore));
    const lock = new LockStory({ ...state, queue });
    expect(changeOf(lock, { kind: 'refill' })).toEqual({ kind: 'replace' });
    expect(lock.holders).toEqual([alice, bob, carol]);
  });

  it('changes nothing if enough wait in the front, or without pages', () => {
    for (const lock of [behind(crowd(few + 1)), crowd(few)]) {
      expect(changeOf(lock, { kind: 'refill' })).toEqual({ kind: 'none' });
      expect(lock.last?.answer).toEqual({ kind: 'done' });
    }
  });
});

describe('wantsMore', () => {
  const isWanted = ({ state, facts }: LockStory) => wantsMore(state, facts);

  it('is true if permits are free, or may be taken, and all waiters are in pages', () => {
    expect(isWanted(behind(new LockStory().after(acquireOf(alice, semaphore))))).toBe(true);
    const held = behind(new LockStory().after(acquireOf(alice, { leaseMs: 1_000 })));
    expect(isWanted(held)).toBe(false);
    expect(isWanted(held.pass(1_000 + graceMs))).toBe(true);
  });

  it('is false if somebody is in the front, or nobody is in pages', () => {
    const lock = new LockStory().after(
      acquireOf(alice, semaphore),
      acquireOf(bob, { ...semaphore, permits: 3, ...waiting }),
    );
    expect(isWanted(behind(lock))).toBe(false);
    expect(isWanted(new LockStory().after(acquireOf(alice, semaphore)))).toBe(false);
  });
});

describe('the change of a decision', () => {
  const held = () => new LockStory().after(acquireOf(alice), acquireOf(bob, waiting), acquireOf(carol, waiting));

  it('is none if nothing changes', () => {
    expect(changeOf(held(), acquireOf(alice))).toEqual({ kind: 'none' });
    expect(changeOf(held(), acquireOf(dave))).toEqual({ kind: 'none' });
  });

  it('is one place for a waiter that comes, asks again, steps away or leaves from behind', () => {
    const lock = held();
    expect(changeOf(lock, acquireOf(dave, waiting))).toEqual({ kind: 'arrive', waiter: lock.state.queue[2] });
    expect(changeOf(lock.pass(10), acquireOf(carol, waiting))).toEqual({
      kind: 'attend',
      index: 1,
      waiter: lock.state.queue[1],
    });
    expect(changeOf(lock, { kind: 'step-away', leaseId: carol })).toEqual({
      kind: 'attend',
      index: 1,
      waiter: lock.state.queue[1],
    });
    const [, second, third] = lock.state.queue;
    expect(changeOf(lock, { kind: 'give-up', leaseId: dave })).toEqual({
      kind: 'leave',
      index: 2,
      waiter: third,
      isRemembered: false,
    });
    expect(changeOf(lock, release(carol))).toEqual({ kind: 'leave', index: 1, waiter: second, isRemembered: true });
  });

  it('is the whole state if the first waiter leaves, or one waits in another way', () => {
    expect(changeOf(held(), release(bob))).toEqual({ kind: 'replace' });
    expect(changeOf(held(), { kind: 'give-up', leaseId: bob })).toEqual({ kind: 'replace' });
    const notify = { type: 'websocket', connectionId: 'one' } as const;
    const lock = held();
    expect(changeOf(lock, acquireOf(carol, { ...waiting, attendMs: null, notify }))).toEqual({ kind: 'replace' });
    expect(lock.state.queue[1]).toMatchObject({ leaseId: carol, notify });
    expect(changeOf(lock, acquireOf(carol, waiting))).toEqual({ kind: 'replace' });
    expect(lock.state.queue[1]).not.toHaveProperty('notify');
  });

  it('is the whole state if a grant is due when a waiter behind another one leaves', () => {
    for (const leave of [release(dave), { kind: 'give-up', leaseId: dave } as const]) {
      const lock = held()
        .after(acquireOf(dave, waiting))
        .pass(10_000 + graceMs);
      expect(changeOf(lock, leave)).toEqual({ kind: 'replace' });
      expect([lock.holders, lock.queue]).toEqual([[bob], [carol]]);
    }
  });

  it('is the whole state if a grant to another is due when a waiter asks again', () => {
    const lock = held().pass(10_000 + graceMs);
    expect(changeOf(lock, acquireOf(carol, waiting))).toEqual({ kind: 'replace' });
    expect([lock.holders, lock.queue]).toEqual([[bob], [carol]]);
    expect(lock.last?.answer).toMatchObject({ kind: 'waiting', position: 1 });
  });

  it('is one place if a waiter asks again while another one is absent, who stays until the lock is settled', () => {
    const lock = new LockStory().after(
      acquireOf(alice),
      acquireOf(bob, { ...waiting, attendMs: 100 }),
      acquireOf(carol, waiting),
      acquireOf(dave, waiting),
    );
    const change = changeOf(lock.pass(100), acquireOf(dave, waiting));
    expect(change).toEqual({ kind: 'attend', index: 2, waiter: lock.state.queue[2] });
    expect(lock.queue).toEqual([bob, carol, dave]);
    expect(lock.last?.answer).toMatchObject({ position: 2 });
  });

  it('is to settle if an absent waiter comes back too late, and others wait in pages', () => {
    const lock = behind(new LockStory().after(acquireOf(alice), acquireOf(bob, { ...waiting, attendMs: 1_000 })));
    expect(changeOf(lock.pass(1_000), acquireOf(bob, waiting))).toEqual({ kind: 'settle' });
    // Its old entry is gone, so a page can take it.
    expect(lock.queue).toEqual([]);
    expect(changeOf(lock, acquireOf(bob, waiting))).toMatchObject({ kind: 'join-behind' });
  });

  it('is nothing if a parked waiter asks again on its connection', () => {
    const parkedOn = (connectionId: string) =>
      acquireOf(carol, { ...waiting, attendMs: null, notify: { type: 'websocket', connectionId } });
    const lock = held().after(parkedOn('one')).pass(10);
    expect(changeOf(lock, parkedOn('one'))).toEqual({ kind: 'none' });
    expect(lock.last?.answer).toEqual({ kind: 'waiting', waiter: lock.state.queue[1], position: 2 });
    // Its presence follows its connection. If it was lost, it is written again.
    lock.after({ kind: 'step-away', leaseId: carol, connectionId: 'one' });
    expect(changeOf(lock, parkedOn('one'))).toMatchObject({ kind: 'attend', index: 1 });
    expect(changeOf(lock, parkedOn('two'))).toEqual({ kind: 'replace' });
  });

  it('is a grant that is due, even if a parked waiter asks again on its connection', () => {
    const notify = { type: 'websocket', connectionId: 'one' } as const;
    const again = acquireOf(carol, { ...waiting, attendMs: null, notify });
    const lock = new LockStory()
      .after(acquireOf(alice, { leaseMs: 1_000 }), acquireOf(bob, waiting), again)
      .pass(1_000 + graceMs);
    expect(changeOf(lock, again)).toEqual({ kind: 'replace' });
    expect(lock.holders).toEqual([bob]);
  });

  it('is to settle if a grant to another is due and the newcomer must go to a page', () => {
    const due = () =>
      new LockStory().after(acquireOf(alice, { leaseMs: 1_000 }), acquireOf(bob, waiting), acquireOf(carol, waiting));
    const paged = behind(due()).pass(1_000 + graceMs);
    expect(changeOf(paged, acquireOf(dave, waiting))).toEqual({ kind: 'settle' });
    expect(paged.holders).toEqual([bob]);
    const full = due();
    for (let index = 0; index < frontLengthMax; index += 1) {
      const [, waiter] = full.state.queue as [Waiter, Waiter];
      const another = { ...waiter, leaseId: `waiter-${index}-0000000000` };
      full.state = { ...full.state, queue: [...full.state.queue, another] };
    }
    expect(changeOf(full.pass(1_000 + graceMs), acquireOf(dave, waiting))).toEqual({ kind: 'settle' });
    expect(full.holders).toEqual([bob]);
    const short = due().pass(1_000 + graceMs);
    expect(changeOf(short, acquireOf(dave, waiting))).toEqual({ kind: 'replace' });
    expect(short.queue).toEqual([carol, dave]);
  });
});

describe('a claim', () => {
  it('is kept whole from the request to the grant', () => {
    const more = {
      lockDelayMs: 3_000,
      mode: 'exclusive',
      metadata: { job: 'nightly' },
      notify: { type: 'task-token', token: 'token' },
      sessionId: 'session-1',
    } as const;
    const lock = new LockStory().after(acquireOf(alice, more));
    expect(lock.state.holders[0]).toMatchObject({ ...more, leaseMs: 10_000, owner: `owner of ${alice}` });
    lock.after(acquireOf(bob, { ...more, ...waiting }), release(alice));
    expect(lock.state.holders[0]).toMatchObject({ ...more, leaseId: bob });
  });

  it('has nothing that was not asked for', () => {
    for (const nothing of [{}, { lockDelayMs: 0 }]) {
      const lock = new LockStory().after(acquireOf(alice, nothing));
      expect(Object.keys(lock.state.holders[0] ?? {}).sort()).toEqual(
        ['leaseId', 'owner', 'permits', 'leaseMs', 'fence', 'acquiredAt', 'expiresAt'].sort(),
      );
    }
  });
});

describe('renew', () => {
  it('of a lease under a session answers with the lease and changes nothing', () => {
    const lock = new LockStory().openSession('session-1');
    lock.after(acquireOf(alice, { leaseMs: null, sessionId: 'session-1' }));
    const [holder] = lock.state.holders;
    expect(lock.pass(10).tell({ kind: 'renew', leaseId: alice })).toEqual({ kind: 'granted', holder });
    expect(lock.unchanged).toBe(true);
  });
});
