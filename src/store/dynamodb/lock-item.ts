/**
 * How a lock lies in its item.
 *
 *     pk sk            its key                       rev  fence  lim  used  at     the lock itself
 *     h#S f#S a#S x#S  a holder in slot S: its claim, fence, grant time, end
 *     q t qb w         the queue (see queue-item.ts), its weight, and the leases that are, or were, in it
 *     e0 … e7 ed       the latest leases that ended, and how, of those not simply given back   ttl lp ln ap as sp   for TTL and the indexes
 *
 * Who holds every permit sits in slot `0`: there is only one, so a release can put the head of the queue there without
 * knowing who that is. Who holds a part sits in a slot named by its lease, so that grants do not touch each other.
 * Slots are attributes of the item, not of a map inside it, because a path into a map that isn't there yet is an error.
 */
import { lockLimits } from '../../lock/limits.ts';
import { type Ended, type EndedHow, type Holder, type LockState, permitsHeld, unusedLock } from '../../lock/state.ts';
import { after, type EpochMs, epochMs, toTtlSeconds } from '../../time/clock.ts';
import { type LockKey, lockIdOf } from '../lock-store.ts';
import { type ClaimItem, fromClaimItem, toClaimItem } from './claim-item.ts';
import { listingKeyOf, lockItemKey, shardOf } from './keys.ts';
import { fromQueueItem, type QueueItem, toQueueItem } from './queue-item.ts';
import { awaitedShards } from './table.ts';

/** How a lease ended that was not simply given back. */
interface EndedItem {
  w: EndedHow;
  f?: number;
  r?: string;
}

export type LockItem = Record<string, unknown>;

export const exclusiveSlot = '0';
export const slotOf = (claim: { readonly leaseId: string; readonly permits: number }, limit: number): string =>
  claim.permits === limit ? exclusiveSlot : claim.leaseId;

export const holderNames = (slot: string) => ({
  claim: `h#${slot}`,
  fence: `f#${slot}`,
  acquiredAt: `a#${slot}`,
  expiresAt: `x#${slot}`,
});
export const endedNames: readonly string[] = Array.from(
  { length: lockLimits.endedRemembered },
  (_, index) => `e${index}`,
);

function holderIn(item: LockItem, slot: string): Holder | undefined {
  const names = holderNames(slot);
  const claim = item[names.claim] as ClaimItem | null;
  // A release that found nobody waiting leaves null behind.
  if (claim === null) return undefined;
  const expiresAt = item[names.expiresAt] as number | undefined;
  return {
    ...fromClaimItem(claim),
    fence: item[names.fence] as number,
    acquiredAt: epochMs(item[names.acquiredAt] as number),
    expiresAt: claim.l === undefined || expiresAt === undefined ? null : epochMs(expiresAt),
    ...(claim.t === undefined ? {} : { queuedAt: epochMs(claim.t) }),
  };
}

function toEndings(ended: readonly Ended[]): LockItem {
  const told = ended.filter(({ how }) => how !== 'released').map((entry) => [entry.leaseId, toEndedItem(entry)]);
  return {
    ...Object.fromEntries(ended.map(({ leaseId }, index) => [endedNames[index], leaseId])),
    ...(told.length === 0 ? {} : { ed: Object.fromEntries(told) }),
  };
}

const toEndedItem = ({ how, fence, reason }: Ended): EndedItem => ({
  w: how,
  ...(fence === undefined ? {} : { f: fence }),
  ...(reason === undefined ? {} : { r: reason }),
});

function fromEndings(item: LockItem): Ended[] {
  const told = (item.ed ?? {}) as Record<string, EndedItem>;
  return endedNames
    .map((name) => item[name] as string | null | undefined)
    .filter((leaseId) => leaseId !== null && leaseId !== undefined)
    .map((leaseId) => fromEndedItem(leaseId, told[leaseId]));
}

const fromEndedItem = (leaseId: string, { w, f, r }: EndedItem = { w: 'released' }): Ended => ({
  leaseId,
  how: w,
  ...(f === undefined ? {} : { fence: f }),
  ...(r === undefined ? {} : { reason: r }),
});

export function fromLockItem(item: LockItem | undefined): LockState {
  if (item === undefined) return unusedLock;
  const holders = Object.keys(item)
    .filter((name) => name.startsWith('h#'))
    .map((name) => holderIn(item, name.slice(2)))
    .filter((holder) => holder !== undefined)
    .sort((one, other) => one.fence - other.fence);
  return {
    rev: item.rev as number,
    fence: item.fence as number,
    limit: item.lim as number,
    holders,
    queue: fromQueueItem(item as unknown as QueueItem),
    ended: fromEndings(item),
    changedAt: epochMs(item.at as number),
  };
}

export function toLockItem(key: LockKey, state: LockState, retentionMs: number): LockItem {
  const item: LockItem = {
    ...lockItemKey(key),
    ...listingKeyOf(key),
    rev: state.rev,
    fence: state.fence,
    lim: state.limit,
    used: permitsHeld(state),
    at: state.changedAt,
    ...toQueueItem(state.queue),
    ...toEndings(state.ended),
  };
  for (const holder of state.holders) {
    const names = holderNames(slotOf(holder, state.limit));
    item[names.claim] = toClaimItem(holder);
    item[names.fence] = holder.fence;
    item[names.acquiredAt] = holder.acquiredAt;
    if (holder.expiresAt !== null) item[names.expiresAt] = holder.expiresAt;
    if (holder.sessionId !== undefined && holder.permits === state.limit) item.sp = holder.sessionId;
  }
  const [head] = state.queue;
  if (head !== undefined) {
    item.w = new Set(state.queue.map(({ leaseId }) => leaseId));
    Object.assign(item, awaitedKeyOf(key, head.queuedAt));
  }
  // A session may outlive any retention without touching the lock's item, so what it holds is never collected.
  if (!state.holders.some((holder) => holder.leaseMs === null)) item.ttl = ttlOf(state.changedAt, retentionMs);
  return item;
}

export const awaitedKeyOf = (key: LockKey, since: EpochMs) => ({
  ap: `awaited/${shardOf(lockIdOf(key), awaitedShards)}`,
  as: since,
});

/** Counted from the last write: no lease and no wait is longer than a day, so retention (two days at least) outlasts both. */
export const ttlOf = (now: EpochMs, retentionMs: number): number => toTtlSeconds(after(now, retentionMs));
