import { describe, expect, it } from 'vitest';
import {
  append,
  close,
  emptyPage,
  leaveIn,
  moveUp,
  type Page,
  positionInPage,
  runsLow,
  withOneMore,
} from '../../../src/lock/pages.ts';
import { type LockState, unusedLock, type Waiter } from '../../../src/lock/state.ts';
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
  aliveUntil: after(startOfTime, aliveMs),
});
const pageWith = (number: number, ...waiters: Waiter[]): Page => ({ ...emptyPage(number), waiters });
const lockWith = (queue: Waiter[], first: number, last: number): LockState => ({
  ...unusedLock,
  queue,
  pages: { first, last },
});
const leasesOf = (entries: readonly { readonly leaseId: string }[]) => entries.map(({ leaseId }) => leaseId);

describe('a page that moves up', () => {
  const closed = close(pageWith(7, waiterOf('b'), waiterOf('c')), startOfTime);

  it('adds its waiters to the front, in their order, and is no longer the first page', () => {
    const moved = moveUp(lockWith([waiterOf('a')], 7, 9), closed);
    expect(leasesOf(moved.queue)).toEqual(['a', 'b', 'c']);
    expect(moved.pages).toEqual({ first: 8, last: 9 });
  });

  it('changes nothing if it moved up before, or if another page is ahead of it', () => {
    const later = lockWith([waiterOf('a')], 8, 9);
    expect(moveUp(later, closed)).toBe(later);
    const earlier = lockWith([waiterOf('a')], 6, 9);
    expect(moveUp(earlier, closed)).toBe(earlier);
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
});

describe('the numbers of pages', () => {
  it('begin at the clock, and rise by one', () => {
    expect(withOneMore(undefined, startOfTime)).toEqual({ first: startOfTime, last: startOfTime });
    expect(withOneMore({ first: 8, last: 7 }, startOfTime)).toEqual({ first: 8, last: 8 });
  });

  it('give an upper bound of a position', () => {
    expect(positionInPage(lockWith([waiterOf('a')], 7, 9), 9, 1, sizes)).toBe(1 + 2 * 2 + 2);
  });
});

describe('a front', () => {
  it('runs low if a third of it is left and there are pages', () => {
    const front = (count: number) => Array.from({ length: count }, (_, index) => waiterOf(`lease ${index}`));
    const usual = { front: 10, page: 8 };
    expect(runsLow(lockWith(front(3), 7, 7), usual)).toBe(true);
    expect(runsLow(lockWith(front(4), 7, 7), usual)).toBe(false);
    expect(runsLow(lockWith(front(3), 8, 7), usual)).toBe(false);
    expect(runsLow({ ...unusedLock, changedAt: epochMs(1) }, usual)).toBe(false);
  });
});
