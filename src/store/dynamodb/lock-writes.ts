/**
 * The common cases of a lease, each as one conditional update that needs no read. `decide` is their specification: a property test
 * runs both over random states. Operands are read from the item as it was before the update.
 */
import type { Acquire, Facts, Release, Renew } from '../../lock/commands.ts';
import { isAlwaysNotified } from '../../lock/state.ts';
import { after } from '../../time/clock.ts';
import type { LockKey } from '../lock-store.ts';
import { toClaimItem } from './claim-item.ts';
import type { Update } from './expressions.ts';
import { awaitedPartitionOf, listingKeyOf, sessionDigest } from './keys.ts';
import { exclusiveSlot, slotOf, ttlOf } from './lock-item.ts';
import {
  changed,
  holderWords,
  leaseValues,
  leaseWords,
  lockUpdate,
  nobodyWaits,
  notEnded,
  rememberEnding,
} from './lock-words.ts';

const touched = [...changed, 'collectAt = :collectAt'];

/** An item without a TTL has a holder that a session bounds: to set one here could collect it while it is held. */
const noSessionHolds = 'attribute_exists(collectAt)';
const isMine = 'holder.leaseId = :leaseId';

/**
 * Grants a lock that nobody waits for and that has room.
 *
 * Safe because the condition holds only if the permits fit beside those counted as used (expired leases included), under
 * the same limit or where the lock is idle, and because the lease is neither holding nor ended.
 */
export function grantIfFree(key: LockKey, command: Acquire, { now }: Facts, retentionMs: number): Update {
  const { leaseId, permits, limit, leaseMs, sessionId } = command;
  const isExclusive = permits === limit;
  const bySession = leaseMs === null;
  const isDelivered = isAlwaysNotified(command);
  const neverUsed = 'attribute_not_exists(key)';
  const idle = 'permitsUsed = :zero';
  const fits = `limit = :limit AND permitsUsed <= :room${bySession ? '' : ` AND ${noSessionHolds}`}`;
  const hasRoom = isExclusive ? idle : `attribute_not_exists(holder) AND (${idle} OR (${fits}))`;
  return lockUpdate(
    {
      set: [
        'revision = if_not_exists(revision, :zero) + :one',
        'fence = if_not_exists(fence, :now) + :one',
        'holderFence = if_not_exists(fence, :now) + :one',
        'permitsUsed = if_not_exists(permitsUsed, :zero) + :permits',
        'limit = :limit',
        'holder = :claim',
        'acquiredAt = :now',
        'changedAt = :now',
        // A release removes the head of the queue blindly, which needs a list to be there.
        'front = if_not_exists(front, :empty)',
        'queueBytes = if_not_exists(queueBytes, :zero)',
        'listingPartition = :listingPartition',
        'listingName = :listingName',
        ...(bySession ? [] : ['expiresAt = :end', 'collectAt = :collectAt']),
        ...(bySession && isExclusive ? ['sessionDigest = :sessionDigest'] : []),
        // The notifier sees awaited locks alone, and has this grant to deliver.
        ...(isDelivered ? ['awaitedPartition = :awaitedPartition', 'awaitedSince = :now'] : []),
      ],
      remove: bySession ? ['collectAt', 'expiresAt'] : [],
      when: `${neverUsed} OR (${nobodyWaits} AND ${notEnded} AND ${hasRoom})`,
    },
    { ...holderWords(slotOf(command, limit)), ...leaseWords(leaseId) },
    {
      ...leaseValues(leaseId),
      now,
      end: bySession ? undefined : after(now, leaseMs),
      permits,
      limit,
      room: limit - permits,
      claim: toClaimItem(command),
      sessionDigest: sessionId === undefined ? undefined : sessionDigest(sessionId),
      collectAt: ttlOf(now, retentionMs, bySession ? [] : [after(now, leaseMs)]),
      ...listingKeyOf(key),
      awaitedPartition: isDelivered ? awaitedPartitionOf(key) : undefined,
    },
  );
}

/**
 * Extends a live lease. Safe because it holds only for this very lease, in its slot, before its end; and only where nothing was
 * written later than it was sent: one that was long on its way must not take back what a later renewal has promised.
 */
export function renewIfLive(slot: string, { leaseId, leaseMs }: Renew, { now }: Facts, retentionMs: number): Update {
  const asBefore = ['expiresAt = :now + holder.leaseMs'];
  const asAsked = ['holder.leaseMs = :leaseMs', 'expiresAt = :end'];
  return lockUpdate(
    {
      set: [...touched, ...(leaseMs === undefined ? asBefore : asAsked)],
      when: `${isMine} AND expiresAt > :now AND changedAt <= :now AND ${noSessionHolds}`,
    },
    holderWords(slot),
    {
      leaseId,
      now,
      leaseMs,
      end: leaseMs === undefined ? undefined : after(now, leaseMs),
      collectAt: ttlOf(now, retentionMs, leaseMs === undefined ? [] : [after(now, leaseMs)]),
    },
  );
}

/**
 * Releases a lock held whole and hands it to the head of the queue, if there is one, in the same write.
 *
 * Safe because it holds only for the lease that holds now, and because the head is taken only if it is present, wants the
 * whole lock, and depends on no session (another item tells whether that is alive). Its fence is the next one; with nobody
 * waiting the claim is empty, no permit is used and the fence stays.
 */
export function releaseAndHandOff({ leaseId }: Release, { now }: Facts, retentionMs: number): Update {
  const headIsPresent = 'front[0].presentUntil > :now';
  const headWantsAll = 'front[0].permits = limit';
  const headHasNoSession = 'attribute_not_exists(front[0].sessionId)';
  // The front must not run empty while there is a tail.
  const frontLasts = '(attribute_exists(front[1]) OR attribute_not_exists(tail[0]))';
  const headIsServed = [headIsPresent, headWantsAll, headHasNoSession, frontLasts].join(' AND ');
  return lockUpdate(
    {
      set: [
        ...touched,
        'holder = if_not_exists(front[0], :none)',
        'holderFence = fence + if_not_exists(front[0].fenceStep, :zero)',
        'fence = fence + if_not_exists(front[0].fenceStep, :zero)',
        'acquiredAt = :now',
        'expiresAt = :now + if_not_exists(front[0].leaseMs, :zero)',
        'permitsUsed = if_not_exists(front[0].permits, :zero)',
        'queueBytes = queueBytes - if_not_exists(front[0].bytes, :zero)',
        ...rememberEnding,
      ],
      remove: ['front[0]', 'sessionDigest'],
      take: 'queuedLeases :lease',
      when: `${isMine} AND (${nobodyWaits} OR (${headIsServed}))`,
    },
    holderWords(exclusiveSlot),
    { ...leaseValues(leaseId), now, collectAt: ttlOf(now, retentionMs) },
  );
}

/**
 * Gives back a part of a lock that nobody waits for. Safe because the slot is this lease's own. Where somebody waits, or a
 * session holds another part, `decide` is asked.
 */
export function releasePart({ leaseId }: Release, { now }: Facts, retentionMs: number): Update {
  return lockUpdate(
    {
      set: [...touched, 'permitsUsed = permitsUsed - holder.permits', ...rememberEnding],
      remove: ['holder', 'holderFence', 'acquiredAt', 'expiresAt'],
      take: 'queuedLeases :lease',
      when: `${isMine} AND ${nobodyWaits} AND ${noSessionHolds}`,
    },
    holderWords(leaseId),
    { ...leaseValues(leaseId), now, collectAt: ttlOf(now, retentionMs) },
  );
}
