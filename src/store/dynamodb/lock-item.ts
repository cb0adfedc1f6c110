/**
 * How a lock lies in its item.
 *
 *     pk sk            its key                       rev  fence  lim  used  at     the lock itself
 *     h#S f#S a#S x#S  a holder in slot S: its claim, fence, grant time, end
 *     q qb             the queue, oldest first, and its weight   w#L  marks that lease L queued
 *     e0 … e7          how the latest leases ended   ttl lp ln ap as sp   for TTL and the indexes
 *
 * Who holds every permit sits in slot `0`: there is only one, so a release can put the head of the queue there without
 * knowing who that is. Who holds a part sits in a slot named by its lease, so that grants do not touch each other.
 * Slots are attributes of the item, not of a map inside it, because a path into a map that isn't there yet is an error.
 */
import { lockLimits } from '../../lock/limits.ts';
import {
  type Claim,
  type Ended,
  type EndedHow,
  type Holder,
  type LockState,
  permitsHeld,
  unusedLock,
  type Waiter,
} from '../../lock/state.ts';
import { queueWeight, weightOf } from '../../lock/weight.ts';
import { after, type EpochMs, epochMs, toTtlSeconds } from '../../time/clock.ts';
import type { LockKey } from '../lock-store.ts';
import { listingKeyOf, lockItemKey, shardOf } from './keys.ts';
import { awaitedShards } from './table.ts';

/** Names are short because every write is billed by the item's size. */
export interface ClaimItem {
  i: string;
  o: string;
  p: number;
  l?: number;
  s?: string;
  d?: number;
  r?: Claim['mode'];
  m?: Claim['metadata'];
  n?: Claim['notify'];
  /** Queued at. */
  t?: number;
}

export interface WaiterItem extends ClaimItem {
  t: number;
  /** Its deadline. */
  u: number;
  /** Present until. */
  k: number;
  /** What it adds to the queue's weight. */
  b: number;
  /** The step by which its grant raises the fence: one. A release adds the head's step, and nothing where there is no head. */
  g: 1;
}

export interface EndedItem {
  i: string;
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
export const queuedMark = (leaseId: string): string => `w#${leaseId}`;
export const endedNames: readonly string[] = Array.from(
  { length: lockLimits.endedRemembered },
  (_, index) => `e${index}`,
);

export function toClaimItem(claim: Claim & { readonly queuedAt?: EpochMs }): ClaimItem {
  return {
    i: claim.leaseId,
    o: claim.owner,
    p: claim.permits,
    ...(claim.leaseMs === null ? {} : { l: claim.leaseMs }),
    ...(claim.sessionId === undefined ? {} : { s: claim.sessionId }),
    ...(claim.lockDelayMs ? { d: claim.lockDelayMs } : {}),
    ...(claim.mode === undefined ? {} : { r: claim.mode }),
    ...(claim.metadata === undefined ? {} : { m: claim.metadata }),
    ...(claim.notify === undefined ? {} : { n: claim.notify }),
    ...(claim.queuedAt === undefined ? {} : { t: claim.queuedAt }),
  };
}

export const toWaiterItem = (waiter: Waiter): WaiterItem => ({
  ...toClaimItem(waiter),
  t: waiter.queuedAt,
  u: waiter.deadlineAt,
  k: waiter.aliveUntil,
  b: weightOf(waiter),
  g: 1,
});

function fromClaimItem(item: ClaimItem): Claim {
  return {
    leaseId: item.i,
    owner: item.o,
    permits: item.p,
    leaseMs: item.l ?? null,
    ...(item.s === undefined ? {} : { sessionId: item.s }),
    ...(item.d === undefined ? {} : { lockDelayMs: item.d }),
    ...(item.r === undefined ? {} : { mode: item.r }),
    ...(item.m === undefined ? {} : { metadata: item.m }),
    ...(item.n === undefined ? {} : { notify: item.n }),
  };
}

const fromWaiterItem = (item: WaiterItem): Waiter => ({
  ...fromClaimItem(item),
  queuedAt: epochMs(item.t),
  deadlineAt: epochMs(item.u),
  aliveUntil: epochMs(item.k),
});

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

const fromEndedItem = (item: EndedItem): Ended => ({
  leaseId: item.i,
  how: item.w,
  ...(item.f === undefined ? {} : { fence: item.f }),
  ...(item.r === undefined ? {} : { reason: item.r }),
});

export function fromLockItem(item: LockItem | undefined): LockState {
  if (item === undefined) return unusedLock;
  const holders = Object.keys(item)
    .filter((name) => name.startsWith('h#'))
    .map((name) => holderIn(item, name.slice(2)))
    .filter((holder) => holder !== undefined)
    .sort((one, other) => one.fence - other.fence);
  const ended = endedNames
    .map((name) => item[name] as EndedItem | null | undefined)
    .filter((entry) => entry !== null && entry !== undefined)
    .map(fromEndedItem);
  return {
    rev: item.rev as number,
    fence: item.fence as number,
    limit: item.lim as number,
    holders,
    queue: (item.q as WaiterItem[]).map(fromWaiterItem),
    ended,
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
    q: state.queue.map(toWaiterItem),
    qb: queueWeight(state.queue),
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
    for (const waiter of state.queue) item[queuedMark(waiter.leaseId)] = 1;
    Object.assign(item, awaitedKeyOf(key, head.queuedAt));
  }
  state.ended.forEach((ended, index) => {
    const { leaseId, how, fence, reason } = ended;
    const entry: EndedItem = {
      i: leaseId,
      w: how,
      ...(fence === undefined ? {} : { f: fence }),
      ...(reason === undefined ? {} : { r: reason }),
    };
    item[endedNames[index] as string] = entry;
  });
  // A session may outlive any retention without touching the lock's item, so what it holds is never collected.
  if (!state.holders.some((holder) => holder.leaseMs === null)) item.ttl = ttlOf(state.changedAt, retentionMs);
  return item;
}

export const awaitedKeyOf = ({ namespace, name }: LockKey, since: EpochMs) => ({
  ap: `awaited/${shardOf(`${namespace}/${name}`, awaitedShards)}`,
  as: since,
});

/** Counted from the last write: no lease and no wait is longer than a day, so retention (two days at least) outlasts both. */
export const ttlOf = (now: EpochMs, retentionMs: number): number => toTtlSeconds(after(now, retentionMs));
