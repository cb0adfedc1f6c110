/**
 * What concerns one place in the queue, each as one conditional update. They commute with each other: a crowd that arrives, asks again or
 * leaves at once doesn't fight over the revision. `decide` is their specification, as it is for the writes of a lease.
 */
import { lockLimits } from '../../lock/limits.ts';
import type { Waiter } from '../../lock/state.ts';
import { weightOf } from '../../lock/weight.ts';
import type { EpochMs } from '../../time/clock.ts';
import type { LockKey } from '../lock-store.ts';
import type { Update } from './expressions.ts';
import { awaitedPartitionOf } from './keys.ts';
import { exclusiveSlot } from './lock-item.ts';
import { changed, holderWords, leaseValues, leaseWords, lockUpdate, notEnded, rememberEnding } from './lock-words.ts';
import { frontLengthMax, type Place, struckText, struckUntil, toText, toWaiterItem } from './queue-item.ts';

const notQueued = 'NOT contains(queuedLeases, :leaseId)';
const holdsNoPart = 'attribute_not_exists(holder)';
const holdsNotAll = 'NOT (:leaseId IN (wholeHolder.leaseId))';
const sameLimit = 'limit = :limit';
const bytesFit = 'queueBytes <= :roomBytes';
const isTaken = '(permitsUsed > :room OR attribute_exists(front[0]))';

/**
 * Appends a waiter to a lock that still can't be had. Safe because it holds only under the same limit, behind others or where
 * the permits do not fit, and only for a lease that isn't queued, holding or remembered as ended. Order is kept because
 * the front takes nobody while there is a tail, and the tail nobody while the front is empty.
 */
export function appendWaiter(
  key: LockKey,
  waiter: Waiter,
  limit: number,
  { to, now }: { readonly to: 'front' | 'tail'; readonly now: EpochMs },
): Update {
  const { leaseId, permits } = waiter;
  const inFront = to === 'front';
  const frontHasRoom = `size(front) < :longest AND attribute_not_exists(tail[0]) AND ${isTaken}`;
  const tailHasRoom = '(attribute_not_exists(tail) OR size(tail) < :longest) AND attribute_exists(front[0])';
  return lockUpdate(
    {
      set: [
        inFront ? 'front = list_append(front, :waiters)' : 'tail = list_append(if_not_exists(tail, :empty), :waiters)',
        'queueBytes = queueBytes + :weight',
        ...changed,
        'awaitedPartition = if_not_exists(awaitedPartition, :awaitedPartition)',
        'awaitedSince = if_not_exists(awaitedSince, :awaitedSince)',
      ],
      add: 'queuedLeases :lease',
      when: [
        sameLimit,
        notQueued,
        holdsNoPart,
        holdsNotAll,
        notEnded,
        inFront ? frontHasRoom : tailHasRoom,
        bytesFit,
      ].join(' AND '),
    },
    { ...holderWords(leaseId), ...leaseWords(leaseId), wholeHolder: holderWords(exclusiveSlot).holder },
    {
      ...leaseValues(leaseId),
      limit,
      room: limit - permits,
      now,
      waiters: inFront ? [toWaiterItem(waiter)] : [toText(waiter)],
      weight: weightOf(waiter),
      longest: inFront ? frontLengthMax : lockLimits.queueLengthMax - frontLengthMax,
      roomBytes: lockLimits.queueBytesMax - weightOf(waiter),
      awaitedPartition: awaitedPartitionOf(key),
      awaitedSince: waiter.queuedAt,
    },
  );
}

const standsAt = (index: number): string =>
  `front[${index}].leaseId = :leaseId AND front[${index}].presentUntil <> :struckUntil`;

/** Says that a waiter is present until a later time, or an earlier one. Safe because the place is this very waiter's. */
export const attendPlace = (place: Place, waiter: Waiter, now: EpochMs): Update =>
  'front' in place
    ? lockUpdate(
        { set: [`front[${place.front}].presentUntil = :until`, ...changed], when: standsAt(place.front) },
        {},
        { leaseId: waiter.leaseId, until: waiter.aliveUntil, struckUntil, now },
      )
    : lockUpdate(
        { set: [`tail[${place.tail}] = :text`, ...changed], when: `tail[${place.tail}] = :seen` },
        {},
        { seen: place.text, text: toText(waiter), now },
      );

/**
 * Strikes out a waiter that isn't the first in line. Safe because the place is this very waiter's, and because another stands at the
 * head: with that one still waiting, nobody's turn has come.
 */
export function leavePlace(place: Place, waiter: Waiter, isRemembered: boolean, now: EpochMs): Update {
  const inFront = 'front' in place;
  const path = inFront ? `front[${place.front}]` : `tail[${place.tail}]`;
  const isHere = inFront ? standsAt(place.front) : `${path} = :seen`;
  const anotherIsFirst = 'front[0].leaseId <> :leaseId AND front[0].presentUntil <> :struckUntil';
  return lockUpdate(
    {
      set: [
        inFront ? `${path}.presentUntil = :struckUntil` : `${path} = :struckText`,
        'queueBytes = queueBytes - :weight',
        ...changed,
        ...(isRemembered ? rememberEnding : []),
      ],
      take: 'queuedLeases :lease',
      when: `${isHere} AND ${anotherIsFirst}`,
    },
    {},
    {
      ...leaseValues(waiter.leaseId),
      seen: inFront ? undefined : place.text,
      struckUntil,
      struckText,
      weight: weightOf(waiter),
      now,
    },
  );
}
