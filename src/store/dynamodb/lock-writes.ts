/**
 * The common cases of a lock, each as one conditional update that needs no read: about a lease, or about a place in the
 * front of the queue. `decide` is their specification: a property test compares the two on random states. In an update,
 * all operands have the values from before the update.
 */
import type { Acquire, Facts, Release, Renew } from '../../lock/commands.ts';
import { lockLimits } from '../../lock/limits.ts';
import { type MovedPages, withOneMore } from '../../lock/pages.ts';
import {
  holderWeight,
  isAlwaysNotified,
  type LockKey,
  type PageSpan,
  queueWeight,
  type Waiter,
  weightOf,
} from '../../lock/state.ts';
import { after, type EpochMs } from '../../time/clock.ts';
import type { Arrival } from '../lock-store.ts';
import { type Clauses, type Update, update } from './attributes.ts';
import { toClaimItem, toPartItem, toWaiterItem } from './claim-item.ts';
import {
  awaitedPartitionOf,
  endingNames,
  exclusiveSlot,
  holderWords,
  layoutKnown,
  listingKeyOf,
  lockWords,
  slotOf,
  ttlOf,
} from './lock-item.ts';
import { sessionDigest } from './session-item.ts';

const plainValues = { zero: 0, one: 1, none: null, empty: [], layout: layoutKnown };

/**
 * An update of a lock's item. `:none` means no holder, or no ending yet. It is no empty map, because DynamoDB Local's
 * stream drops those.
 */
const lockUpdate = (
  clauses: Clauses,
  words: Readonly<Record<string, string>>,
  values: Readonly<Record<string, unknown>>,
): Update => update(clauses, { ...lockWords, ...words }, { ...plainValues, ...values });

/** Every write raises the revision and sets its time. */
const changed = ['revision = revision + :one', 'changedAt = :now'];

const frontIsEmpty = 'attribute_not_exists(front[0])';
const noPages = '(attribute_not_exists(firstPage) OR firstPage > lastPage)';
export const nobodyWaits = `${frontIsEmpty} AND ${noPages}`;
/** An item of another layout is left to `decide`, whose swap writes it in this layout. */
const isOfLayout = 'layout = :layout';

/**
 * A late duplicate must not take the lock again after its lease has ended. It also must not while there is a note of how
 * the lease ended, even if the ending itself is forgotten: the note would count for the next ending of that lease.
 */
const notEnded = `NOT (:leaseId IN (${endingNames.map((_, index) => `ending${index}`).join(', ')})) AND attribute_not_exists(endingNotes.ownNote)`;

/** A lease, to be compared, and as a set, to be added to or removed from one. */
const leaseValues = (leaseId: string) => ({ leaseId, lease: new Set([leaseId]) });
const leaseWords = (leaseId: string) => ({ ownNote: leaseId });

/**
 * The newest ending, of a lease that was released, becomes the first. Each earlier one moves up by one, and the oldest
 * is forgotten.
 */
const rememberEnding = endingNames.map((_, index) =>
  index === 0 ? 'ending0 = :leaseId' : `ending${index} = if_not_exists(ending${index - 1}, :none)`,
);

const touched = [...changed, 'collectAt = :collectAt'];

/** An item without a TTL has a holder under a session. With a TTL it could be collected while it is held. */
const noSessionHolds = 'attribute_exists(collectAt)';
const isMine = `holder.leaseId = :leaseId AND ${isOfLayout}`;
/** A late release is decided on, so that its caller learns that the lease was over. A session's lease has no end of its own. */
const isInForce = '(attribute_not_exists(expiresAt) OR expiresAt > :now)';
/** A part is in a slot that is named by its lease. */
const isMyPart = `attribute_exists(holder) AND ${isOfLayout}`;

/**
 * Grants a lock that nobody waits for and that has room.
 *
 * Safe because the condition holds only if the permits fit in addition to the used ones (expired leases included), with
 * the same limit or on an idle lock, and because the lease neither holds nor has ended.
 */
export function grantIfFree(key: LockKey, command: Acquire, { now }: Facts, retentionMs: number): Update {
  const { leaseId, permits, limit, leaseMs, sessionId } = command;
  const isExclusive = permits === limit;
  const bySession = leaseMs === null;
  const isDelivered = isAlwaysNotified(command);
  const neverUsed = 'attribute_not_exists(key)';
  const idle = 'permitsUsed = :zero';
  const fits = `limit = :limit AND permitsUsed <= :room${bySession ? '' : ` AND ${noSessionHolds}`}`;
  const bytesFit = 'holdersBytes <= :roomBytes';
  const hasRoom = isExclusive ? idle : `attribute_not_exists(holder) AND (${idle} OR (${fits} AND ${bytesFit}))`;
  return lockUpdate(
    {
      set: [
        'revision = if_not_exists(revision, :zero) + :one',
        'fence = if_not_exists(fence, :now) + :one',
        'holderFence = if_not_exists(fence, :now) + :one',
        'permitsUsed = if_not_exists(permitsUsed, :zero) + :permits',
        'limit = :limit',
        'holder = :claim',
        'changedAt = :now',
        'layout = :layout',
        // A release removes the head of the front without a read, so there must be a list.
        'front = if_not_exists(front, :empty)',
        'frontBytes = if_not_exists(frontBytes, :zero)',
        `holdersBytes = if_not_exists(holdersBytes, :zero)${isExclusive ? '' : ' + :weight'}`,
        'listingPartition = :listingPartition',
        'listingName = :listingName',
        ...(isExclusive ? ['acquiredAt = :now'] : []),
        ...(bySession || !isExclusive ? [] : ['expiresAt = :end']),
        ...(bySession ? [] : ['collectAt = :collectAt']),
        ...(bySession && isExclusive ? ['sessionDigest = :sessionDigest'] : []),
        // The notifier sees only awaited locks, and must deliver this grant.
        ...(isDelivered ? ['awaitedPartition = :awaitedPartition', 'awaitedSince = :now'] : []),
      ],
      remove: bySession ? ['collectAt', ...(isExclusive ? ['expiresAt'] : [])] : [],
      when: `${neverUsed} OR (${isOfLayout} AND ${nobodyWaits} AND ${notEnded} AND ${hasRoom})`,
    },
    { ...holderWords(slotOf(command, limit)), ...leaseWords(leaseId) },
    {
      ...leaseValues(leaseId),
      now,
      end: bySession ? undefined : after(now, leaseMs),
      permits,
      limit,
      room: limit - permits,
      claim: isExclusive ? toClaimItem(command) : toPartItem(command, now),
      weight: holderWeight(command),
      roomBytes: lockLimits.holdersBytesMax - holderWeight(command),
      sessionDigest: sessionId === undefined ? undefined : sessionDigest(sessionId),
      collectAt: ttlOf(now, retentionMs, bySession ? [] : [after(now, leaseMs)]),
      ...listingKeyOf(key),
      awaitedPartition: isDelivered ? awaitedPartitionOf(key) : undefined,
    },
  );
}

/**
 * Extends a live lease. Safe because the condition holds only for this lease, in its slot, before its end, and only if
 * nothing was written after this renewal was sent. So a renewal that arrives late does not undo a later one.
 */
export function renewIfLive(slot: string, { leaseId, leaseMs }: Renew, { now }: Facts, retentionMs: number): Update {
  const inPart = slot !== exclusiveSlot;
  const end = inPart ? 'holder.endsAt' : 'expiresAt';
  const asBefore = [`${end} = :now + holder.leaseMs`];
  const asAsked = ['holder.leaseMs = :leaseMs', `${end} = :end`];
  return lockUpdate(
    {
      set: [...touched, ...(leaseMs === undefined ? asBefore : asAsked)],
      when: `${inPart ? isMyPart : isMine} AND ${end} > :now AND changedAt <= :now AND ${noSessionHolds}`,
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
 * Releases a whole lock and hands it to the head of the queue, if there is one, in the same write.
 *
 * Safe because the condition holds only for the lease that holds now, and because the head is granted only if it is
 * present, wants the whole lock and has no session (only another item tells whether a session is alive). The head gets
 * the next fence. If nobody waits, the claim is empty, no permit is used and the fence stays.
 */
export function releaseAndHandOff({ leaseId }: Release, { now }: Facts, retentionMs: number): Update {
  const headIsPresent = 'front[0].presentUntil > :now';
  const headWantsAll = 'front[0].permits = limit';
  const headHasNoSession = 'attribute_not_exists(front[0].sessionId)';
  const headIsServed = [headIsPresent, headWantsAll, headHasNoSession].join(' AND ');
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
        'frontBytes = frontBytes - if_not_exists(front[0].bytes, :zero)',
        ...rememberEnding,
      ],
      remove: ['front[0]', 'sessionDigest'],
      take: 'queuedLeases :lease',
      // The lock is never freed while there are pages. Then `decide` is asked, and moves one up.
      when: `${isMine} AND ${isInForce} AND ((${nobodyWaits}) OR (${headIsServed}))`,
    },
    holderWords(exclusiveSlot),
    { ...leaseValues(leaseId), now, collectAt: ttlOf(now, retentionMs) },
  );
}

/**
 * Releases a part of a lock without waiters. Safe because the slot belongs to this lease. If somebody waits, or a
 * session holds another part, `decide` is asked.
 */
export function releasePart({ leaseId }: Release, { now }: Facts, retentionMs: number): Update {
  return lockUpdate(
    {
      set: [
        ...touched,
        'permitsUsed = permitsUsed - holder.permits',
        'holdersBytes = holdersBytes - holder.bytes',
        ...rememberEnding,
      ],
      remove: ['holder', 'holderFence'],
      take: 'queuedLeases :lease',
      when: `${isMyPart} AND holder.endsAt > :now AND ${nobodyWaits} AND ${noSessionHolds}`,
    },
    holderWords(leaseId),
    { ...leaseValues(leaseId), now, collectAt: ttlOf(now, retentionMs) },
  );
}

/*
 * Updates of one place in the front of the queue. They commute: if many waiters arrive, ask again or leave at once, none
 * is refused because of another's revision.
 */

const notQueued = 'NOT contains(queuedLeases, :leaseId)';
const holdsNoPart = 'attribute_not_exists(holder)';
const holdsNotAll = 'NOT (:leaseId IN (wholeHolder.leaseId))';
const sameLimit = 'limit = :limit';
const isTaken = '(permitsUsed > :room OR attribute_exists(front[0]))';
/** An empty front takes any waiter. */
const frontHasRoom = '(attribute_not_exists(front[0]) OR (size(front) < :longest AND frontBytes <= :roomBytes))';

const awaited = [
  'awaitedPartition = if_not_exists(awaitedPartition, :awaitedPartition)',
  'awaitedSince = if_not_exists(awaitedSince, :awaitedSince)',
];

const arrivalValues = (key: LockKey, { waiter, limit, sizes }: Arrival) => ({
  ...leaseValues(waiter.leaseId),
  limit,
  now: waiter.queuedAt,
  longest: sizes.front,
  roomBytes: lockLimits.frontBytesMax - weightOf(waiter),
  awaitedPartition: awaitedPartitionOf(key),
  awaitedSince: waiter.queuedAt,
});

/**
 * Appends a waiter. Safe because the condition holds only with the same limit, only if others wait or the permits do not
 * fit, and only for a lease that neither waits nor holds nor is remembered as ended. The order is kept because nobody
 * joins the front while there are pages.
 */
export function appendWaiter(key: LockKey, arrival: Arrival): Update {
  const { waiter, limit } = arrival;
  const { leaseId, permits } = waiter;
  return lockUpdate(
    {
      set: ['front = list_append(front, :waiters)', 'frontBytes = frontBytes + :weight', ...changed, ...awaited],
      add: 'queuedLeases :lease',
      when: [isOfLayout, sameLimit, notQueued, holdsNoPart, holdsNotAll, notEnded, noPages, isTaken, frontHasRoom].join(
        ' AND ',
      ),
    },
    { ...holderWords(leaseId), ...leaseWords(leaseId), wholeHolder: holderWords(exclusiveSlot).holder },
    {
      ...arrivalValues(key, arrival),
      room: limit - permits,
      waiters: [toWaiterItem(waiter)],
      weight: weightOf(waiter),
    },
  );
}

/**
 * Opens a new last page. Safe because the condition holds only if the last page is the one that was seen, so two waiters
 * that find no place open one page. It also holds only if there are pages or the front is full: after an old read, a page
 * must not be opened for a lock that is free now, because nobody would serve its waiters.
 */
export function openPage(key: LockKey, arrival: Arrival, seen: PageSpan | undefined): Update {
  const { first, last } = withOneMore(seen, arrival.waiter.queuedAt);
  const lastIsAsSeen = seen === undefined ? 'attribute_not_exists(lastPage)' : 'lastPage = :seenLast';
  const noPlace = `(NOT ${noPages} OR NOT ${frontHasRoom})`;
  return lockUpdate(
    {
      set: ['lastPage = :last', 'firstPage = if_not_exists(firstPage, :first)', ...changed, ...awaited],
      when: [isOfLayout, sameLimit, lastIsAsSeen, noPlace].join(' AND '),
    },
    {},
    { ...arrivalValues(key, arrival), first, last, seenLast: seen?.last },
  );
}

/**
 * Appends the waiters of closed pages. Safe because the condition holds only if the first of these pages is still the
 * lock's first page, so they move up once. A closed page never changes, and nobody else joins the front while there are
 * pages. So no lease of the pages can have become known to the lock since it was read.
 */
export const moveUpPages = ({ from, to, waiters }: MovedPages, now: EpochMs): Update =>
  lockUpdate(
    {
      set: ['firstPage = :to', 'front = list_append(front, :waiters)', 'frontBytes = frontBytes + :weight', ...changed],
      // There is no empty set.
      ...(waiters.length === 0 ? {} : { add: 'queuedLeases :leases' }),
      when: `firstPage = :from AND ${isOfLayout}`,
    },
    {},
    {
      from,
      to,
      now,
      waiters: waiters.map(toWaiterItem),
      weight: queueWeight(waiters),
      leases: new Set(waiters.map(({ leaseId }) => leaseId)),
    },
  );

/** A lease may have left and joined again since. Its deadline then shows that this is another wait. */
const standsAt = (index: number): string =>
  `front[${index}].leaseId = :leaseId AND front[${index}].deadlineAt = :deadlineAt AND ${isOfLayout}`;

/**
 * A late poll must not shorten the presence of a waiter that has parked since, nor may the end of an earlier
 * connection.
 */
const waitsAsBefore = (index: number, { notify }: Waiter): string =>
  notify === undefined ? `attribute_not_exists(front[${index}].notify)` : `front[${index}].notify = :notify`;

/**
 * Sets until when a waiter is present: to a later time, or to an earlier one. Safe because the place belongs to this
 * waiter, and it waits in the same way.
 */
export const attendPlace = (index: number, waiter: Waiter, now: EpochMs): Update =>
  lockUpdate(
    {
      set: [`front[${index}].presentUntil = :until`, ...changed],
      when: `${standsAt(index)} AND ${waitsAsBefore(index, waiter)}`,
    },
    {},
    { ...waiter, until: waiter.presentUntil, now },
  );

/**
 * Removes a waiter that is not the first. Safe because the place belongs to this waiter, and because another one is the
 * head and still waits, so it is nobody's turn.
 */
export const leavePlace = (index: number, waiter: Waiter, isRemembered: boolean, now: EpochMs): Update =>
  lockUpdate(
    {
      set: ['frontBytes = frontBytes - :weight', ...changed, ...(isRemembered ? rememberEnding : [])],
      remove: [`front[${index}]`],
      take: 'queuedLeases :lease',
      when: `${standsAt(index)} AND front[0].leaseId <> :leaseId`,
    },
    {},
    { ...leaseValues(waiter.leaseId), deadlineAt: waiter.deadlineAt, weight: weightOf(waiter), now },
  );
