/**
 * The common cases, each as one conditional update that needs no read. `decide` is their specification: a property test
 * runs both over random states. Operands are read from the item as it was before the update.
 */
import type { Acquire, Facts, Release, Renew } from '../../lock/commands.ts';
import { lockLimits } from '../../lock/limits.ts';
import type { Waiter } from '../../lock/state.ts';
import { weightOf } from '../../lock/weight.ts';
import { after, type EpochMs } from '../../time/clock.ts';
import type { LockKey } from '../lock-store.ts';
import type { ConditionalUpdate } from './item-table.ts';
import { listingKeyOf } from './keys.ts';
import {
  awaitedKeyOf,
  type EndedItem,
  endedNames,
  exclusiveSlot,
  holderNames,
  queuedMark,
  slotOf,
  toClaimItem,
  toWaiterItem,
  ttlOf,
} from './lock-item.ts';

/** Every attribute name is an alias: `ttl`, `limit` and friends are reserved words, and slots are named by leases. */
const plainNames: Record<string, string> = {
  '#pk': 'pk',
  '#rev': 'rev',
  '#fence': 'fence',
  '#lim': 'lim',
  '#used': 'used',
  '#at': 'at',
  '#q': 'q',
  '#qb': 'qb',
  '#ttl': 'ttl',
  '#lp': 'lp',
  '#ln': 'ln',
  '#ap': 'ap',
  '#as': 'as',
  '#sp': 'sp',
  '#i': 'i',
  '#k': 'k',
  '#l': 'l',
  '#p': 'p',
  '#s': 's',
  '#g': 'g',
  '#b': 'b',
  ...Object.fromEntries(endedNames.map((name) => [`#${name}`, name])),
};

const slotNames = (slot: string): Record<string, string> => {
  const names = holderNames(slot);
  return { '#h': names.claim, '#f': names.fence, '#a': names.acquiredAt, '#x': names.expiresAt };
};

/** DynamoDB refuses names and values that no expression uses, so only those in use are sent. */
function update(
  expressions: { set: readonly string[]; remove?: readonly string[]; when: string },
  names: Record<string, string>,
  values: Record<string, unknown>,
): ConditionalUpdate {
  const remove = expressions.remove?.length ? ` REMOVE ${expressions.remove.join(', ')}` : '';
  const UpdateExpression = `SET ${expressions.set.join(', ')}${remove}`;
  const used = new Set(`${UpdateExpression} ${expressions.when}`.match(/[#:]\w+/g));
  const pick = <T>(all: Record<string, T>) =>
    Object.fromEntries(Object.entries(all).filter(([name]) => used.has(name)));
  return {
    UpdateExpression,
    ConditionExpression: expressions.when,
    ExpressionAttributeNames: pick({ ...plainNames, ...names }),
    ExpressionAttributeValues: pick<unknown>({ ':zero': 0, ':one': 1, ...values }),
  };
}

const nobodyWaits = 'attribute_not_exists(#q[0])';
/** A late duplicate never takes the lock again after its lease has ended. */
const notEnded = `NOT (:id IN (${endedNames.map((name) => `#${name}.#i`).join(', ')}))`;
const touch = ['#rev = #rev + :one', '#at = :now', '#ttl = :ttl'];

/** The newest ending goes to e0 and each earlier one moves up; the oldest is forgotten. */
const rememberEnding = endedNames.map((name, index) =>
  index === 0 ? `#${name} = :ended` : `#${name} = if_not_exists(#e${index - 1}, :none)`,
);
/** Nobody, or no ending yet. Not an empty map: DynamoDB Local's stream drops those. */
const none = null;
const released = (leaseId: string): EndedItem => ({ i: leaseId, w: 'released' });

/**
 * Grants a lock that nobody waits for and that has room.
 *
 * Safe because the condition holds only where the permits fit beside those counted as used (expired leases included), under
 * the same limit or where the lock is idle, and because the lease is neither holding nor ended.
 */
export function grantIfFree(key: LockKey, command: Acquire, { now }: Facts, retentionMs: number): ConditionalUpdate {
  const exclusive = command.permits === command.limit;
  const bySession = command.leaseMs === null;
  const { lp, ln } = listingKeyOf(key);
  const idle = '#used = :zero';
  // An item without a TTL has a holder that a session bounds: setting one here could collect it while held.
  const ttlMayBeSet = bySession ? '' : ' AND attribute_exists(#ttl)';
  const partly = `(#lim = :limit AND #used <= :room${ttlMayBeSet})`;
  return update(
    {
      set: [
        '#rev = if_not_exists(#rev, :zero) + :one',
        '#fence = if_not_exists(#fence, :now) + :one',
        '#f = if_not_exists(#fence, :now) + :one',
        '#used = if_not_exists(#used, :zero) + :permits',
        '#lim = :limit',
        '#h = :claim',
        '#a = :now',
        '#at = :now',
        // A release removes the head of the queue blindly, which needs a list to be there.
        '#q = if_not_exists(#q, :empty)',
        '#qb = if_not_exists(#qb, :zero)',
        '#lp = :lp',
        '#ln = :ln',
        ...(bySession ? [] : ['#x = :end', '#ttl = :ttl']),
        ...(bySession && exclusive ? ['#sp = :session'] : []),
      ],
      remove: bySession ? ['#ttl', '#x'] : [],
      when:
        `attribute_not_exists(#pk) OR (${nobodyWaits} AND ${notEnded} AND ` +
        (exclusive ? `${idle})` : `attribute_not_exists(#h) AND (${idle} OR ${partly}))`),
    },
    slotNames(slotOf(command, command.limit)),
    {
      ':now': now,
      ':end': bySession ? undefined : after(now, command.leaseMs),
      ':id': command.leaseId,
      ':permits': command.permits,
      ':limit': command.limit,
      ':room': command.limit - command.permits,
      ':claim': toClaimItem(command),
      ':empty': [],
      ':session': command.sessionId,
      ':ttl': ttlOf(now, retentionMs),
      ':lp': lp,
      ':ln': ln,
    },
  );
}

/**
 * Extends a live lease. Safe because it holds only for this very lease, in its slot, before its end; and only where nothing was
 * written later than it was sent: one that was long on its way must not take back what a later renewal has promised.
 */
export function renewIfLive(slot: string, command: Renew, { now }: Facts, retentionMs: number): ConditionalUpdate {
  const sameAgain = command.leaseMs === undefined;
  return update(
    {
      set: [...touch, ...(sameAgain ? ['#x = :now + #h.#l'] : ['#h.#l = :lease', '#x = :end'])],
      // Without a TTL a session holds another part: setting one here could collect the item while it is held.
      when: '#h.#i = :id AND #x > :now AND #at <= :now AND attribute_exists(#ttl)',
    },
    slotNames(slot),
    {
      ':id': command.leaseId,
      ':now': now,
      ':lease': command.leaseMs,
      ':end': sameAgain ? undefined : after(now, command.leaseMs as number),
      ':ttl': ttlOf(now, retentionMs),
    },
  );
}

/**
 * Releases a lock held whole and hands it to the head of the queue, if there is one, in the same write.
 *
 * Safe because it holds only for the lease that holds now, and because the head is taken only where it is present, wants the
 * whole lock, and hangs on no session (whose life another item tells). Its fence is the next one; with nobody
 * waiting the claim is empty, no permit is used and the fence stays.
 */
export function releaseAndHandOff({ leaseId }: Release, { now }: Facts, retentionMs: number): ConditionalUpdate {
  const headIsServed = '(#q[0].#k > :now AND #q[0].#p = #lim AND attribute_not_exists(#q[0].#s))';
  return update(
    {
      set: [
        ...touch,
        '#h = if_not_exists(#q[0], :none)',
        '#f = #fence + if_not_exists(#q[0].#g, :zero)',
        '#fence = #fence + if_not_exists(#q[0].#g, :zero)',
        '#a = :now',
        '#x = :now + if_not_exists(#q[0].#l, :zero)',
        '#used = if_not_exists(#q[0].#p, :zero)',
        '#qb = #qb - if_not_exists(#q[0].#b, :zero)',
        ...rememberEnding,
      ],
      remove: ['#q[0]', '#w', '#sp'],
      when: `#h.#i = :id AND (${nobodyWaits} OR ${headIsServed})`,
    },
    { ...slotNames(exclusiveSlot), '#w': queuedMark(leaseId) },
    { ':id': leaseId, ':now': now, ':none': none, ':ended': released(leaseId), ':ttl': ttlOf(now, retentionMs) },
  );
}

/**
 * Gives back a part of a lock that nobody waits for. Safe because the slot is this lease's own. Where somebody waits, or a
 * session holds another part (no TTL), `decide` is asked.
 */
export function releasePart({ leaseId }: Release, { now }: Facts, retentionMs: number): ConditionalUpdate {
  return update(
    {
      set: [...touch, '#used = #used - #h.#p', ...rememberEnding],
      remove: ['#h', '#f', '#a', '#x', '#w'],
      when: `#h.#i = :id AND ${nobodyWaits} AND attribute_exists(#ttl)`,
    },
    { ...slotNames(leaseId), '#w': queuedMark(leaseId) },
    { ':id': leaseId, ':now': now, ':none': none, ':ended': released(leaseId), ':ttl': ttlOf(now, retentionMs) },
  );
}

/**
 * Appends a waiter to a lock that still can't be had. Safe because it holds only under the same limit, behind others or where
 * the permits do not fit, and only for a lease that isn't queued, holding or remembered as ended.
 */
export function appendWaiter(key: LockKey, waiter: Waiter, limit: number, now: EpochMs): ConditionalUpdate {
  const { ap, as } = awaitedKeyOf(key, waiter.queuedAt);
  return update(
    {
      set: [
        '#q = list_append(#q, :waiters)',
        '#qb = #qb + :weight',
        '#w = :one',
        '#rev = #rev + :one',
        '#at = :now',
        '#ap = if_not_exists(#ap, :ap)',
        '#as = if_not_exists(#as, :as)',
      ],
      when:
        '#lim = :limit AND attribute_not_exists(#w) AND attribute_not_exists(#h) AND NOT (:id IN (#whole.#i)) AND ' +
        `${notEnded} AND (#used > :room OR attribute_exists(#q[0])) AND size(#q) < :longest AND #qb <= :roomBytes`,
    },
    { ...slotNames(waiter.leaseId), '#w': queuedMark(waiter.leaseId), '#whole': holderNames(exclusiveSlot).claim },
    {
      ':id': waiter.leaseId,
      ':limit': limit,
      ':room': limit - waiter.permits,
      ':now': now,
      ':waiters': [toWaiterItem(waiter)],
      ':weight': weightOf(waiter),
      ':longest': lockLimits.queueLengthMax,
      ':roomBytes': lockLimits.queueBytesMax - weightOf(waiter),
      ':ap': ap,
      ':as': as,
    },
  );
}

/**
 * Says that a waiter is present until a later time, or an earlier one. Safe because the place is this very waiter's, and it is told to
 * nobody but who asks: arrivals and hand-offs elsewhere in the queue do not conflict with it.
 */
export function attendPlace(index: number, waiter: Waiter, now: EpochMs): ConditionalUpdate {
  return update(
    { set: [`#q[${index}].#k = :until`, '#rev = #rev + :one', '#at = :now'], when: `#q[${index}].#i = :id` },
    {},
    { ':id': waiter.leaseId, ':until': waiter.aliveUntil, ':now': now },
  );
}
