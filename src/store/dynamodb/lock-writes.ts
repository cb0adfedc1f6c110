/**
 * The common cases of a lease, each as one conditional update that needs no read. `decide` is their specification: a property test
 * runs both over random states. Operands are read from the item as it was before the update.
 */
import type { Acquire, Facts, Release, Renew } from '../../lock/commands.ts';
import { after } from '../../time/clock.ts';
import type { LockKey } from '../lock-store.ts';
import { toClaimItem } from './claim-item.ts';
import {
  changed,
  leaseName,
  leaseValues,
  nobodyWaits,
  notEnded,
  rememberEnding,
  slotNames,
  update,
} from './expressions.ts';
import type { ConditionalUpdate } from './item-table.ts';
import { listingKeyOf } from './keys.ts';
import { exclusiveSlot, slotOf, ttlOf } from './lock-item.ts';

const touch = [...changed, '#ttl = :ttl'];

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
    { ...slotNames(slotOf(command, command.limit)), ...leaseName(command.leaseId) },
    {
      ':now': now,
      ':end': bySession ? undefined : after(now, command.leaseMs),
      ...leaseValues(command.leaseId),
      ':permits': command.permits,
      ':limit': command.limit,
      ':room': command.limit - command.permits,
      ':claim': toClaimItem(command),
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
  const headIsServed =
    '(#q[0].#k > :now AND #q[0].#p = #lim AND attribute_not_exists(#q[0].#s) AND ' +
    // The front must not run empty while there is a tail.
    '(attribute_exists(#q[1]) OR attribute_not_exists(#t[0])))';
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
      remove: ['#q[0]', '#sp'],
      take: '#w :own',
      when: `#h.#i = :id AND (${nobodyWaits} OR ${headIsServed})`,
    },
    slotNames(exclusiveSlot),
    { ...leaseValues(leaseId), ':now': now, ':ttl': ttlOf(now, retentionMs) },
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
      remove: ['#h', '#f', '#a', '#x'],
      take: '#w :own',
      when: `#h.#i = :id AND ${nobodyWaits} AND attribute_exists(#ttl)`,
    },
    slotNames(leaseId),
    { ...leaseValues(leaseId), ':now': now, ':ttl': ttlOf(now, retentionMs) },
  );
}
