import { describe, expect, it } from 'vitest';
import { type LockState, unusedLock, type Waiter } from '../../../src/lock/state.ts';
import { runsLow } from '../../../src/lock/view.ts';
import {
  append,
  attendIn,
  close,
  depthOf,
  emptyPage,
  isAtEnd,
  isInPages,
  leaveIn,
  moveUp,
  movingUp,
  type Page,
  pageCount,
  pageNumbers,
  positionBehind,
  positionInPage,
  queueSizes,
  stepAwayIn,
  withOneMore,
} from '../../../src/queue/pages.ts';
import { after, epochMs } from '../../../src/time/clock.ts';
import { startOfTime } from '../../support/lock-worlds.ts';

const sizes = { front: 2, page: 2 };
const waiterOf = (leaseId: string, aliveMs = 10_000): Waiter => ({
  leaseId,
  owner: 'me',
  permits: 1,
  leaseMs: 1_000,
  queuedAt: startOfTime,
  deadlineAt: after(startOfTime, 60_000),
  presentUntil: after(startOfTime, aliveMs),
});
const pageWith = (number: number, ...waiters: Waiter[]): Page => ({ ...emptyPage(number), waiters });
const lockWith = (queue: Waiter[], first: number, last: number): LockState => ({
  ...unusedLock,
  queue,
  behind: { first, last },
});
const leasesOf = (entries: readonly { readonly leaseId: string }[]) => entries.map(({ leaseId }) => leaseId);

describe('a page that moves up', () => {
  const closed = close(pageWith(7, waiterOf('b'), waiterOf('c')), startOfTime);

  it('adds its waiters to the front, in their order, and is no longer the first page', () => {
    const moved = moveUp(lockWith([waiterOf('a')], 7, 9), closed);
    expect(leasesOf(moved.queue)).toEqual(['a', 'b', 'c']);
    expect(moved.behind).toEqual({ first: 8, last: 9 });
  });

  it('changes nothing if it moved up before, or if another page is ahead of it', () => {
    const later = lockWith([waiterOf('a')], 8, 9);
    expect(moveUp(later, closed)).toBe(later);
    const earlier = lockWith([waiterOf('a')], 6, 9);
    expect(moveUp(earlier, closed)).toBe(earlier);
    expect(moveUp(unusedLock, closed)).toBe(unusedLock);
  });

  it('changes nothing while it is open', () => {
    const state = lockWith([], 7, 7);
    expect(moveUp(state, pageWith(7, waiterOf('b')))).toBe(state);
  });

  it('leaves out waiters that were absent when it was closed, and leases that the lock knows', () => {
    const page = close(pageWith(7, waiterOf('absent', 0), waiterOf('a'), waiterOf('over'), waiterOf('b')), startOfTime);
    const state = { ...lockWith([waiterOf('a')], 7, 7), ended: [{ leaseId: 'over', how: 'deadlock' as const }] };
    expect(leasesOf(moveUp(state, page).queue)).toEqual(['a', 'b']);
  });

  it('keeps the time at which it was first closed', () => {
    expect(close(closed, after(startOfTime, 5)).closedAt).toBe(startOfTime);
  });
});

describe('a page', () => {
  it('takes nobody after it was full, even if somebody has left it', () => {
    const full = pageWith(7, waiterOf('a'), waiterOf('b'));
    const left = leaveIn(full, 'a', 'released') as Page;
    expect(append(left, { waiter: waiterOf('c'), fence: 1 }, sizes)).toBeUndefined();
  });

  it('takes a lease again if its wait ended in it, but not if it was released in it', () => {
    const joinAgain = (how: 'released' | 'gave-up') =>
      append(leaveIn(pageWith(7, waiterOf('a')), 'a', how) as Page, { waiter: waiterOf('a'), fence: 1 }, sizes);
    expect(leasesOf(joinAgain('gave-up')?.waiters ?? [])).toEqual(['a']);
    expect(joinAgain('released')).toBeUndefined();
  });

  it('takes others after one was released or gave up in it', () => {
    const sizes = { front: 2, page: 9 };
    const used = leaveIn(leaveIn(pageWith(7, waiterOf('a'), waiterOf('b')), 'a', 'released') as Page, 'b', 'gave-up');
    const joined = append(used as Page, { waiter: waiterOf('c'), fence: 5 }, sizes) as Page;
    expect(joined).toEqual({ ...used, waiters: [waiterOf('c')], fence: 5 });
    expect(append(used as Page, { waiter: waiterOf('a'), fence: 5 }, sizes)).toBeUndefined();
  });

  it('takes no lease twice, and nobody once it is closed', () => {
    const page = pageWith(7, waiterOf('a'));
    expect(append(page, { waiter: waiterOf('a'), fence: 1 }, sizes)).toBeUndefined();
    expect(append(close(page, startOfTime), { waiter: waiterOf('b'), fence: 1 }, sizes)).toBeUndefined();
    expect(leasesOf(append(page, { waiter: waiterOf('b'), fence: 1 }, sizes)?.waiters ?? [])).toEqual(['a', 'b']);
  });

  it('begins empty, and nobody moves up from it while it is open', () => {
    expect(emptyPage(7)).toEqual({ number: 7, waiters: [], left: [], closedAt: null, fence: 0 });
    expect(movingUp(pageWith(7, waiterOf('a')))).toEqual([]);
  });

  it('notes how and since when the one that leaves has waited, and keeps the others', () => {
    const page = pageWith(7, waiterOf('a'), waiterOf('b'));
    expect(leaveIn(page, 'b', 'gave-up')).toEqual({
      ...page,
      waiters: [waiterOf('a')],
      left: [{ leaseId: 'b', how: 'gave-up', queuedAt: startOfTime }],
    });
  });
});

describe('a waiter in a page', () => {
  const parked = { ...waiterOf('b'), notify: { type: 'websocket', connectionId: 'one' } } as const;
  const page = pageWith(7, waiterOf('a'), parked);
  const inMs = (ms: number) => after(startOfTime, ms);

  describe('that asks again', () => {
    it('is present until later, and never after its deadline', () => {
      const asked = attendIn(page, { leaseId: 'a', presentUntil: inMs(20_000) });
      expect(asked).toEqual({ ...page, waiters: [waiterOf('a', 20_000), parked] });
      const long = attendIn(page, { leaseId: 'a', presentUntil: inMs(90_000) });
      expect(long?.waiters[0]?.presentUntil).toBe(inMs(60_000));
    });

    it('waits from now on in the way that it says', () => {
      const { notify } = parked;
      expect(attendIn(page, { leaseId: 'a', presentUntil: inMs(20_000), notify })?.waiters[0]).toStrictEqual({
        ...waiterOf('a', 20_000),
        notify,
      });
      const polled = attendIn(page, { leaseId: 'b', presentUntil: inMs(20_000) });
      expect(polled?.waiters[1]).toStrictEqual(waiterOf('b', 20_000));
    });
  });

  describe('that is parked and asks again', () => {
    const until = inMs(60_000);
    const here = { ...parked, presentUntil: until };
    const there = pageWith(7, waiterOf('a'), here);
    const ask = (connectionId: string, asked = page) =>
      attendIn(asked, { leaseId: 'b', presentUntil: inMs(90_000), notify: { type: 'websocket', connectionId } });

    it('changes nothing if it is present, and asks on the same connection', () => {
      expect(ask('one', there)).toBe(there);
    });

    it('is present again if it was absent, and waits on another connection if it says so', () => {
      expect(ask('one')?.waiters).toEqual([waiterOf('a'), here]);
      const notify = { type: 'websocket', connectionId: 'two' };
      expect(ask('two', there)?.waiters).toEqual([waiterOf('a'), { ...here, notify }]);
    });
  });

  describe('whose connection broke', () => {
    const stepAway = (leaseId: string, ms: number, connectionId?: string) =>
      stepAwayIn(page, { leaseId, presentUntil: inMs(ms), connectionId });

    it('keeps its place for a while', () => {
      expect(stepAway('a', 5_000)).toEqual({ ...page, waiters: [waiterOf('a', 5_000), parked] });
      expect(stepAway('b', 5_000, 'one')?.waiters[1]).toEqual({ ...parked, presentUntil: inMs(5_000) });
    });

    it('is not present for longer than before', () => {
      expect(stepAway('a', 10_000)).toBeUndefined();
      expect(stepAway('a', 10_001)).toBeUndefined();
    });

    it('stays if it waits in another way by now', () => {
      expect(stepAway('b', 5_000)).toBeUndefined();
      expect(stepAway('b', 5_000, 'another')).toBeUndefined();
      expect(stepAway('a', 5_000, 'one')).toBeUndefined();
    });
  });

  it('can do nothing in a page that is closed, or that it is not in', () => {
    for (const [there, leaseId] of [[close(page, startOfTime), 'a'] as const, [page, 'stranger'] as const]) {
      expect(attendIn(there, { leaseId, presentUntil: inMs(20_000) })).toBeUndefined();
      expect(stepAwayIn(there, { leaseId, presentUntil: inMs(5_000) })).toBeUndefined();
      expect(leaveIn(there, leaseId, 'released')).toBeUndefined();
    }
  });
});

describe('a waiter in a page', () => {
  it('is never present after its deadline, whatever its process asked for', () => {
    const late = after(startOfTime, 86_400_000);
    const [waiter] = attendIn(pageWith(7, waiterOf('a')), { leaseId: 'a', presentUntil: late })?.waiters ?? [];
    expect(waiter?.presentUntil).toBe(waiter?.deadlineAt);
  });
});

describe('the numbers of pages', () => {
  it('begin at the clock, and rise by one', () => {
    expect(withOneMore(undefined, startOfTime)).toEqual({ first: startOfTime, last: startOfTime });
    expect(withOneMore({ first: 8, last: 7 }, startOfTime)).toEqual({ first: 8, last: 8 });
  });

  it('are those from the first to the last', () => {
    expect(pageNumbers(lockWith([], 7, 9))).toEqual([7, 8, 9]);
    expect(pageCount(lockWith([], 7, 9))).toBe(3);
    for (const none of [unusedLock, lockWith([], 8, 7), lockWith([], 9, 7)]) {
      expect(pageCount(none)).toBe(0);
      expect(pageNumbers(none)).toEqual([]);
    }
  });

  it('tell whether a page has moved up', () => {
    const state = lockWith([], 7, 9);
    expect([6, 7, 9, 10, undefined].map((page) => isInPages(state, page))).toEqual([false, true, true, false, false]);
    expect(isInPages(unusedLock, 7)).toBe(false);
  });

  it('give an upper bound of a position', () => {
    expect(positionInPage(lockWith([waiterOf('a')], 7, 9), 9, 1, sizes)).toBe(1 + 2 * 2 + 2);
    expect(positionInPage({ ...unusedLock, queue: [waiterOf('a')] }, 9, 1, sizes)).toBe(3);
  });
});

describe('a front', () => {
  it('runs low if a third of it is left and there are pages', () => {
    const front = (count: number) => Array.from({ length: count }, (_, index) => waiterOf(`lease ${index}`));
    const usual = { now: startOfTime, graceMs: 250 };
    expect(runsLow(lockWith(front(3), 7, 7), usual)).toBe(true);
    expect(runsLow(lockWith(front(4), 7, 7), usual)).toBe(false);
    expect(runsLow(lockWith(front(3), 7, 7), { ...usual, frontLengthMax: 9 })).toBe(true);
    expect(runsLow(lockWith(front(3), 8, 7), usual)).toBe(false);
    expect(runsLow({ ...unusedLock, changedAt: epochMs(1) }, usual)).toBe(false);
  });
});

describe('a queue', () => {
  const facts = { now: startOfTime, graceMs: 250 };

  it('shows an upper bound of a position in a page, and of how many wait', () => {
    const state = lockWith([waiterOf('a')], 7, 8);
    expect(depthOf(state, facts, sizes)).toBe(1 + 2 * sizes.page);
    expect(depthOf({ ...unusedLock, queue: [waiterOf('a'), waiterOf('b', 0)] }, facts, sizes)).toBe(1);
    const behind = (page: number | undefined) => positionBehind(state, page, sizes);
    expect([6, 7, 8, undefined].map(behind)).toEqual([undefined, 1 + sizes.page, 1 + 2 * sizes.page, undefined]);
  });

  it('is at its end if ten thousand wait. The last page counts as empty until it is known to be full', () => {
    const pages = 10_000 / queueSizes.page;
    const ends = (count: number) =>
      [false, true].map((isLastFull) => isAtEnd(lockWith([], 1, count), queueSizes, isLastFull));
    expect(ends(pages - 1)).toEqual([false, false]);
    expect(ends(pages)).toEqual([false, true]);
    expect(ends(pages + 1)).toEqual([true, true]);
    expect(isAtEnd(unusedLock, queueSizes, true)).toBe(false);
  });
});
