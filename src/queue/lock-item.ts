/**
 * A lock as an item: its key, its holders in slots (see below), the front of the queue (see claim-item.ts), where the pages are, the
 * latest endings, and the attributes for TTL and the indexes.
 *
 * A holder of every permit is in slot `0`. There is only one, so a release can put the head of the queue there without
 * knowing its lease. A holder of a part is in a slot named by its lease, so that two grants never write the same
 * attribute. Slots are attributes of the item and not of a map inside it, because a path into a missing map is an error.
 *
 * Every name here may be shown by CloudTrail. So leases are named by their digests (`leaseNameOf`), and a secret is only a value.
 */
import { brokenInvariant } from '../lock/invariants.ts';
import { lockLimits } from '../lock/limits.ts';
import {
  type Behind,
  type Ended,
  endedHows,
  type Holder,
  hasMore,
  holdersWeight,
  isAlwaysNotified,
  type LockKey,
  type LockState,
  lockIdOf,
  permitsHeld,
  type Usual,
  unusedLock,
} from '../lock/state.ts';
import {
  asList,
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
} from '../table/attributes.ts';
import { digestOf } from '../table/digest.ts';
import { awaitedShards, listingShards } from '../table/shape.ts';
import { after, type EpochMs, toTtlSeconds } from '../time/clock.ts';
import { defined } from '../tools/collections.ts';
import {
  claimWords,
  extraWords,
  fromClaimItem,
  fromPartItem,
  fromWaiterItem,
  isUsual,
  notifyWords,
  partWords,
  toClaimItem,
  toPartItem,
  toUsualItem,
  toWaiterItem,
  usualIn,
  usualWords,
} from './claim-item.ts';

export const partitionOf = ({ namespace, name }: LockKey): string => `${namespace}/lock/${name}`;

export const lockItemKey = (key: LockKey): ItemKey => ({ pk: partitionOf(key), sk: 'lock' });

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
});

export const awaitedPartitionOf = (key: LockKey): string => awaitedPartition(shardOf(lockIdOf(key), awaitedShards));

/** Each ending is a separate attribute, newest first, so that one update can move all of them. */
export const endingNames: readonly string[] = Array.from(
  { length: lockLimits.endedRemembered },
  (_, index) => `e${index}`,
);

export const lockWords = {
  ...claimWords,
  ...extraWords,
  ...notifyWords,
  ...partWords,
  ...usualWords,
  ...Object.fromEntries(endingNames.map((name, index) => [`ending${index}`, name])),
  key: 'pk',
  layout: 'lv',
  revision: 'r',
  fence: 'f',
  limit: 'm',
  permitsUsed: 'u',
  /** What the extras of the holders of parts add to the item. Missing if nothing. */
  holdersBytes: 'hb',
  /** What most holders of a part have in common. Set if there was a part since the lock was idle. */
  usual: 'us',
  changedAt: 'at',
  front: 'q',
  firstPage: 'pf',
  lastPage: 'pl',
  /** How leases ended that were not released, by lease. */
  endingNotes: 'ed',
  collectAt: 'ttl',
  listingPartition: 'lp',
  awaitedPartition: 'ap',
  awaitedSince: 'as',
  /** The digest of the session that holds the whole lock. */
  sessionDigest: 'sp',
  /** The holder of the whole lock. Its fence is the lock's. */
  holder: 'h0',
  acquiredAt: 'a0',
  expiresAt: 'x0',
} as const;

const partPrefix = 'h-';

/** The attributes of a holder of a part, by the name of its lease. */
export const partNames = (lease: string) => ({ part: `${partPrefix}${lease}`, partFence: `f-${lease}` });

/**
 * The newest layout that this release knows. It does not touch an item of a newer layout, because it could lose
 * attributes that it does not know. That happens while two releases run side by side during a deployment.
 */
export const layoutKnown = 1;

export const isWhole = ({ permits }: { readonly permits: number }, limit: number): boolean => permits === limit;

/** A release that found nobody waiting writes null. */
function wholeHolderIn(item: Item): Holder[] {
  const held = item[lockWords.holder];
  if (held === null || held === undefined) return [];
  const claim = fromClaimItem(asList(held, lockWords.holder));
  return [
    {
      ...claim,
      fence: integer(item, lockWords.fence),
      acquiredAt: instant(item, lockWords.acquiredAt),
      expiresAt: claim.leaseMs === null ? null : instant(item, lockWords.expiresAt),
    },
  ];
}

const partsIn = (item: Item, usual: Usual | undefined): Holder[] =>
  Object.keys(item)
    .filter((name) => name.startsWith(partPrefix))
    .map((name) => {
      const lease = name.slice(partPrefix.length);
      const part = fromPartItem(lease, asList(item[name], partPrefix), usual);
      return { ...part, fence: integer(item, partNames(lease).partFence) };
    });

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
  checkLayout(item, lockWords.layout);
  const usual = optional(usualIn, item, lockWords.usual);
  return checked({
    rev: integer(item, lockWords.revision),
    fence: integer(item, lockWords.fence),
    limit: integer(item, lockWords.limit),
    holders: [...wholeHolderIn(item), ...partsIn(item, usual)].sort((one, other) => one.fence - other.fence),
    queue: list(item, lockWords.front).map((waiter) => fromWaiterItem(asList(waiter, lockWords.front))),
    ...defined({ behind: behindIn(item), usual }),
    ended: fromEndings(item),
    changedAt: instant(item, lockWords.changedAt),
  });
}

export function checkLayout(item: Item, name: string): void {
  const layout = integer(item, name);
  if (layout > layoutKnown)
    throw unreadable(`a newer release wrote it (layout ${layout}), and this one knows layout ${layoutKnown}`);
}

function behindIn(item: Item): Behind | undefined {
  const last = optional(integer, item, lockWords.lastPage);
  return last === undefined ? undefined : { first: integer(item, lockWords.firstPage), last };
}

export function toLockItem(key: LockKey, state: LockState, retentionMs: number): Item {
  checked(state);
  const { listingPartition: partition } = listingKeyOf(key);
  const weight = holdersWeight(state);
  const item: Item = {
    ...lockItemKey(key),
    [lockWords.listingPartition]: partition,
    [lockWords.revision]: state.rev,
    [lockWords.fence]: state.fence,
    [lockWords.limit]: state.limit,
    [lockWords.layout]: layoutKnown,
    [lockWords.permitsUsed]: permitsHeld(state),
    [lockWords.changedAt]: state.changedAt,
    // A release removes the head of the front without a read, so there must be a list.
    [lockWords.front]: state.queue.map(toWaiterItem),
    ...(weight === 0 ? {} : { [lockWords.holdersBytes]: weight }),
    ...defined({ [lockWords.firstPage]: state.behind?.first, [lockWords.lastPage]: state.behind?.last }),
    ...toEndings(state.ended),
    ...holdersOf(state),
  };
  const [head] = state.queue;
  // The notifier sees only awaited locks. So an immediate grant that it must deliver makes the lock an awaited one.
  const awaitedSince =
    head?.queuedAt ?? (hasMore(state) ? state.changedAt : state.holders.find(isAlwaysNotified)?.acquiredAt);
  if (awaitedSince !== undefined) {
    item[lockWords.awaitedPartition] = awaitedPartitionOf(key);
    item[lockWords.awaitedSince] = awaitedSince;
  }
  // A session may last longer than the retention without a write to the lock's item. So its locks are never collected.
  const heldBySession = state.holders.some((holder) => holder.leaseMs === null);
  if (!heldBySession) item[lockWords.collectAt] = ttlOf(state.changedAt, retentionMs, endsOf(state));
  return item;
}

function holdersOf({ holders, limit, usual: earlier }: LockState): Item {
  const [whole] = holders.filter((holder) => isWhole(holder, limit));
  const parts = holders.filter((holder) => !isWhole(holder, limit));
  const usual = usualAmong(parts, earlier);
  return {
    ...(whole === undefined ? {} : wholeHolder(whole)),
    ...(usual === undefined ? {} : { [lockWords.usual]: toUsualItem(usual) }),
    ...Object.fromEntries(
      parts.flatMap((holder) => {
        const { part, partFence } = partNames(holder.leaseId);
        return [
          [part, toPartItem(holder, usual)],
          [partFence, holder.fence],
        ];
      }),
    ),
  };
}

const wholeHolder = (holder: Holder): Item => ({
  [lockWords.holder]: toClaimItem(holder),
  [lockWords.acquiredAt]: holder.acquiredAt,
  ...(holder.expiresAt === null ? {} : { [lockWords.expiresAt]: holder.expiresAt }),
  ...(holder.sessionId === undefined ? {} : { [lockWords.sessionDigest]: digestOf(holder.sessionId) }),
});

/** What was usual stays so while somebody has it. Then it is what the first holder has. */
function usualAmong(parts: readonly Holder[], earlier: Usual | undefined): Usual | undefined {
  const [first] = parts;
  if (first === undefined || parts.some((part) => isUsual(part, earlier))) return earlier;
  const { owner, permits, leaseMs } = first;
  return { owner, permits, leaseMs };
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
