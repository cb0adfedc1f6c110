/**
 * How a lock lies in its item: itself, its holders in slots (see below), the front of the queue (see claim-item.ts), the numbers of the
 * pages behind it, the latest endings, and what TTL and the indexes need.
 *
 * A holder of every permit sits in slot `0`: there is only one, so a release can put the head of the queue there without
 * knowing who that is. A holder of a part sits in a slot named by its lease, so that grants do not touch each other.
 * Slots are attributes of the item, not of a map inside it, because a path into a map that isn't there yet is an error.
 */

import { brokenInvariant } from '../../lock/invariants.ts';
import { lockLimits } from '../../lock/limits.ts';
import { hasPages } from '../../lock/pages.ts';
import {
  type Ended,
  endedHows,
  type Holder,
  holdersWeight,
  isAlwaysNotified,
  type LockState,
  type PageSpan,
  permitsHeld,
  queueWeight,
  unusedLock,
  type Waiter,
} from '../../lock/state.ts';
import { after, type EpochMs, toTtlSeconds } from '../../time/clock.ts';
import type { LockKey } from '../lock-store.ts';
import {
  claimWords,
  fromClaimItem,
  fromParts,
  fromWaiterItem,
  partsOf,
  partWords,
  toClaimItem,
  toPartItem,
  toWaiterItem,
  waiterWords,
} from './claim-item.ts';
import { awaitedPartitionOf, listingKeyOf, lockItemKey, sessionDigest } from './keys.ts';
import { asMap, asText, type Item, instant, integer, list, map, oneOf, optional, text, unreadable } from './reading.ts';

/** Endings are attributes of their own, newest first, so that one update can move each of them up. */
export const endingNames: readonly string[] = Array.from(
  { length: lockLimits.endedRemembered },
  (_, index) => `e${index}`,
);

export const lockWords = {
  ...claimWords,
  ...waiterWords,
  ...partWords,
  ...Object.fromEntries(endingNames.map((name, index) => [`ending${index}`, name])),
  key: 'pk',
  layout: 'lv',
  /** Not named as in layout 1: a release that knows only that one fails on such an item, instead of losing its pages. */
  revision: 'r',
  fence: 'fence',
  limit: 'lim',
  permitsUsed: 'u',
  /** What the holders of parts weigh. */
  holdersBytes: 'hb',
  changedAt: 'at',
  front: 'q',
  frontBytes: 'qb',
  firstPage: 'pf',
  lastPage: 'pl',
  queuedLeases: 'w',
  /** How leases ended that were not simply given back, by lease. */
  endingNotes: 'ed',
  collectAt: 'ttl',
  listingPartition: 'lp',
  listingName: 'ln',
  awaitedPartition: 'ap',
  awaitedSince: 'as',
  /** The session that holds the whole lock, by its digest. */
  sessionDigest: 'sp',
} as const;

/** The attributes of a holder in a slot. */
export const holderWords = (slot: string) => ({
  holder: `h#${slot}`,
  holderFence: `f#${slot}`,
  acquiredAt: `a#${slot}`,
  expiresAt: `x#${slot}`,
});

/**
 * The newest layout that this release knows. An item of a newer one is not touched: its release may keep something there that this one
 * would lose, as happens while two releases run side by side during a deployment. 2: a queue in pages.
 */
export const layoutKnown = 2;

export const exclusiveSlot = '0';
export const slotOf = (claim: { readonly leaseId: string; readonly permits: number }, limit: number): string =>
  claim.permits === limit ? exclusiveSlot : claim.leaseId;

const slotPrefix = holderWords('').holder;

function holderIn(item: Item, slot: string, layout: number): Holder | undefined {
  const names = holderWords(slot);
  // A release that found nobody waiting leaves null behind.
  if (item[names.holder] === null) return undefined;
  const held = map(item, names.holder);
  const fence = integer(item, names.holderFence);
  if (slot === exclusiveSlot || layout === 1) {
    const claim = fromClaimItem(held);
    const expiresAt = claim.leaseMs === null ? null : (optional(instant, item, names.expiresAt) ?? null);
    return { ...claim, fence, acquiredAt: instant(item, names.acquiredAt), expiresAt };
  }
  const claim = fromClaimItem({ ...held, [lockWords.leaseId]: slot });
  const expiresAt = claim.leaseMs === null ? null : (optional(instant, held, lockWords.endsAt) ?? null);
  return { ...claim, fence, acquiredAt: instant(held, lockWords.grantedAt), expiresAt };
}

const noteWords = { how: 'w', fence: 'f', reason: 'r' } as const;

function toEndings(ended: readonly Ended[]): Item {
  const notes = ended.filter(({ how }) => how !== 'released').map((entry) => [entry.leaseId, toNote(entry)]);
  return {
    ...Object.fromEntries(ended.map(({ leaseId }, index) => [endingNames[index], leaseId])),
    ...(notes.length === 0 ? {} : { [lockWords.endingNotes]: Object.fromEntries(notes) }),
  };
}

const toNote = ({ how, fence, reason }: Ended): Item => ({
  [noteWords.how]: how,
  ...(fence === undefined ? {} : { [noteWords.fence]: fence }),
  ...(reason === undefined ? {} : { [noteWords.reason]: reason }),
});

function fromEndings(item: Item): Ended[] {
  const notes = optional(map, item, lockWords.endingNotes) ?? {};
  return endingNames
    .map((name) => item[name])
    .filter((leaseId) => leaseId !== null && leaseId !== undefined)
    .map((leaseId) => fromNote(asText(leaseId, 'an ending'), notes));
}

function fromNote(leaseId: string, notes: Item): Ended {
  // Without a note it was simply given back.
  if (notes[leaseId] === undefined) return { leaseId, how: 'released' };
  const note = asMap(notes[leaseId], lockWords.endingNotes);
  const fence = optional(integer, note, noteWords.fence);
  const reason = optional(text, note, noteWords.reason);
  return {
    leaseId,
    how: oneOf(note, noteWords.how, endedHows),
    ...(fence === undefined ? {} : { fence }),
    ...(reason === undefined ? {} : { reason }),
  };
}

/** Fails closed if the item is of a newer layout, or damaged. */
export function fromLockItem(item: Item | undefined): LockState {
  if (item === undefined) return unusedLock;
  const layout = optional(integer, item, lockWords.layout) ?? 1;
  if (layout > layoutKnown)
    throw unreadable(`a newer release wrote it (layout ${layout}), and this one knows layout ${layoutKnown}`);
  const holders = Object.keys(item)
    .filter((name) => name.startsWith(slotPrefix))
    .map((name) => holderIn(item, name.slice(slotPrefix.length), layout))
    .filter((holder) => holder !== undefined)
    .sort((one, other) => one.fence - other.fence);
  const pages = pagesIn(item);
  return checked({
    rev: integer(item, layout === 1 ? revisionOfLayout1 : lockWords.revision),
    fence: integer(item, lockWords.fence),
    limit: integer(item, lockWords.limit),
    holders,
    queue: layout === 1 ? queueOfLayout1(item) : frontIn(item),
    ...(pages === undefined ? {} : { pages }),
    ended: fromEndings(item),
    changedAt: instant(item, lockWords.changedAt),
  });
}

/** The name of the revision in layout 1. */
export const revisionOfLayout1 = 'rev';

function pagesIn(item: Item): PageSpan | undefined {
  const last = optional(integer, item, lockWords.lastPage);
  return last === undefined ? undefined : { first: integer(item, lockWords.firstPage), last };
}

export function toLockItem(key: LockKey, state: LockState, retentionMs: number): Item {
  checked(state);
  const listing = listingKeyOf(key);
  const item: Item = {
    ...lockItemKey(key),
    [lockWords.listingPartition]: listing.listingPartition,
    [lockWords.listingName]: listing.listingName,
    [lockWords.revision]: state.rev,
    [lockWords.fence]: state.fence,
    [lockWords.limit]: state.limit,
    [lockWords.layout]: layoutKnown,
    [lockWords.permitsUsed]: permitsHeld(state),
    [lockWords.holdersBytes]: holdersWeight(state),
    [lockWords.changedAt]: state.changedAt,
    ...toFront(state.queue),
    ...(state.pages === undefined
      ? {}
      : { [lockWords.firstPage]: state.pages.first, [lockWords.lastPage]: state.pages.last }),
    ...toEndings(state.ended),
  };
  for (const holder of state.holders) addHolder(item, holder, state.limit);
  const [head] = state.queue;
  if (head !== undefined) item[lockWords.queuedLeases] = new Set(state.queue.map(({ leaseId }) => leaseId));
  // The notifier sees awaited locks alone, so a grant at once that it has to deliver makes the lock one of them.
  const awaitedSince =
    head?.queuedAt ?? (hasPages(state) ? state.changedAt : state.holders.find(isAlwaysNotified)?.acquiredAt);
  if (awaitedSince !== undefined) {
    item[lockWords.awaitedPartition] = awaitedPartitionOf(key);
    item[lockWords.awaitedSince] = awaitedSince;
  }
  // A session may outlive any retention without touching the lock's item, so what it holds is never collected.
  const heldBySession = state.holders.some((holder) => holder.leaseMs === null);
  if (!heldBySession) item[lockWords.collectAt] = ttlOf(state.changedAt, retentionMs, endsOf(state));
  return item;
}

function addHolder(item: Item, holder: Holder, limit: number): void {
  const slot = slotOf(holder, limit);
  const names = holderWords(slot);
  item[names.holderFence] = holder.fence;
  if (slot !== exclusiveSlot) {
    item[names.holder] = toPartItem(holder, holder.acquiredAt, holder.expiresAt);
    return;
  }
  item[names.holder] = toClaimItem(holder);
  item[names.acquiredAt] = holder.acquiredAt;
  if (holder.expiresAt !== null) item[names.expiresAt] = holder.expiresAt;
  if (holder.sessionId !== undefined) item[lockWords.sessionDigest] = sessionDigest(holder.sessionId);
}

/** Checked after a read and before a write: a state that no rule makes is neither decided on nor spread. */
function checked(state: LockState): LockState {
  const broken = brokenInvariant(state);
  if (broken !== undefined) throw unreadable(broken);
  return state;
}

const endsOf = ({ holders, queue }: LockState): EpochMs[] => [
  ...holders.flatMap(({ expiresAt }) => (expiresAt === null ? [] : [expiresAt])),
  ...queue.map(({ deadlineAt }) => deadlineAt),
];

/** What is still in force is kept for this much longer: more than any clock is wrong by, and than a holder may be late to renew. */
const ttlMarginMs = 86_400_000;

/** An idle item goes after its retention; one that is held or awaited never before its last lease or wait has ended. */
export const ttlOf = (now: EpochMs, retentionMs: number, ends: readonly EpochMs[] = []): number =>
  toTtlSeconds(after(Math.max(now, ...ends.map((end) => end + ttlMarginMs - retentionMs)) as EpochMs, retentionMs));

const toFront = (queue: readonly Waiter[]): Item => ({
  [lockWords.front]: queue.map(toWaiterItem),
  [lockWords.frontBytes]: queueWeight(queue),
});

const frontIn = (item: Item): Waiter[] => waiterMaps(item).map(fromWaiterItem);

const waiterMaps = (item: Item): Item[] => list(item, lockWords.front).map((waiter) => asMap(waiter, lockWords.front));

/**
 * The queue as layout 1 had it, wholly in the item: a front of maps and a tail of texts, with places struck out. All of it becomes the
 * front, which drains; nobody joins it any more while it is too long.
 */
function queueOfLayout1(item: Item): Waiter[] {
  const tail = item.t === undefined ? [] : list(item, 't').map((waiter) => asText(waiter, 't'));
  const isStruck = (waiter: Item) => waiter[waiterWords.presentUntil] === 0;
  return [
    ...waiterMaps(item)
      .filter((waiter) => !isStruck(waiter))
      .map(fromWaiterItem),
    ...tail
      .filter((written) => written !== '-')
      .map((written) => {
        const [leaseId, owner, permits, leaseMs, queuedAt, waitMs, aliveMs, extras] = partsOf(written);
        const waiter = fromParts([leaseId, owner, permits, leaseMs, queuedAt, waitMs, extras]);
        return { ...waiter, aliveUntil: after(waiter.queuedAt, integer({ aliveMs }, 'aliveMs')) };
      }),
  ];
}
