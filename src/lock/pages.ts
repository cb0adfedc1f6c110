/**
 * The queue beyond its front. A lock's item keeps the first waiters; later ones lie in numbered pages beside it, so that no write to the lock
 * grows with the queue. Pure, as `decide`; `docs/decisions/009-queue-in-pages.md` draws the protocol.
 *
 *     lock: holders ◄── front ◄── first page … last page ◄── join
 *
 * - Numbers only rise and are never used twice. There are pages if `first <= last`.
 * - A waiter joins the last page. Nobody joins the front while there are pages, so order is kept.
 * - A page that is full takes nobody ever again, though some of its waiters may leave: so a waiter that joins by an old number overtakes nobody.
 * - A page is closed before it moves up. From then on it changes no more, so exactly what it shows moves up, whoever does it.
 */
import type { EpochMs } from '../time/clock.ts';
import type { Facts } from './commands.ts';
import { lockLimits } from './limits.ts';
import { isParkedOn, type LockState, type Notify, type PageSpan, type Waiter } from './state.ts';

/** Why a waiter left its page. A repeat of a release is answered by the first, a late duplicate of an acquire by neither. */
export type LeftHow = 'released' | 'gave-up';

/** A waiter that left its page. */
export interface Left {
  readonly leaseId: string;
  readonly how: LeftHow;
  readonly queuedAt: EpochMs;
}

export interface Page {
  readonly number: number;
  /** In the order in which they joined, without those that left. */
  readonly waiters: readonly Waiter[];
  readonly left: readonly Left[];
  /** Set once: from then on nothing in the page changes. */
  readonly closedAt: EpochMs | null;
  /** The lock's fence as the latest waiter that joined knew it. It tells people, and decides nothing. */
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

export const hasPages = ({ pages }: Pick<LockState, 'pages'>): boolean =>
  pages !== undefined && pages.first <= pages.last;

/** How many pages there are. */
export const pageCount = ({ pages }: Pick<LockState, 'pages'>): number =>
  pages === undefined ? 0 : Math.max(0, pages.last - pages.first + 1);

export const pageNumbers = (state: Pick<LockState, 'pages'>): number[] =>
  Array.from({ length: pageCount(state) }, (_, index) => (state.pages as PageSpan).first + index);

/** The span with one more page at its end. The very first number comes from the clock, as fences do: an item that was collected never repeats one. */
export const withOneMore = (pages: PageSpan | undefined, now: EpochMs): PageSpan =>
  pages === undefined ? { first: now, last: now } : { first: pages.first, last: pages.last + 1 };

/** Places that are or were taken. It never falls, so a full page stays full. */
const taken = ({ waiters, left }: Page): number => waiters.length + left.length;

/** Whether it refuses to take a lease: one that waits in it, or gave its place back. A wait that merely ended may begin again, at the end. */
const refuses = ({ waiters, left }: Page, leaseId: string): boolean =>
  waiters.some((waiter) => waiter.leaseId === leaseId) ||
  left.some((entry) => entry.leaseId === leaseId && entry.how === 'released');

/** The page with the waiter at its end; undefined if it is closed or full, or refuses this lease. */
export function append(
  page: Page,
  { waiter, fence }: { readonly waiter: Waiter; readonly fence: number },
  { page: lengthMax }: QueueSizes,
): Page | undefined {
  if (page.closedAt !== null || taken(page) >= lengthMax || refuses(page, waiter.leaseId)) return undefined;
  return { ...page, fence, waiters: [...page.waiters, waiter] };
}

/** Repeating it changes nothing. */
export const close = (page: Page, now: EpochMs): Page => (page.closedAt === null ? { ...page, closedAt: now } : page);

/** A waiter that asks again: until when it is present, and how it waits from now on. */
export interface Attendance {
  readonly leaseId: string;
  readonly aliveUntil: EpochMs;
  readonly notify?: Notify | undefined;
}

/** A waiter whose connection broke: until when its place is kept, and on which connection it must be parked for that, if on any. */
export interface Absence {
  readonly leaseId: string;
  readonly aliveUntil: EpochMs;
  readonly connectionId?: string | undefined;
}

/** The page in which this waiter is present until then; undefined if it is closed or the waiter isn't in it. */
export function attendIn(page: Page, { leaseId, aliveUntil, notify }: Attendance): Page | undefined {
  return withWaiter(page, leaseId, ({ notify: _, ...waiter }) => ({
    ...waiter,
    ...(notify === undefined ? {} : { notify }),
    // Whoever says that it is present need not know its deadline, which bounds it.
    aliveUntil: Math.min(aliveUntil, waiter.deadlineAt) as EpochMs,
  }));
}

/** The page in which this waiter is absent, from then on; undefined also if it is absent earlier, or waits in another way by now. */
export function stepAwayIn(page: Page, { leaseId, aliveUntil, connectionId }: Absence): Page | undefined {
  return withWaiter(page, leaseId, (waiter) => {
    // A poll that broke says nothing about a waiter that is parked by now.
    const isMeant = connectionId === undefined ? waiter.notify === undefined : isParkedOn(waiter, connectionId);
    return !isMeant || waiter.aliveUntil <= aliveUntil ? undefined : { ...waiter, aliveUntil };
  });
}

function withWaiter(page: Page, leaseId: string, change: (waiter: Waiter) => Waiter | undefined): Page | undefined {
  const index = page.waiters.findIndex((waiter) => waiter.leaseId === leaseId);
  const waiter = page.waiters[index];
  const changed = page.closedAt !== null || waiter === undefined ? undefined : change(waiter);
  return changed === undefined ? undefined : { ...page, waiters: page.waiters.with(index, changed) };
}

/** The page without this waiter; undefined if it is closed or the waiter isn't in it. */
export function strikeOut(page: Page, leaseId: string, how: LeftHow): Page | undefined {
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
 * The waiters of a closed page that move up. Those that were absent when it was closed are dropped: by its own times and nothing else, so
 * that all who look at it drop the same ones, and the notifier can tell of them from the page alone.
 */
export const movingUp = ({ waiters, closedAt }: Page): readonly Waiter[] =>
  closedAt === null ? [] : waiters.filter(({ aliveUntil }) => closedAt < aliveUntil);

/** The lock with its first page, which is closed, moved up into the front. A lease that a lost request left here twice moves up once. */
export function moveUp(state: LockState, page: Page): LockState {
  const { pages } = state;
  if (pages === undefined || page.number !== pages.first || page.closedAt === null) return state;
  const known = new Set([...state.holders, ...state.queue, ...state.ended].map(({ leaseId }) => leaseId));
  const queue = [...state.queue, ...movingUp(page).filter(({ leaseId }) => !known.has(leaseId))];
  return { ...state, queue, pages: { ...pages, first: pages.first + 1 } };
}

/** The position of a waiter in a page: exact if it is the only page ahead of which nobody left, else an upper bound. */
export const positionInPage = (
  state: LockState,
  page: number,
  index: number,
  { page: lengthMax }: QueueSizes,
): number => state.queue.length + Math.max(0, page - (state.pages?.first ?? page)) * lengthMax + index + 1;

/** Whether a waiter that joined this page is still in it, as far as the lock tells. */
export const isInPages = ({ pages }: Pick<LockState, 'pages'>, page: number | undefined): boolean =>
  page !== undefined && pages !== undefined && pages.first <= page && page <= pages.last;

/**
 * Whether the front runs low while there are pages: then the notifier moves one up, ahead of need. A third of the front lasts for as long as
 * that takes, unless holders hold for less than a tenth of a second.
 */
export const runsLow = (state: LockState, { front }: QueueSizes): boolean =>
  hasPages(state) && state.queue.length <= front / 3;
