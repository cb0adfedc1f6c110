/**
 * How a lock lies in its item: itself, its holders in slots (see below), the queue (see queue-item.ts), the latest endings, and what
 * TTL and the indexes need. `lock-words.ts` gives each attribute its letters.
 *
 * A holder of every permit sits in slot `0`: there is only one, so a release can put the head of the queue there without
 * knowing who that is. A holder of a part sits in a slot named by its lease, so that grants do not touch each other.
 * Slots are attributes of the item, not of a map inside it, because a path into a map that isn't there yet is an error.
 */
import { brokenInvariant } from '../../lock/invariants.ts';
import {
  type Ended,
  endedHows,
  type Holder,
  isAlwaysNotified,
  type LockState,
  permitsHeld,
  unusedLock,
} from '../../lock/state.ts';
import { after, type EpochMs, toTtlSeconds } from '../../time/clock.ts';
import type { LockKey } from '../lock-store.ts';
import { fromClaimItem, toClaimItem } from './claim-item.ts';
import { awaitedPartitionOf, listingKeyOf, lockItemKey, sessionDigest } from './keys.ts';
import { endingNames, holderWords, lockWords as words } from './lock-words.ts';
import { queueIn, toQueueItem, waitersIn } from './queue-item.ts';
import { asMap, asText, type Item, instant, integer, map, oneOf, optional, text, unreadable } from './reading.ts';

/**
 * The newest layout that this release knows. An item of a newer one is not touched: its release may keep something there that this one
 * would lose, as happens while two releases run side by side during a deployment.
 */
export const layoutKnown = 1;

export const exclusiveSlot = '0';
export const slotOf = (claim: { readonly leaseId: string; readonly permits: number }, limit: number): string =>
  claim.permits === limit ? exclusiveSlot : claim.leaseId;

const slotPrefix = holderWords('').holder;

function holderIn(item: Item, slot: string): Holder | undefined {
  const names = holderWords(slot);
  // A release that found nobody waiting leaves null behind.
  if (item[names.holder] === null) return undefined;
  const claim = fromClaimItem(map(item, names.holder));
  return {
    ...claim,
    fence: integer(item, names.holderFence),
    acquiredAt: instant(item, names.acquiredAt),
    expiresAt: claim.leaseMs === null ? null : (optional(instant, item, names.expiresAt) ?? null),
  };
}

const noteWords = { how: 'w', fence: 'f', reason: 'r' } as const;

function toEndings(ended: readonly Ended[]): Item {
  const notes = ended.filter(({ how }) => how !== 'released').map((entry) => [entry.leaseId, toNote(entry)]);
  return {
    ...Object.fromEntries(ended.map(({ leaseId }, index) => [endingNames[index], leaseId])),
    ...(notes.length === 0 ? {} : { [words.endingNotes]: Object.fromEntries(notes) }),
  };
}

const toNote = ({ how, fence, reason }: Ended): Item => ({
  [noteWords.how]: how,
  ...(fence === undefined ? {} : { [noteWords.fence]: fence }),
  ...(reason === undefined ? {} : { [noteWords.reason]: reason }),
});

function fromEndings(item: Item): Ended[] {
  const notes = optional(map, item, words.endingNotes) ?? {};
  return endingNames
    .map((name) => item[name])
    .filter((leaseId) => leaseId !== null && leaseId !== undefined)
    .map((leaseId) => fromNote(asText(leaseId, 'an ending'), notes));
}

function fromNote(leaseId: string, notes: Item): Ended {
  // Without a note it was simply given back.
  if (notes[leaseId] === undefined) return { leaseId, how: 'released' };
  const note = asMap(notes[leaseId], words.endingNotes);
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
  const layout = optional(integer, item, words.layout) ?? 1;
  if (layout > layoutKnown)
    throw unreadable(`a newer release wrote it (layout ${layout}), and this one knows layout ${layoutKnown}`);
  const holders = Object.keys(item)
    .filter((name) => name.startsWith(slotPrefix))
    .map((name) => holderIn(item, name.slice(slotPrefix.length)))
    .filter((holder) => holder !== undefined)
    .sort((one, other) => one.fence - other.fence);
  return checked({
    rev: integer(item, words.revision),
    fence: integer(item, words.fence),
    limit: integer(item, words.limit),
    holders,
    queue: waitersIn(queueIn(item)),
    ended: fromEndings(item),
    changedAt: instant(item, words.changedAt),
  });
}

export function toLockItem(key: LockKey, state: LockState, retentionMs: number): Item {
  checked(state);
  const listing = listingKeyOf(key);
  const item: Item = {
    ...lockItemKey(key),
    [words.listingPartition]: listing.listingPartition,
    [words.listingName]: listing.listingName,
    [words.revision]: state.rev,
    [words.fence]: state.fence,
    [words.limit]: state.limit,
    [words.permitsUsed]: permitsHeld(state),
    [words.changedAt]: state.changedAt,
    ...toQueueItem(state.queue),
    ...toEndings(state.ended),
  };
  for (const holder of state.holders) addHolder(item, holder, state.limit);
  const [head] = state.queue;
  if (head !== undefined) item[words.queuedLeases] = new Set(state.queue.map(({ leaseId }) => leaseId));
  // The notifier sees awaited locks alone, so a grant at once that it has to deliver makes the lock one of them.
  const awaitedSince = head?.queuedAt ?? state.holders.find(isAlwaysNotified)?.acquiredAt;
  if (awaitedSince !== undefined) {
    item[words.awaitedPartition] = awaitedPartitionOf(key);
    item[words.awaitedSince] = awaitedSince;
  }
  // A session may outlive any retention without touching the lock's item, so what it holds is never collected.
  const heldBySession = state.holders.some((holder) => holder.leaseMs === null);
  if (!heldBySession) item[words.collectAt] = ttlOf(state.changedAt, retentionMs, endsOf(state));
  return item;
}

function addHolder(item: Item, holder: Holder, limit: number): void {
  const names = holderWords(slotOf(holder, limit));
  item[names.holder] = toClaimItem(holder);
  item[names.holderFence] = holder.fence;
  item[names.acquiredAt] = holder.acquiredAt;
  if (holder.expiresAt !== null) item[names.expiresAt] = holder.expiresAt;
  if (holder.sessionId !== undefined && holder.permits === limit)
    item[words.sessionDigest] = sessionDigest(holder.sessionId);
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
