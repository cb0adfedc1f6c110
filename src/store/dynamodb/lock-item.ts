/**
 * A lock as an item: its key, its holders in slots (see below), the front of the queue (see claim-item.ts), the numbers
 * of the pages, the latest endings, and the attributes for TTL and the indexes.
 *
 * A holder of every permit is in slot `0`. There is only one, so a release can put the head of the queue there without
 * knowing its lease. A holder of a part is in a slot named by its lease, so that two grants never write the same
 * attribute. Slots are attributes of the item and not of a map inside it, because a path into a missing map is an error.
 */
import { brokenInvariant } from '../../lock/invariants.ts';
import { lockLimits } from '../../lock/limits.ts';
import {
  type Ended,
  endedHows,
  type Holder,
  hasPages,
  holdersWeight,
  isAlwaysNotified,
  type LockKey,
  type LockState,
  lockIdOf,
  type PageSpan,
  permitsHeld,
  queueWeight,
  unusedLock,
  type Waiter,
} from '../../lock/state.ts';
import { after, type EpochMs, toTtlSeconds } from '../../time/clock.ts';
import { defined } from '../../tools/collections.ts';
import {
  asMap,
  asText,
  type Item,
  type ItemKey,
  instant,
  integer,
  list,
  map,
  oneOf,
  optional,
  text,
  unreadable,
} from './attributes.ts';
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
import { sessionDigest } from './session-item.ts';
import { awaitedShards, listingShards } from './table.ts';

export const lockItemKey = ({ namespace, name }: LockKey): ItemKey => ({ pk: `${namespace}/lock/${name}`, sk: 'lock' });

/** The lock of an item key. Undefined if the item is of another kind. */
export function lockKeyOf({ pk, sk }: ItemKey): LockKey | undefined {
  if (sk !== 'lock') return undefined;
  const [namespace, kind, name] = pk.split('/') as [string, ...string[]];
  if (kind !== 'lock' || name === undefined) return undefined;
  return { namespace, name };
}

export const listingPartition = (namespace: string, shard: number): string => `${namespace}/locks/${shard}`;
export const awaitedPartition = (shard: number): string => `awaited/${shard}`;

/** The shard of a name in an index. */
export const shardOf = (name: string, shards: number): number => {
  // FNV-1a spreads similar names well. It must never change, because an item stays in the shard where it was put.
  let hash = 0x811c9dc5;
  for (let index = 0; index < name.length; index++) hash = Math.imul(hash ^ name.charCodeAt(index), 0x01000193);
  return (hash >>> 0) % shards;
};

export const listingKeyOf = ({ namespace, name }: LockKey) => ({
  listingPartition: listingPartition(namespace, shardOf(name, listingShards)),
  listingName: name,
});

export const awaitedPartitionOf = (key: LockKey): string => awaitedPartition(shardOf(lockIdOf(key), awaitedShards));

/** Each ending is a separate attribute, newest first, so that one update can move all of them. */
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
  /** Layout 1 has another name for it. So a release that knows only layout 1 fails on this item, and can't lose its pages. */
  revision: 'r',
  fence: 'fence',
  limit: 'lim',
  permitsUsed: 'u',
  /** The weight of the holders of parts. */
  holdersBytes: 'hb',
  changedAt: 'at',
  front: 'q',
  frontBytes: 'qb',
  firstPage: 'pf',
  lastPage: 'pl',
  queuedLeases: 'w',
  /** How leases ended that were not released, by lease. */
  endingNotes: 'ed',
  collectAt: 'ttl',
  listingPartition: 'lp',
  listingName: 'ln',
  awaitedPartition: 'ap',
  awaitedSince: 'as',
  /** The digest of the session that holds the whole lock. */
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
 * The newest layout that this release knows. It does not touch an item of a newer layout, because it could lose
 * attributes that it does not know. That happens while two releases run side by side during a deployment. Layout 2 has
 * the queue in pages.
 */
export const layoutKnown = 2;

export const exclusiveSlot = '0';
export const slotOf = (claim: { readonly leaseId: string; readonly permits: number }, limit: number): string =>
  claim.permits === limit ? exclusiveSlot : claim.leaseId;

const slotPrefix = holderWords('').holder;

function holderIn(item: Item, slot: string, layout: number): Holder | undefined {
  const names = holderWords(slot);
  // A release that found nobody waiting writes null.
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

const noteWords = { how: 'w', fence: 'f', reason: 'r', by: 'b' } as const;

function toEndings(ended: readonly Ended[]): Item {
  const notes = ended.filter(({ how }) => how !== 'released').map((entry) => [entry.leaseId, toNote(entry)]);
  return {
    ...Object.fromEntries(ended.map(({ leaseId }, index) => [endingNames[index], leaseId])),
    ...(notes.length === 0 ? {} : { [lockWords.endingNotes]: Object.fromEntries(notes) }),
  };
}

const toNote = ({ how, fence, reason, by }: Ended): Item => ({
  [noteWords.how]: how,
  ...defined({ [noteWords.fence]: fence, [noteWords.reason]: reason, [noteWords.by]: by }),
});

function fromEndings(item: Item): Ended[] {
  const notes = optional(map, item, lockWords.endingNotes) ?? {};
  return endingNames
    .map((name) => item[name])
    .filter((leaseId) => leaseId !== null && leaseId !== undefined)
    .map((leaseId) => fromNote(asText(leaseId, 'an ending'), notes));
}

function fromNote(leaseId: string, notes: Item): Ended {
  // Without a note it was released.
  if (notes[leaseId] === undefined) return { leaseId, how: 'released' };
  const note = asMap(notes[leaseId], lockWords.endingNotes);
  return {
    leaseId,
    how: oneOf(note, noteWords.how, endedHows),
    ...defined({
      fence: optional(integer, note, noteWords.fence),
      reason: optional(text, note, noteWords.reason),
      by: optional(text, note, noteWords.by),
    }),
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
  return checked({
    rev: integer(item, layout === 1 ? revisionOfLayout1 : lockWords.revision),
    fence: integer(item, lockWords.fence),
    limit: integer(item, lockWords.limit),
    holders,
    queue: layout === 1 ? queueOfLayout1(item) : frontIn(item),
    ...defined({ pages: pagesIn(item) }),
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
    ...defined({ [lockWords.firstPage]: state.pages?.first, [lockWords.lastPage]: state.pages?.last }),
    ...toEndings(state.ended),
  };
  for (const holder of state.holders) addHolder(item, holder, state.limit);
  const [head] = state.queue;
  if (head !== undefined) item[lockWords.queuedLeases] = new Set(state.queue.map(({ leaseId }) => leaseId));
  // The notifier sees only awaited locks. So an immediate grant that it must deliver makes the lock an awaited one.
  const awaitedSince =
    head?.queuedAt ?? (hasPages(state) ? state.changedAt : state.holders.find(isAlwaysNotified)?.acquiredAt);
  if (awaitedSince !== undefined) {
    item[lockWords.awaitedPartition] = awaitedPartitionOf(key);
    item[lockWords.awaitedSince] = awaitedSince;
  }
  // A session may last longer than the retention without a write to the lock's item. So its locks are never collected.
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

/** Called after a read and before a write, so that a state that no rule makes is neither decided on nor written. */
function checked(state: LockState): LockState {
  const broken = brokenInvariant(state);
  if (broken !== undefined) throw unreadable(broken);
  return state;
}

const endsOf = ({ holders, queue }: LockState): EpochMs[] => [
  ...holders.flatMap(({ expiresAt }) => expiresAt ?? []),
  ...queue.map(({ deadlineAt }) => deadlineAt),
];

/** An item stays this much longer than its last lease or wait: longer than any clock is wrong, or any renewal is late. */
const ttlMarginMs = 86_400_000;

/** An idle item is collected after its retention. A held or awaited one stays until its last lease or wait has ended. */
export const ttlOf = (now: EpochMs, retentionMs: number, ends: readonly EpochMs[] = []): number =>
  toTtlSeconds(after(Math.max(now, ...ends.map((end) => end + ttlMarginMs - retentionMs)) as EpochMs, retentionMs));

const toFront = (queue: readonly Waiter[]): Item => ({
  [lockWords.front]: queue.map(toWaiterItem),
  [lockWords.frontBytes]: queueWeight(queue),
});

const frontIn = (item: Item): Waiter[] => waiterMaps(item).map(fromWaiterItem);

const waiterMaps = (item: Item): Item[] => list(item, lockWords.front).map((waiter) => asMap(waiter, lockWords.front));

/**
 * The queue of layout 1, all of it in the item: a front of maps and a tail of texts. Some places are struck out. All of
 * it becomes the front. Nobody joins the front while it is too long.
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
        return { ...waiter, presentUntil: after(waiter.queuedAt, integer({ aliveMs }, 'aliveMs')) };
      }),
  ];
}
