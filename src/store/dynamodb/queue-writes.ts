/**
 * What concerns one place in the queue, each as one conditional update. They commute with each other: a crowd that arrives, asks again or
 * leaves at once doesn't fight over the revision. `decide` is their specification, as it is for the writes of a lease.
 */
import { lockLimits } from '../../lock/limits.ts';
import type { Waiter } from '../../lock/state.ts';
import { weightOf } from '../../lock/weight.ts';
import type { EpochMs } from '../../time/clock.ts';
import type { LockKey } from '../lock-store.ts';
import { changed, leaseName, leaseValues, notEnded, rememberEnding, slotNames, update } from './expressions.ts';
import type { ConditionalUpdate } from './item-table.ts';
import { awaitedKeyOf, exclusiveSlot, holderNames } from './lock-item.ts';
import { frontLengthMax, type Place, struckText, struckUntil, toText, toWaiterItem } from './queue-item.ts';

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
): ConditionalUpdate {
  const { ap, as } = awaitedKeyOf(key, waiter.queuedAt);
  const inFront = to === 'front';
  const hasRoom = inFront
    ? 'size(#q) < :longest AND attribute_not_exists(#t[0]) AND (#used > :room OR attribute_exists(#q[0]))'
    : '(attribute_not_exists(#t) OR size(#t) < :longest) AND attribute_exists(#q[0])';
  return update(
    {
      set: [
        inFront ? '#q = list_append(#q, :waiters)' : '#t = list_append(if_not_exists(#t, :empty), :waiters)',
        '#qb = #qb + :weight',
        ...changed,
        '#ap = if_not_exists(#ap, :ap)',
        '#as = if_not_exists(#as, :as)',
      ],
      add: '#w :own',
      when:
        '#lim = :limit AND NOT contains(#w, :id) AND attribute_not_exists(#h) AND NOT (:id IN (#whole.#i)) AND ' +
        `${notEnded} AND ${hasRoom} AND #qb <= :roomBytes`,
    },
    { ...slotNames(waiter.leaseId), ...leaseName(waiter.leaseId), '#whole': holderNames(exclusiveSlot).claim },
    {
      ...leaseValues(waiter.leaseId),
      ':limit': limit,
      ':room': limit - waiter.permits,
      ':now': now,
      ':waiters': inFront ? [toWaiterItem(waiter)] : [toText(waiter)],
      ':weight': weightOf(waiter),
      ':longest': inFront ? frontLengthMax : lockLimits.queueLengthMax - frontLengthMax,
      ':roomBytes': lockLimits.queueBytesMax - weightOf(waiter),
      ':ap': ap,
      ':as': as,
    },
  );
}

const standsAt = (index: number): string => `#q[${index}].#i = :id AND #q[${index}].#k <> :struckUntil`;

/** Says that a waiter is present until a later time, or an earlier one. Safe because the place is this very waiter's. */
export const attendPlace = (place: Place, waiter: Waiter, now: EpochMs): ConditionalUpdate =>
  'front' in place
    ? update(
        { set: [`#q[${place.front}].#k = :until`, ...changed], when: standsAt(place.front) },
        {},
        { ':id': waiter.leaseId, ':until': waiter.aliveUntil, ':struckUntil': struckUntil, ':now': now },
      )
    : update(
        { set: [`#t[${place.tail}] = :text`, ...changed], when: `#t[${place.tail}] = :seen` },
        {},
        { ':seen': place.text, ':text': toText(waiter), ':now': now },
      );

/**
 * Strikes out a waiter that isn't the first in line. Safe because the place is this very waiter's, and because another stands at the
 * head: with that one still waiting, nobody's turn has come.
 */
export function leavePlace(place: Place, waiter: Waiter, isRemembered: boolean, now: EpochMs): ConditionalUpdate {
  const inFront = 'front' in place;
  const path = inFront ? `#q[${place.front}]` : `#t[${place.tail}]`;
  return update(
    {
      set: [
        inFront ? `${path}.#k = :struckUntil` : `${path} = :struckText`,
        '#qb = #qb - :weight',
        ...changed,
        ...(isRemembered ? rememberEnding : []),
      ],
      take: '#w :own',
      when: `${inFront ? standsAt(place.front) : `${path} = :seen`} AND #q[0].#i <> :id AND #q[0].#k <> :struckUntil`,
    },
    {},
    {
      ...leaseValues(waiter.leaseId),
      ':seen': inFront ? undefined : place.text,
      ':struckUntil': struckUntil,
      ':struckText': struckText,
      ':weight': weightOf(waiter),
      ':now': now,
    },
  );
}
