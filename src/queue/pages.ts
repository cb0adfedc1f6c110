/**
 * The queue behind its front. A lock's item has the first waiters. Later waiters are in numbered pages, which are items
 * of their own, so a write to the lock does not grow with the queue. Pure, like `decide`.
 * `docs/decisions/009-queue-in-pages.md` shows the protocol.
 *
 *     lock: holders ◄── front ◄── first page … last page ◄── join
 *
 * - Numbers only rise and are never used twice. There are pages if `first <= last`.
 * - A waiter joins the last page. Nobody joins the front while there are pages, so order is kept.
 * - A page that was full never takes another waiter, even after some have left. So a process that knows an old page
 *   number can't put a waiter in front of others.
 * - A page is closed before it moves up. A closed page never changes, so every process moves up the same waiters.
 */

import type { Facts } from '../lock/commands.ts';
import { lockLimits } from '../lock/limits.ts';
import {
  type Behind,
  hasMore,
  isOfAnotherTask,
  isParkedOn,
  isSameNotify,
  type LockState,
  type Notify,
  type Waiter,
} from '../lock/state.ts';
import { presentWaiters } from '../lock/view.ts';
import type { EpochMs } from '../time/clock.ts';

/** Why a waiter left its page. A release that finds `released` is a repetition. A late duplicate of an acquire joins again only after `gave-up`. */
export type LeftHow = 'released' | 'gave-up';

/** A waiter that left its page. */
export interface Left {
  readonly leaseId: string;
  readonly how: LeftHow;
  readonly queuedAt: EpochMs;
}

export interface Page {
  readonly number: number;
  /** In the order in which they joined, without the waiters that left. */
  readonly waiters: readonly Waiter[];
  readonly left: readonly Left[];
  /** Set once: from then on nothing in the page changes. */
  readonly closedAt: EpochMs | null;
  /** The lock's fence when the last waiter joined. It is only for people. No rule depends on it. */
  readonly fence: number;
}

export const emptyPage = (number: number): Page => ({
  number,
  waiters: [],
  left: [],
  closedAt: null,
  fence: 0,
});

/** How many waiters the front and a page take. */
export interface QueueSizes {
  readonly front: number;
  readonly page: number;
}

/** With ordinary claims, a page of eight stays under 1 KiB, which is one write unit. */
export const queueSizes: QueueSizes = { front: lockLimits.frontLengthMax, page: 8 };

export const pageCount = ({ behind }: Pick<LockState, 'behind'>): number =>
  behind === undefined ? 0 : Math.max(0, behind.last - behind.first + 1);

export const pageNumbers = (state: Pick<LockState, 'behind'>): number[] =>
  Array.from({ length: pageCount(state) }, (_, index) => (state.behind as Behind).first + index);

/**
 * The pages with one more at the end. The first number comes from the clock, like the first fence: if the lock's item
 * was deleted, no number is used again.
 */
export const withOneMore = (behind: Behind | undefined, now: EpochMs): Behind =>
  behind === undefined ? { first: now, last: now } : { first: behind.first, last: behind.last + 1 };

/** How many places are or were taken. The number never falls, so a full page stays full. */
const taken = ({ waiters, left }: Page): number => waiters.length + left.length;

/**
 * True if the lease waits in this page, or was released in it. If its wait ended for another reason, the lease may wait
 * again, at the end.
 */
const refuses = ({ waiters, left }: Page, leaseId: string): boolean =>
  waiters.some((waiter) => waiter.leaseId === leaseId) ||
  left.some((entry) => entry.leaseId === leaseId && entry.how === 'released');

/** The page with the waiter at its end. Undefined if the page is closed or full, or refuses this lease. */
export function append(
  page: Page,
  { waiter, fence }: { readonly waiter: Waiter; readonly fence: number },
  { page: lengthMax }: QueueSizes,
): Page | undefined {
  if (page.closedAt !== null || taken(page) >= lengthMax || refuses(page, waiter.leaseId)) return undefined;
  return { ...page, fence, waiters: [...page.waiters, waiter] };
}

/** A second close keeps the time of the first one. */
export const close = (page: Page, now: EpochMs): Page => (page.closedAt === null ? { ...page, closedAt: now } : page);

/** What a waiter that asks again says: until when it is present, and how it waits from now on. */
export interface Attendance {
  readonly leaseId: string;
  readonly presentUntil: EpochMs;
  readonly notify?: Notify | undefined;
}

/** A waiter's connection broke. Its place is kept until `presentUntil`. If `connectionId` is set, the waiter must be parked on it. */
export interface Absence {
  readonly leaseId: string;
  readonly presentUntil: EpochMs;
  readonly connectionId?: string | undefined;
}

/**
 * The page after a waiter asked again. It is the same object as before if nothing changes, as for a parked waiter that asks
 * on the same connection. Undefined if the page is closed, the waiter isn't in it, or another task waits with its lease.
 */
export function attendIn(page: Page, { leaseId, notify, ...asked }: Attendance): Page | undefined {
  return withWaiter(page, leaseId, (waiter) => {
    if (isOfAnotherTask(waiter.notify, notify)) return undefined;
    // The caller may not know the waiter's deadline. Nobody is present after it.
    const presentUntil = Math.min(asked.presentUntil, waiter.deadlineAt) as EpochMs;
    if (waiter.presentUntil === presentUntil && isSameNotify(waiter.notify, notify)) return waiter;
    const { notify: _, ...rest } = waiter;
    return { ...rest, ...(notify === undefined ? {} : { notify }), presentUntil };
  });
}

/** The page after a waiter's connection broke. Undefined if nothing changes: its place ends earlier, or it waits in another way now. */
export function stepAwayIn(page: Page, { leaseId, presentUntil, connectionId }: Absence): Page | undefined {
  return withWaiter(page, leaseId, (waiter) => {
    // A poll that broke says nothing about a waiter that is parked by now.
    const isMeant = connectionId === undefined ? waiter.notify === undefined : isParkedOn(waiter, connectionId);
    return !isMeant || waiter.presentUntil <= presentUntil ? undefined : { ...waiter, presentUntil };
  });
}

function withWaiter(page: Page, leaseId: string, change: (waiter: Waiter) => Waiter | undefined): Page | undefined {
  const index = page.waiters.findIndex((waiter) => waiter.leaseId === leaseId);
  const waiter = page.waiters[index];
  const changed = page.closedAt !== null || waiter === undefined ? undefined : change(waiter);
  if (changed === undefined) return undefined;
  return changed === waiter ? page : { ...page, waiters: page.waiters.with(index, changed) };
}

/** The page without this waiter. Undefined if the page is closed or the waiter isn't in it. */
export function leaveIn(page: Page, leaseId: string, how: LeftHow): Page | undefined {
  const waiter = page.waiters.find((candidate) => candidate.leaseId === leaseId);
  if (page.closedAt !== null || waiter === undefined) return undefined;
  const { queuedAt } = waiter;
  return {
    ...page,
    waiters: page.waiters.filter((other) => other !== waiter),
    left: [...page.left, { leaseId, how, queuedAt }],
  };
}

/**
 * The waiters of a closed page that move up. Waiters that were absent when the page was closed are dropped. Only times in
 * the page count, so every process drops the same waiters, and the notifier needs only the page to make their events.
 */
export const movingUp = ({ waiters, closedAt }: Page): readonly Waiter[] =>
  closedAt === null ? [] : waiters.filter(({ presentUntil }) => closedAt < presentUntil);

/** The lock after its first page, which is closed, moved up. If a lost request left a lease in the queue twice, it moves up once. */
export function moveUp(state: LockState, page: Page): LockState {
  const { behind } = state;
  if (behind === undefined || page.number !== behind.first || page.closedAt === null) return state;
  const known = new Set([...state.holders, ...state.queue, ...state.ended].map(({ leaseId }) => leaseId));
  const queue = [...state.queue, ...movingUp(page).filter(({ leaseId }) => !known.has(leaseId))];
  return { ...state, queue, behind: { ...behind, first: behind.first + 1 } };
}

/** Pages that move up together: those from `from` on, up to but not including `to`. */
export interface MovedPages {
  readonly from: number;
  readonly to: number;
  /** Their waiters that move up, in order. */
  readonly waiters: readonly Waiter[];
}

/** What `moveUp` did between two states. Undefined if no page moved. */
export function movedBetween(before: LockState, merged: LockState): MovedPages | undefined {
  if (before.behind === undefined || merged.behind === undefined || merged.behind === before.behind) return undefined;
  return { from: before.behind.first, to: merged.behind.first, waiters: merged.queue.slice(before.queue.length) };
}

/** The position of a waiter in a page. It is exact if no waiter has left the pages ahead, else an upper bound. */
export const positionInPage = (
  state: LockState,
  page: number,
  index: number,
  { page: lengthMax }: QueueSizes,
): number => state.queue.length + Math.max(0, page - (state.behind?.first ?? page)) * lengthMax + index + 1;

/** True if this page has not moved up yet. */
export const isInPages = ({ behind }: Pick<LockState, 'behind'>, page: number | undefined): page is number =>
  page !== undefined && behind !== undefined && behind.first <= page && page <= behind.last;

/** An upper bound of the position of a waiter in a page. Undefined if the page has moved up. */
export const positionBehind = (state: LockState, page: number | undefined, sizes: QueueSizes): number | undefined =>
  isInPages(state, page) ? positionInPage(state, page, sizes.page - 1, sizes) : undefined;

/** How many wait at most: the present waiters of the front, and all pages counted as full. */
export const depthOf = (state: LockState, facts: Facts, sizes = queueSizes): number =>
  presentWaiters(state, facts).length + pageCount(state) * sizes.page;

/** Whether the queue has its greatest length. The last page counts as empty if its waiters are not known. */
export const isAtEnd = (state: LockState, sizes: QueueSizes, isLastFull: boolean): boolean =>
  hasMore(state) &&
  state.queue.length + (pageCount(state) - (isLastFull ? 0 : 1)) * sizes.page >= lockLimits.queueLengthMax;
