/**
 * A page of the queue as an item: the waiters in order, as strings. The parts that change while a waiter waits (until when it is present, how
 * it is notified) are separate attributes, named by the digest of the lease. So a process that knows the page and the lease can write that the waiter is
 * present, or leaves, in one write without a read.
 */

import { type LockKey, type Notify, taskOf, type Waiter } from '../lock/state.ts';

import {
  asText,
  type Item,
  type ItemKey,
  instant,
  integer,
  list,
  optional,
  type Update,
  update,
} from '../table/attributes.ts';
import { after, type EpochMs, epochMs, toTtlSeconds } from '../time/clock.ts';
import { fromText, notifyIn, notifyWords, toNotifyItem, toText } from './claim-item.ts';
import { checkLayout, layoutKnown } from './lock-item.ts';
import type { Absence, Attendance, Left, LeftHow, Page, QueueSizes } from './pages.ts';

/** One page of the queue of one lock. */
export interface PageKey {
  readonly lock: LockKey;
  readonly number: number;
}

/** Each page has its own key, so that pages do not use the write units of the lock's key. A name has no `#`. */
export const pageItemKey = ({ lock: { namespace, name }, number }: PageKey): ItemKey => ({
  pk: `${namespace}/page/${name}#${number}`,
  sk: pageSortKey,
});
export const pageSortKey = 'page';

/** The page of an item key. Undefined if the item is of another kind. */
export function pageKeyOf({ pk, sk }: ItemKey): PageKey | undefined {
  const found = sk === pageSortKey ? /^([^/]+)\/page\/([^/#]+)#(\d+)$/.exec(pk) : null;
  if (found === null) return undefined;
  const [, namespace, name, number] = found as string[] as [whole: string, ...parts: [string, string, string]];
  return { lock: { namespace, name }, number: Number(number) };
}

/** Set as soon as a parked waiter joins. The notifier gets only such pages. */
export const parkedName = 'n';

const words = {
  parked: parkedName,
  waiters: 'w',
  closedAt: 'c',
  fence: 'f',
  layout: 'lv',
  collectAt: 'ttl',
  changedAt: 'at',
} as const;

const presenceName = (lease: string): string => `k-${lease}`;
const notifyName = (lease: string): string => `n-${lease}`;
const wordsFor = (lease: string) => ({
  ...words,
  ...notifyWords,
  presence: presenceName(lease),
  notify: notifyName(lease),
});

/** These values replace the instant after a waiter has left. */
const leftMarks: Record<LeftHow, number> = { released: 0, 'gave-up': -1 };

/**
 * A closed page is kept as long as an idle lock. If a process decided on a write and was then frozen, that write must still be refused when
 * the process goes on.
 */
const pageKeptMs = 30 * 86_400_000;
const collectAt = (now: EpochMs): number => toTtlSeconds(after(now, pageKeptMs));

/** A page of a newer layout may have attributes that this release does not know, and would contradict. */
const isOfKnownLayout = '(attribute_not_exists(layout) OR layout <= :layout)';
const isOpen = `attribute_not_exists(closedAt) AND ${isOfKnownLayout}`;
const isWaiting = 'presence > :zero';
const isNotIn = '(attribute_not_exists(presence) OR presence = :gaveUp)';

const parkedBy = (notify: Notify | undefined): string[] =>
  notify === undefined ? [] : ['notify = :notify', 'parked = :parked'];
const notParkedBy = (notify: Notify | undefined): string[] => (notify === undefined ? ['notify'] : []);

/**
 * Appends a waiter. Safe for three reasons. An open page has not moved up, so its waiters are behind all in the front. A page that was full
 * never takes another waiter, so nobody is overtaken. A page knows its leases, so a request that was sent twice joins once. A lease whose
 * wait in this page has ended joins it again, at its end. In a new page, it would be behind waiters that join this page later.
 */
export const appendTo = (
  { waiter, fence }: { readonly waiter: Waiter; readonly fence: number },
  { page: longest }: QueueSizes,
): Update =>
  update(
    {
      set: [
        'waiters = list_append(if_not_exists(waiters, :empty), :waiter)',
        'presence = :until',
        'fence = :fence',
        'changedAt = :now',
        'layout = :layout',
        'collectAt = :collectAt',
        ...parkedBy(waiter.notify),
      ],
      remove: notParkedBy(waiter.notify),
      when: `${isOpen} AND ${isNotIn} AND (attribute_not_exists(waiters) OR size(waiters) < :longest)`,
    },
    wordsFor(waiter.leaseId),
    {
      empty: [],
      waiter: [toText(waiter)],
      until: waiter.presentUntil,
      fence,
      now: waiter.queuedAt,
      layout: layoutKnown,
      collectAt: collectAt(waiter.queuedAt),
      parked: 'parked',
      notify: waiter.notify && toNotifyItem(waiter.notify),
      gaveUp: leftMarks['gave-up'],
      longest,
    },
  );

const hasNoTask = '(attribute_not_exists(notify) OR NOT (notify.notifyType IN (:taskToken, :callback)))';
const isSameTask = `(${hasNoTask} OR notify.address = :task)`;

/**
 * Writes until when a waiter is present, and how it waits from now on. Safe because the page is open, the waiter is in it,
 * and no other task waits with its lease.
 */
export const attendIn = ({ leaseId, presentUntil, notify }: Attendance): Update => {
  const task = taskOf(notify);
  return update(
    {
      set: ['presence = :until', ...parkedBy(notify)],
      remove: notParkedBy(notify),
      when: [isOpen, isWaiting, ...(task === undefined ? [] : [isSameTask])].join(' AND '),
    },
    wordsFor(leaseId),
    {
      until: presentUntil,
      zero: 0,
      notify: notify && toNotifyItem(notify),
      parked: 'parked',
      layout: layoutKnown,
      task,
      taskToken: 't',
      callback: 'd',
    },
  );
};

/**
 * Writes that a waiter is absent from this time on. Safe because it never makes a waiter present for longer, and because it
 * applies only if the waiter still polls, or is parked on this connection.
 */
export const stepAwayIn = ({ leaseId, presentUntil, connectionId }: Absence): Update => {
  const onConnection = 'notify.notifyType = :websocket AND notify.address = :connectionId';
  const asBefore = connectionId === undefined ? 'attribute_not_exists(notify)' : onConnection;
  return update(
    { set: ['presence = :until'], when: `${isOpen} AND presence > :until AND ${asBefore}` },
    wordsFor(leaseId),
    { until: presentUntil, connectionId, websocket: 'w', layout: layoutKnown },
  );
};

/** Removes a waiter. Its mark stays, so a late duplicate of its request does not join again. */
export const leave = (leaseId: string, how: LeftHow, now: EpochMs): Update =>
  update({ set: ['presence = :left', 'changedAt = :now'], when: `${isOpen} AND ${isWaiting}` }, wordsFor(leaseId), {
    left: leftMarks[how],
    zero: 0,
    now,
    layout: layoutKnown,
  });

/** Closes the page for good, even if nobody joined it yet. A second close changes nothing. Only a newer layout refuses it. */
export const close = (now: EpochMs): Update =>
  update(
    {
      set: [
        'closedAt = if_not_exists(closedAt, :now)',
        'changedAt = if_not_exists(closedAt, :now)',
        'layout = :layout',
        'collectAt = :collectAt',
      ],
      when: isOfKnownLayout,
    },
    words,
    { now, layout: layoutKnown, collectAt: collectAt(now) },
  );

export function fromPageItem({ number }: Pick<PageKey, 'number'>, item: Item | undefined): Page {
  if (item === undefined) return { number, waiters: [], left: [], closedAt: null, fence: 0 };
  checkLayout(item, words.layout);
  const texts = item[words.waiters] === undefined ? [] : list(item, words.waiters);
  const joined = texts.map((written) => fromText(asText(written, words.waiters)));
  const latest = new Map(joined.map((waiter) => [waiter.leaseId, waiter]));
  const waiters: Waiter[] = [];
  const left: Left[] = [];
  for (const waiter of joined) {
    const { leaseId, queuedAt } = waiter;
    const until = integer(item, presenceName(leaseId));
    // An earlier wait of this lease ended before it joined again.
    if (latest.get(leaseId) !== waiter || until < 0) left.push({ leaseId, how: 'gave-up', queuedAt });
    else if (until === leftMarks.released) left.push({ leaseId, how: 'released', queuedAt });
    else waiters.push(present(item, waiter, until));
  }
  return {
    number,
    waiters,
    left,
    closedAt: optional(instant, item, words.closedAt) ?? null,
    fence: optional(integer, item, words.fence) ?? 0,
  };
}

function present(item: Item, waiter: Omit<Waiter, 'presentUntil'>, until: number): Waiter {
  const notify = optional(notifyIn, item, notifyName(waiter.leaseId));
  // The process that wrote this time may not have known the deadline. Nobody is present after it.
  const presentUntil = epochMs(Math.min(until, waiter.deadlineAt));
  return { ...waiter, ...(notify === undefined ? {} : { notify }), presentUntil };
}

export const changedAtOf = (item: Item | undefined): number =>
  item === undefined ? 0 : (optional(integer, item, words.changedAt) ?? 0);
