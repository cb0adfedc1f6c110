/** What one change of a lock or of a page means for its waiters, its history and the bus. */
import { describe, expect, it } from 'vitest';
import type { LockCommand } from '../../../src/lock/commands.ts';
import type { Notify, Waiter } from '../../../src/lock/state.ts';
import { busEventOf, eventsOfChange, eventsOfPage } from '../../../src/notify/change-events.ts';
import { append, close, emptyPage, leaveIn, type Page } from '../../../src/queue/pages.ts';
import { epochMs } from '../../../src/time/clock.ts';
import { acquireOf, startOfTime } from '../../support/lock-worlds.ts';
import { alice, bob, carol, LockStory } from '../lock/story.ts';
import { lockKey } from './world.ts';

const ref: Notify = { type: 'event', ref: 'somebody' };
const parked = { waitMs: 60_000, attendMs: null, notify: ref };
const sizes = { front: 2, page: 3 };

/** What the last of these commands means. */
function lastChange(story: LockStory, ...commands: readonly LockCommand[]) {
  story.after(...commands.slice(0, -1));
  const before = story.state;
  story.after(...commands.slice(-1));
  return eventsOfChange({ key: lockKey, before, after: story.state });
}

describe('a change of a lock', () => {
  it('delivers the new grant of a parked waiter, and no other', () => {
    const { grants, endedWaits } = lastChange(
      new LockStory(),
      acquireOf(alice),
      acquireOf(bob, parked),
      acquireOf(carol, { waitMs: 60_000 }),
      { kind: 'release', leaseId: alice },
    );
    expect(grants.map(({ leaseId }) => leaseId)).toEqual([bob]);
    expect(endedWaits).toEqual([]);
    const unparked = lastChange(new LockStory(), acquireOf(alice), acquireOf(bob, { waitMs: 60_000 }), {
      kind: 'release',
      leaseId: alice,
    });
    expect(unparked.grants).toEqual([]);
  });

  it.each([
    ['cancelled', { kind: 'release', leaseId: bob }],
    ['wait-timeout', { kind: 'give-up', leaseId: bob }],
    ['deadlock', { kind: 'give-up', leaseId: bob, deadlock: '[]' }],
  ] as const)('ends the wait of a parked waiter: %s', (how, command) => {
    const { endedWaits, grants } = lastChange(new LockStory(), acquireOf(alice), acquireOf(bob, parked), command);
    expect(endedWaits).toMatchObject([{ how, waiter: { leaseId: bob, notify: ref } }]);
    expect(grants).toEqual([]);
  });

  it('ends the wait of a parked waiter whose session is over', () => {
    const story = new LockStory().openSession('one');
    story.after(acquireOf(alice), acquireOf(bob, { ...parked, leaseMs: null, sessionId: 'one' }));
    story.endSession('one', 'expired');
    const { endedWaits } = lastChange(story, { kind: 'release', leaseId: alice });
    expect(endedWaits).toMatchObject([{ how: 'session-lost' }]);
  });

  it('of a waiter under a session is a timeout at its deadline', () => {
    const story = new LockStory().openSession('one');
    story.after(acquireOf(alice, { leaseMs: 600_000 }), acquireOf(bob, { ...parked, leaseMs: null, sessionId: 'one' }));
    const { endedWaits } = lastChange(story.pass(parked.waitMs), { kind: 'sweep' });
    expect(endedWaits).toMatchObject([{ how: 'wait-timeout' }]);
  });

  it('ends no wait of a waiter that polls, because its own request tells it', () => {
    const { endedWaits } = lastChange(new LockStory(), acquireOf(alice), acquireOf(bob, { waitMs: 60_000 }), {
      kind: 'release',
      leaseId: bob,
    });
    expect(endedWaits).toEqual([]);
  });

  it('is kept with the grant of the hold that it ended, and a grant alone is not kept', () => {
    const story = new LockStory();
    const granted = lastChange(story, acquireOf(alice));
    expect([granted.entries.map(({ event }) => event.type), granted.kept]).toEqual([['granted'], []]);
    const { fence } = story.state;
    const { kept, entries } = lastChange(story.pass(100), { kind: 'release', leaseId: alice });
    expect(kept).toMatchObject([{ event: { type: 'released', heldMs: 100 }, grant: { type: 'granted', fence } }]);
    expect(entries[0]).not.toHaveProperty('grant');
  });

  it('is shown on the bus with the names of its lock, and an id that is always the same', () => {
    const { entries } = lastChange(new LockStory(), acquireOf(alice));
    const [event] = entries.map(busEventOf);
    expect(event).toMatchObject({
      detailType: 'granted',
      time: startOfTime,
      detail: {
        id: `test/wallet/${entries[0]?.place}`,
        namespace: 'test',
        lock: 'wallet',
        type: 'granted',
        at: new Date(startOfTime).toISOString(),
      },
    });
  });
});

describe('a change of a page', () => {
  const waiterOf = (leaseId: string, more: Partial<Waiter> = {}): Waiter => ({
    leaseId,
    owner: `owner of ${leaseId}`,
    permits: 1_024,
    leaseMs: 10_000,
    queuedAt: startOfTime,
    deadlineAt: epochMs(startOfTime + 60_000),
    presentUntil: epochMs(startOfTime + 30_000),
    ...more,
  });
  const joined = (page: Page, waiter: Waiter) => append(page, { waiter, fence: 5 }, sizes) as Page;
  const change = (before: Page, after: Page, at: number = startOfTime) =>
    eventsOfPage({ key: lockKey, before, after, at });
  const empty = emptyPage(7);

  it('tells of a waiter that parks, once: when it joins parked, or parks in the place that it has', () => {
    const polling = joined(empty, waiterOf(alice));
    const both = joined(polling, waiterOf(bob, { notify: ref }));
    expect(change(empty, polling).parked).toEqual([]);
    expect(change(polling, both).parked).toMatchObject([{ leaseId: bob }]);
    const all = { ...both, waiters: both.waiters.map((waiter) => ({ ...waiter, notify: ref })) };
    expect(change(both, all).parked).toMatchObject([{ leaseId: alice }]);
    expect(change(both, all).grants).toEqual([]);
  });

  it.each([
    ['released', 'cancelled', 'wait-cancelled', 60_000],
    ['gave-up', 'wait-timeout', 'wait-timeout', 100],
    // Nothing else ends a parked wait before its deadline.
    ['gave-up', 'deadlock', 'wait-timeout', 101],
  ] as const)('ends the wait of a parked waiter that %s, as %s', (left, how, type, waitMs) => {
    const own = { notify: ref, deadlineAt: epochMs(startOfTime + waitMs) };
    const before = joined(joined(empty, waiterOf(alice, own)), waiterOf(bob, { notify: ref }));
    const after = leaveIn(before, alice, left) as Page;
    const { endedWaits, entries, kept } = change(before, after, startOfTime + 100);
    expect(endedWaits).toMatchObject([{ how, waiter: { leaseId: alice } }]);
    expect(entries).toMatchObject([{ event: { type, waitedMs: 100, fence: 5 } }]);
    expect(kept).toBe(entries);
  });

  it('that closes it ends the waits of its absent waiters only', () => {
    const away = { notify: ref, presentUntil: epochMs(startOfTime + 10) };
    const before = joined(joined(empty, waiterOf(alice, away)), waiterOf(bob, { notify: ref }));
    const closed = close(before, epochMs(startOfTime + 10));
    expect(change(before, closed).endedWaits).toMatchObject([{ how: 'wait-timeout', waiter: { leaseId: alice } }]);
    expect(change(closed, closed).endedWaits, 'they are told once').toEqual([]);
  });

  it('says nothing of the lock itself', () => {
    const { change: shown } = change(empty, joined(empty, waiterOf(alice)));
    expect(shown).toMatchObject({ key: lockKey, before: { rev: 0 }, after: { rev: 0 } });
  });

  it('has a place of its own in the history, whatever joins and leaves', () => {
    const pages = [empty];
    for (const lease of [alice, bob, carol]) pages.push(joined(pages.at(-1) as Page, waiterOf(lease)));
    const released = leaveIn(pages.at(-1) as Page, alice, 'released') as Page;
    const gaveUp = leaveIn(released, bob, 'gave-up') as Page;
    const steps = [...pages, released, gaveUp, close(gaveUp, epochMs(startOfTime + 30_000))];
    const places = steps
      .slice(1)
      .flatMap((page, index) => change(steps[index] as Page, page).entries)
      .map(({ place }) => place);
    expect(places).toHaveLength(6);
    expect(new Set(places).size).toBe(6);
    const [first, ...rest] = places;
    expect(
      rest.every((place) => place > (first ?? '')),
      'joining comes first',
    ).toBe(true);
  });
});
