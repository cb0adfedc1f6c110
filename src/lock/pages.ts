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
import type { EpochMs } from '../time/clock.ts';
import type { Facts } from './commands.ts';
import { lockLimits } from './limits.ts';
import {
  hasPages,
  isOfAnotherTask,
  isParkedOn,
  isSameNotify,
  type LockState,
  type Notify,
  type Paged,
  type PageSpan,
  type Waiter,
} from './state.ts';

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

export const queueSizes: QueueSizes = { front: lockLimits.frontLengthMax, page: lockLimits.pageLengthMax };

export const sizesOf = ({ sizes = queueSizes }: Facts): QueueSizes => sizes;

export const pageCount = ({ pages }: Pick<LockState, 'pages'>): number =>
  pages === undefined ? 0 : Math.max(0, pages.last - pages.first + 1);

export const pageNumbers = (state: Pick<LockState, 'pages'>): number[] =>
  Array.from({ length: pageCount(state) }, (_, index) => (state.pages as PageSpan).first + index);

/**
 * The pages with one more at the end. The first number comes from the clock, like the first fence: if the lock's item
 * was deleted, no number is used again.
 */
export const withOneMore = (pages: PageSpan | undefined, now: EpochMs): PageSpan =>
  pages === undefined ? { first: now, last: now } : { first: pages.first, last: pages.last + 1 };

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
  const { pages } = state;
  if (pages === undefined || page.number !== pages.first || page.closedAt === null) return state;
  const known = new Set([...state.holders, ...state.queue, ...state.ended].map(({ leaseId }) => leaseId));
  const queue = [...state.queue, ...movingUp(page).filter(({ leaseId }) => !known.has(leaseId))];
  return { ...state, queue, pages: { ...pages, first: pages.first + 1 } };
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
  if (before.pages === undefined || merged.pages === undefined || merged.pages === before.pages) return undefined;
  return { from: before.pages.first, to: merged.pages.first, waiters: merged.queue.slice(before.queue.length) };
}

/** The position of a waiter in a page. It is exact if no waiter has left the pages ahead, else an upper bound. */
export const positionInPage = (
  state: LockState,
  page: number,
  index: number,
  { page: lengthMax }: QueueSizes,
): number => state.queue.length + Math.max(0, page - (state.pages?.first ?? page)) * lengthMax + index + 1;

/** True if this page has not moved up yet. */
export const isInPages = ({ pages }: Pick<LockState, 'pages'>, page: number | undefined): page is number =>
  page !== undefined && pages !== undefined && pages.first <= page && page <= pages.last;

/**
 * True if there are pages and the front has few waiters left. Then the notifier moves a page up before the front is
 * empty. A third of the front lasts until that is done, unless holders hold for less than a tenth of a second.
 */
export const runsLow = (state: LockState, { front }: QueueSizes): state is Paged<LockState> =>
  hasPages(state) && state.queue.length <= front / 3;
