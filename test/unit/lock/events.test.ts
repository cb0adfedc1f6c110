import { describe, expect, it } from 'vitest';
import { eventsBetween } from '../../../src/lock/events.ts';
import { lockLimits } from '../../../src/lock/limits.ts';
import type { Waiter } from '../../../src/lock/state.ts';
import { eventsInPage } from '../../../src/queue/page-events.ts';
import { close, emptyPage, leaveIn, type Page } from '../../../src/queue/pages.ts';
import { acquireOf } from '../../support/lock-worlds.ts';
import { alice, bob, carol, LockStory } from './story.ts';

const { graceMs } = lockLimits;
const waiting = { waitMs: 60_000 };
const release = (leaseId: string) => ({ kind: 'release', leaseId }) as const;
const ownerOf = (leaseId: string) => `owner of ${leaseId}`;
const eventsOf = (lock: LockStory) => lock.events;

describe('eventsBetween', () => {
  it('reports a grant, without a wait for a caller that did not queue', () => {
    const lock = new LockStory().after(acquireOf(alice));
    const { now: at, state } = lock;
    expect(eventsOf(lock)).toEqual([{ at, type: 'granted', owner: ownerOf(alice), fence: state.fence, waitedMs: 0 }]);
  });

  it('reports an arrival in the queue, with the fence of that time', () => {
    const lock = new LockStory().after(acquireOf(alice)).pass(10).after(acquireOf(bob, waiting));
    expect(eventsOf(lock)).toEqual([{ at: lock.now, type: 'queued', owner: ownerOf(bob), fence: lock.state.fence }]);
  });

  it('reports a renewal', () => {
    const lock = new LockStory().after(acquireOf(alice)).pass(10).after({ kind: 'renew', leaseId: alice });
    expect(eventsOf(lock)).toMatchObject([{ type: 'renewed', fence: lock.state.fence }]);
  });

  it('reports a hand-off as an ending and then a grant, with the times held and waited', () => {
    const lock = new LockStory().after(acquireOf(alice)).pass(1_000).after(acquireOf(bob, waiting));
    lock.pass(2_000).after(release(alice));
    expect(eventsOf(lock)).toMatchObject([
      { type: 'released', owner: ownerOf(alice), heldMs: 3_000 },
      { type: 'granted', owner: ownerOf(bob), waitedMs: 2_000 },
    ]);
  });

  it('reports an expiry when another caller is granted', () => {
    const lock = new LockStory().after(acquireOf(alice, { leaseMs: 1_000 })).pass(1_000 + graceMs);
    lock.after(acquireOf(bob));
    expect(eventsOf(lock)).toMatchObject([{ type: 'expired', heldMs: 1_000 + graceMs }, { type: 'granted' }]);
  });

  it('reports an expiry for each of many leases that are taken over together, although few endings are remembered', () => {
    const many = lockLimits.endedRemembered + 2;
    const lock = new LockStory();
    for (let index = 0; index < many; index++) lock.after(acquireOf(`lease-${index}`, { limit: many, leaseMs: 1_000 }));
    lock.pass(1_000 + graceMs).after(acquireOf(alice, { limit: many, permits: many }));
    expect(lock.eventTypes).toEqual([...Array<string>(many).fill('expired'), 'granted']);
  });

  it('reports a revocation with its reason', () => {
    const lock = new LockStory().after(acquireOf(alice));
    lock.after({ kind: 'revoke', fence: lock.state.fence, reason: 'stuck', by: 'olga' });
    expect(eventsOf(lock)).toMatchObject([{ type: 'revoked', reason: 'stuck', by: 'olga', fence: lock.state.fence }]);
  });

  it('reports a wait that was cancelled, timed out, or was ended by a deadlock', () => {
    const story = () => new LockStory().after(acquireOf(alice), acquireOf(bob, waiting)).pass(500);
    expect(eventsOf(story().after(release(bob)))).toMatchObject([{ type: 'wait-cancelled', waitedMs: 500 }]);
    expect(eventsOf(story().after({ kind: 'give-up', leaseId: bob }))).toMatchObject([
      { type: 'wait-timeout', waitedMs: 500 },
    ]);
    expect(eventsOf(story().after({ kind: 'give-up', leaseId: bob, deadlock: '[]' }))).toMatchObject([
      { type: 'wait-cancelled', reason: 'deadlock' },
    ]);
  });

  it('reports a lease that was lost with its session', () => {
    const lock = new LockStory().openSession('session-1');
    lock.after(acquireOf(alice, { leaseMs: null, sessionId: 'session-1' })).endSession('session-1', 'expired');
    lock.after(acquireOf(bob));
    expect(lock.eventTypes).toEqual(['session-lost', 'granted']);
  });

  it('reports nothing if only the absence of a waiter was written', () => {
    const lock = new LockStory().after(acquireOf(alice), acquireOf(bob, waiting));
    const before = lock.state;
    lock.after({ kind: 'step-away', leaseId: bob });
    expect(lock.state).not.toBe(before);
    expect(eventsBetween(before, lock.state)).toEqual([]);
  });

  it('reports nothing twice, and shows no secret', () => {
    const secrets = { sessionId: 'session-secret-1', notify: { type: 'task-token', token: 'token-secret' } } as const;
    const lock = new LockStory();
    const told = [
      acquireOf(alice, secrets),
      acquireOf(bob, { ...waiting, ...secrets }),
      acquireOf(carol, waiting),
      release(alice),
      release(carol),
      { kind: 'give-up', leaseId: bob } as const,
    ].flatMap((command) => {
      lock.tell(command);
      return lock.events;
    });
    const text = JSON.stringify(told);
    for (const secret of [alice, bob, carol, 'session-secret', 'token-secret']) {
      // Owners are public. In these tests their names contain the lease.
      expect(text.replaceAll(/"owner":"[^"]*"/g, '')).not.toContain(secret);
    }
    expect(told.map(({ type }) => type)).toEqual([
      'granted',
      'queued',
      'queued',
      'released',
      'granted',
      'wait-cancelled',
    ]);
  });

  it('reports a lease as expired if the lock no longer remembers how it ended', () => {
    const lock = new LockStory().after(acquireOf(alice)).pass(1_000);
    const [gone] = eventsBetween(lock.state, { ...lock.state, holders: [], ended: [], changedAt: lock.now });
    expect(gone).toEqual({
      at: lock.now,
      type: 'expired',
      owner: ownerOf(alice),
      fence: lock.state.fence,
      heldMs: 1_000,
    });
  });

  it('reports a holder that is remembered as a resolved deadlock as released', () => {
    const lock = new LockStory().after(acquireOf(alice));
    const ended = [{ leaseId: alice, how: 'deadlock' as const }];
    expect(eventsBetween(lock.state, { ...lock.state, holders: [], ended })).toMatchObject([{ type: 'released' }]);
  });

  it('gives no reason where none was given', () => {
    const lock = new LockStory().after(acquireOf(alice), acquireOf(bob, waiting));
    expect(eventsOf(lock.after(release(bob)))[0]).not.toHaveProperty('reason');
    expect(eventsOf(lock.after(release(alice)))[0]).not.toHaveProperty('reason');
  });

  it('reports waiters that join the front, but not those that move up into it from a page', () => {
    const held = new LockStory().after(acquireOf(alice)).state;
    const joined = new LockStory(held).after(acquireOf(bob, waiting)).state;
    const typesOf = (before: typeof held, next: typeof held) => eventsBetween(before, next).map(({ type }) => type);
    const behind = { first: 7, last: 8 };
    expect(typesOf({ ...held, behind }, { ...joined, behind: { first: 8, last: 8 } })).toEqual([]);
    expect(typesOf({ ...held, behind }, { ...joined, behind })).toEqual(['queued']);
    expect(typesOf(held, { ...joined, behind })).toEqual(['queued']);
    expect(typesOf(held, joined)).toEqual(['queued']);
  });
});

describe('eventsInPage', () => {
  const { state, now } = new LockStory().after(
    acquireOf(alice),
    acquireOf(bob, waiting),
    acquireOf(carol, { ...waiting, attendMs: 100 }),
  );
  const [first, second] = state.queue as [Waiter, Waiter];
  const page: Page = { ...emptyPage(7), waiters: [first, second], fence: 5 };
  const at = now + 400;

  it('reports those that join, with the fence of that time', () => {
    const joined = eventsInPage({ ...page, waiters: [first] }, page, at);
    expect(joined).toEqual([{ at: now, type: 'queued', owner: ownerOf(carol), fence: 5 }]);
    expect(eventsInPage(emptyPage(7), page, at)).toHaveLength(2);
  });

  it.each([
    ['released', 'wait-cancelled'],
    ['gave-up', 'wait-timeout'],
  ] as const)('reports one that %s as %s', (how, type) => {
    const left = leaveIn(page, bob, how) as Page;
    expect(eventsInPage(page, left, at)).toEqual([{ at, type, owner: ownerOf(bob), fence: 5, waitedMs: 400 }]);
  });

  it('reports those that were absent when it was closed, once', () => {
    const closed = close(page, (now + 200) as typeof now);
    expect(eventsInPage(page, closed, at)).toMatchObject([{ type: 'wait-timeout', owner: ownerOf(carol) }]);
    expect(eventsInPage(closed, closed, at)).toEqual([]);
    expect(eventsInPage(page, page, at)).toEqual([]);
  });

  it('reports the waiters that were absent when their page was closed, and no others', () => {
    const lock = new LockStory().after(acquireOf(alice), acquireOf(bob, waiting), acquireOf(carol, waiting));
    const [present, other] = lock.state.queue as [Waiter, Waiter];
    const page = { ...emptyPage(7), waiters: [present, { ...other, presentUntil: lock.now }], fence: lock.state.fence };
    expect(eventsInPage(page, close(page, lock.now), lock.now)).toEqual([
      { at: lock.now, type: 'wait-timeout', owner: ownerOf(carol), fence: lock.state.fence, waitedMs: 0 },
    ]);
  });
});
