/**
 * What can be written to a lock's item without a read first. Each condition describes exactly the case in which the update is right.
 * In every other case the refusal shows the item, and `decide` says what to write.
 */
import type { Acquire, Facts, Release, Renew } from '../lock/commands.ts';
import { lockLimits } from '../lock/limits.ts';
import { type Behind, extrasWeight, isAlwaysNotified, type LockKey, type Usual, type Waiter } from '../lock/state.ts';
import { type Clauses, type Update, update } from '../table/attributes.ts';
import { digestOf } from '../table/digest.ts';
import { after, type EpochMs } from '../time/clock.ts';
import { isUsual, toClaimItem, toNotifyItem, toPartItem, toUsualItem, toWaiterItem } from './claim-item.ts';
import {
  awaitedPartitionOf,
  endingNames,
  isWhole,
  layoutKnown,
  listingKeyOf,
  lockWords,
  partNames,
  ttlOf,
} from './lock-item.ts';
import { type MovedPages, withOneMore } from './pages.ts';

const plainValues = { zero: 0, one: 1, none: null, empty: [], layout: layoutKnown };

/** An update of a lock's item. `:none` means that there is no holder, or no ending yet. */
const lockUpdate = (clauses: Clauses, values: Readonly<Record<string, unknown>>, lease?: string): Update =>
  update(clauses, lease === undefined ? lockWords : { ...lockWords, ...leaseWords(lease) }, {
    ...plainValues,
    ...values,
  });

/** The attributes that are named by a lease. */
const leaseWords = (lease: string) => ({ ...partNames(lease), ownNote: lease });

/** Every write raises the revision and sets its time. */
const changed = ['revision = revision + :one', 'changedAt = :now'];
const touched = [...changed, 'collectAt = :collectAt'];

const frontIsEmpty = 'attribute_not_exists(front[0])';
const noPages = '(attribute_not_exists(firstPage) OR firstPage > lastPage)';
export const nobodyWaits = `${frontIsEmpty} AND ${noPages}`;
/** An item of another layout is left to `decide`, which fails closed. */
const isOfLayout = 'layout = :layout';

/**
 * A late duplicate must not take the lock again after its lease has ended. It also must not while there is a note of how
 * the lease ended, even if the ending itself is forgotten: the note would count for the next ending of that lease.
 */
const notEnded = `NOT (:lease IN (${endingNames.map((_, index) => `ending${index}`).join(', ')})) AND attribute_not_exists(endingNotes.ownNote)`;

/**
 * The newest ending, of a lease that was released, becomes the first. Each earlier one moves up by one, and the oldest
 * is forgotten.
 */
const rememberEnding = endingNames.map((_, index) =>
  index === 0 ? 'ending0 = :lease' : `ending${index} = if_not_exists(ending${index - 1}, :none)`,
);

/** An item without a TTL has a holder under a session. With a TTL it could be collected while it is held. */
const noSessionHolds = 'attribute_exists(collectAt)';
const holdsAll = `holder.leaseId = :lease AND ${isOfLayout}`;
/** A late release is decided on, so that its caller learns that the lease was over. A session's lease has no end of its own. */
const isInForce = '(attribute_not_exists(expiresAt) OR expiresAt > :now)';
/** A part is in a slot that is named by its lease. */
const holdsPart = `attribute_exists(part) AND ${isOfLayout}`;
const holdsNoPart = 'attribute_not_exists(part)';

/**
 * Grants a lock that nobody waits for and that has room.
 *
 * Safe because the condition holds only if the permits fit in addition to the used ones (expired leases included), with
 * the same limit or on an idle lock, and because the lease neither holds nor has ended. `usual` is what most holders of a part
 * were last seen to have in common. The condition checks that it still is so.
 */
export function grantIfFree(
  key: LockKey,
  command: Acquire,
  { now }: Facts,
  { retentionMs, usual }: { readonly retentionMs: number; readonly usual?: Usual | undefined },
): Update {
  const { leaseId: lease, owner, permits, limit, leaseMs, sessionId } = command;
  const bySession = leaseMs === null;
  const expiresAt = bySession ? null : after(now, leaseMs);
  const whole = isWhole(command, limit);
  const isDelivered = isAlwaysNotified(command);
  const idle = 'permitsUsed = :zero';
  const fits = `limit = :limit AND permitsUsed <= :room${bySession ? '' : ` AND ${noSessionHolds}`}`;
  const weight = whole ? 0 : extrasWeight(command);
  const bytesFit = '(attribute_not_exists(holdersBytes) OR holdersBytes <= :roomBytes)';
  const hasRoom = whole
    ? `${idle} AND ${holdsNoPart}`
    : `${holdsNoPart} AND (${idle} OR (${fits}${weight === 0 ? '' : ` AND ${bytesFit}`}))`;
  const known = isUsual(command, usual) ? usual : undefined;
  const nextFence = 'if_not_exists(fence, :now) + :one';
  const wholeHolder = [
    'holder = :claim',
    'acquiredAt = :now',
    ...(bySession ? ['sessionDigest = :sessionDigest'] : ['expiresAt = :end']),
  ];
  const partHolder = [
    'part = :part',
    `partFence = ${nextFence}`,
    ...(known === undefined ? ['usual = if_not_exists(usual, :usual)'] : []),
  ];
  return lockUpdate(
    {
      set: [
        'revision = if_not_exists(revision, :zero) + :one',
        `fence = ${nextFence}`,
        'permitsUsed = if_not_exists(permitsUsed, :zero) + :permits',
        'limit = :limit',
        'changedAt = :now',
        'layout = :layout',
        // A release removes the head of the front without a read, so there must be a list.
        'front = if_not_exists(front, :empty)',
        'listingPartition = :listingPartition',
        ...(whole ? wholeHolder : partHolder),
        ...(weight === 0 ? [] : ['holdersBytes = if_not_exists(holdersBytes, :zero) + :weight']),
        ...(bySession ? [] : ['collectAt = :collectAt']),
        // The notifier sees only awaited locks, and must deliver this grant.
        ...(isDelivered ? ['awaitedPartition = :awaitedPartition', 'awaitedSince = :now'] : []),
      ],
      remove: bySession ? ['collectAt', ...(whole ? ['expiresAt'] : [])] : [],
      when: `attribute_not_exists(key) OR (${[isOfLayout, nobodyWaits, notEnded, hasRoom].join(' AND ')}${known === undefined ? '' : ' AND usual = :usual'})`,
    },
    {
      lease,
      now,
      end: expiresAt ?? undefined,
      permits,
      limit,
      room: limit - permits,
      claim: toClaimItem(command),
      part: toPartItem({ ...command, acquiredAt: now, expiresAt }, known),
      usual: toUsualItem({ owner, permits, leaseMs }),
      weight,
      roomBytes: lockLimits.holdersBytesMax - weight,
      sessionDigest: sessionId === undefined ? undefined : digestOf(sessionId),
      collectAt: ttlOf(now, retentionMs, expiresAt === null ? [] : [expiresAt]),
      ...listingKeyOf(key),
      awaitedPartition: isDelivered ? awaitedPartitionOf(key) : undefined,
    },
    lease,
  );
}

/**
 * Extends a live lease on the whole lock. Safe because the condition holds only for this lease before its end, and only if
 * nothing was written after this renewal was sent. So a renewal that arrives late does not undo a later one.
 */
export const renewAllIfLive = ({ leaseId: lease, leaseMs }: Renew, { now }: Facts, retentionMs: number): Update =>
  lockUpdate(
    {
      set: [
        ...touched,
        ...(leaseMs === undefined
          ? ['expiresAt = :now + holder.leaseMs']
          : ['holder.leaseMs = :leaseMs', 'expiresAt = :end']),
      ],
      when: `${holdsAll} AND expiresAt > :now AND ${isNotLate} AND ${noSessionHolds}`,
    },
    renewalValues(lease, leaseMs, now, retentionMs),
  );

/**
 * The same for a part. If it has the lock's usual length, that is not written again. So if the caller asks for a length, `isSame`
 * says whether the lease was last seen with it. If not, the lease must have a length of its own.
 */
export const renewPartIfLive = (
  { leaseId: lease, leaseMs }: Renew,
  { now }: Facts,
  { retentionMs, isSame }: { readonly retentionMs: number; readonly isSame: boolean },
): Update => {
  const length = 'if_not_exists(part.partLeaseMs, usual.usualLeaseMs)';
  const asBefore = leaseMs === undefined || isSame;
  const hasOwnLength = 'attribute_exists(part.partLeaseMs)';
  return lockUpdate(
    {
      set: [
        ...touched,
        ...(asBefore
          ? [`part.partExpiresAt = :now + ${length}`]
          : ['part.partLeaseMs = :leaseMs', 'part.partExpiresAt = :end']),
      ],
      when: [
        holdsPart,
        'part.partExpiresAt > :now',
        isNotLate,
        noSessionHolds,
        ...(asBefore ? [] : [hasOwnLength]),
      ].join(' AND '),
    },
    renewalValues(lease, leaseMs, now, retentionMs),
    lease,
  );
};

const isNotLate = 'changedAt <= :now';

function renewalValues(lease: string, leaseMs: number | undefined, now: EpochMs, retentionMs: number) {
  const end = leaseMs === undefined ? undefined : after(now, leaseMs);
  return { lease, now, leaseMs, end, collectAt: ttlOf(now, retentionMs, end === undefined ? [] : [end]) };
}

/**
 * Releases a whole lock and hands it to the head of the queue, if there is one, in the same write.
 *
 * Safe because the condition holds only for the lease that holds now, and because the head is granted only if it is
 * present, wants the whole lock and has no session (only another item tells whether a session is alive). The head gets
 * the next fence. If nobody waits, the claim is empty, no permit is used and the fence stays.
 */
export function releaseAndHandOff({ leaseId: lease }: Release, { now }: Facts, retentionMs: number): Update {
  const headIsPresent = 'front[0].presentUntil > :now';
  const headWantsAll = 'front[0].permits = limit';
  const headHasNoSession = 'attribute_not_exists(front[0].extras.sessionId)';
  const headIsServed = [headIsPresent, headWantsAll, headHasNoSession].join(' AND ');
  return lockUpdate(
    {
      set: [
        ...touched,
        'holder = if_not_exists(front[0], :none)',
        'fence = fence + if_not_exists(front[0].fenceStep, :zero)',
        'acquiredAt = :now',
        'expiresAt = :now + if_not_exists(front[0].leaseMs, :zero)',
        'permitsUsed = if_not_exists(front[0].permits, :zero)',
        ...rememberEnding,
      ],
      remove: ['front[0]', 'sessionDigest'],
      // The lock is never freed while there are pages. Then `decide` is asked, and moves one up.
      when: `${holdsAll} AND ${isInForce} AND ((${nobodyWaits}) OR (${headIsServed}))`,
    },
    { lease, now, collectAt: ttlOf(now, retentionMs) },
  );
}

/**
 * Releases a part of a lock without waiters. Safe because the slot belongs to this lease. If somebody waits, or a
 * session holds another part, `decide` is asked.
 */
export const releasePart = ({ leaseId: lease }: Release, { now }: Facts, retentionMs: number): Update =>
  lockUpdate(
    {
      set: [
        ...touched,
        'permitsUsed = permitsUsed - if_not_exists(part.partPermits, usual.usualPermits)',
        'holdersBytes = if_not_exists(holdersBytes, :zero) - if_not_exists(part.partWeight, :zero)',
        ...rememberEnding,
      ],
      remove: ['part', 'partFence'],
      when: [holdsPart, 'part.partExpiresAt > :now', nobodyWaits, noSessionHolds].join(' AND '),
    },
    { lease, now, collectAt: ttlOf(now, retentionMs) },
    lease,
  );

/*
 * Updates of one place in the front of the queue. They commute: if many waiters arrive, ask again or leave at once, none
 * is refused because of another's revision.
 */

/** A new waiter. */
export interface Arrival {
  readonly waiter: Waiter;
  readonly limit: number;
  readonly frontLengthMax: number;
}

/** Places of the front that a new waiter is compared with: as many as the front may have before it joins. */
const notQueued = (frontLengthMax: number): string =>
  `NOT (:lease IN (${Array.from({ length: frontLengthMax }, (_, index) => `front[${index}].leaseId`).join(', ')}))`;
const holdsNotAll = 'NOT (:lease IN (holder.leaseId))';
const sameLimit = 'limit = :limit';
const isTaken = '(permitsUsed > :room OR attribute_exists(front[0]))';
const frontHasRoom = 'size(front) < :longest';

const awaited = [
  'awaitedPartition = if_not_exists(awaitedPartition, :awaitedPartition)',
  'awaitedSince = if_not_exists(awaitedSince, :awaitedSince)',
];

const arrivalValues = (key: LockKey, { waiter, limit, frontLengthMax }: Arrival) => ({
  lease: waiter.leaseId,
  limit,
  now: waiter.queuedAt,
  longest: frontLengthMax,
  awaitedPartition: awaitedPartitionOf(key),
  awaitedSince: waiter.queuedAt,
});

/**
 * Appends a waiter. Safe because the condition holds only with the same limit, only if others wait or the permits do not
 * fit, and only for a lease that neither waits nor holds nor is remembered as ended. The order is kept because nobody
 * joins the front while there are pages.
 */
export function appendWaiter(key: LockKey, arrival: Arrival): Update {
  const { waiter, limit, frontLengthMax } = arrival;
  const { leaseId, permits } = waiter;
  const isUnknown = [notQueued(frontLengthMax), holdsNoPart, holdsNotAll, notEnded];
  return lockUpdate(
    {
      set: ['front = list_append(front, :waiters)', ...changed, ...awaited],
      when: [isOfLayout, sameLimit, ...isUnknown, noPages, isTaken, frontHasRoom].join(' AND '),
    },
    { ...arrivalValues(key, arrival), room: limit - permits, waiters: [toWaiterItem(waiter)] },
    leaseId,
  );
}

/**
 * Opens a new last page. Safe because the condition holds only if the last page is the one that was seen, so two waiters
 * that find no place open one page. It also holds only if there are pages or the front is full: after an old read, a page
 * must not be opened for a lock that is free now, because nobody would serve its waiters.
 */
export function openPage(key: LockKey, arrival: Arrival, seen: Behind | undefined): Update {
  const { first, last } = withOneMore(seen, arrival.waiter.queuedAt);
  const lastIsAsSeen = seen === undefined ? 'attribute_not_exists(lastPage)' : 'lastPage = :seenLast';
  const noPlace = `(NOT ${noPages} OR NOT ${frontHasRoom})`;
  return lockUpdate(
    {
      set: ['lastPage = :last', 'firstPage = if_not_exists(firstPage, :first)', ...changed, ...awaited],
      when: [isOfLayout, sameLimit, lastIsAsSeen, noPlace].join(' AND '),
    },
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
      set: ['firstPage = :to', 'front = list_append(front, :waiters)', ...changed],
      when: `firstPage = :from AND ${isOfLayout}`,
    },
    { from, to, now, waiters: waiters.map(toWaiterItem) },
  );

/** A lease may have left and joined again since. Its times then show that this is another wait. */
const standsAt = (index: number): string =>
  [
    `front[${index}].leaseId = :lease`,
    `front[${index}].queuedAt = :queuedAt`,
    `front[${index}].waitMs = :waitMs`,
    isOfLayout,
  ].join(' AND ');

const waitValues = ({ leaseId, queuedAt, deadlineAt }: Waiter) => ({
  lease: leaseId,
  queuedAt,
  waitMs: deadlineAt - queuedAt,
});

/**
 * A late poll must not shorten the presence of a waiter that has parked since, nor may the end of an earlier
 * connection.
 */
const waitsAsBefore = (index: number, { notify }: Waiter): string =>
  notify === undefined
    ? `attribute_not_exists(front[${index}].extras.notify)`
    : `front[${index}].extras.notify = :notify`;

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
    {
      ...waitValues(waiter),
      notify: waiter.notify && toNotifyItem(waiter.notify),
      until: waiter.presentUntil,
      now,
    },
  );

/**
 * Removes a waiter that is not the first. Safe because the place belongs to this waiter, and because another one is the
 * head and still waits, so it is nobody's turn.
 */
export const leavePlace = (index: number, waiter: Waiter, isRemembered: boolean, now: EpochMs): Update =>
  lockUpdate(
    {
      set: [...changed, ...(isRemembered ? rememberEnding : [])],
      remove: [`front[${index}]`],
      when: `${standsAt(index)} AND front[0].leaseId <> :lease`,
    },
    { ...waitValues(waiter), now },
  );
