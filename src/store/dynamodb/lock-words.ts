/** The words in which a lock's expressions are written, and the conditions that have names. */
import { lockLimits } from '../../lock/limits.ts';
import { type Clauses, update as compile, type Update } from './expressions.ts';

/** What a claim is made of, of a holder or of a waiter. */
export const claimWords = {
  leaseId: 'i',
  owner: 'o',
  permits: 'p',
  leaseMs: 'l',
  sessionId: 's',
  lockDelayMs: 'd',
  mode: 'r',
  metadata: 'm',
  notify: 'n',
  queuedAt: 't',
} as const;

/** What a waiter has besides. */
export const waiterWords = {
  deadlineAt: 'u',
  presentUntil: 'k',
  /** What it adds to the weight of the queue. */
  bytes: 'b',
  /** By how much its grant raises the fence: one. A release adds the head's step, and nothing where there is no head. */
  fenceStep: 'g',
} as const;

/** Endings are attributes of their own, newest first, so that one update can move each of them up. */
export const endingNames: readonly string[] = Array.from(
  { length: lockLimits.endedRemembered },
  (_, index) => `e${index}`,
);

export const lockWords = {
  ...claimWords,
  ...waiterWords,
  ...Object.fromEntries(endingNames.map((name, index) => [`ending${index}`, name])),
  key: 'pk',
  layout: 'lv',
  revision: 'rev',
  fence: 'fence',
  limit: 'lim',
  permitsUsed: 'used',
  changedAt: 'at',
  front: 'q',
  tail: 't',
  queueBytes: 'qb',
  queuedLeases: 'w',
  /** How leases ended that were not simply given back, by lease. */
  endingNotes: 'ed',
  collectAt: 'ttl',
  listingPartition: 'lp',
  listingName: 'ln',
  awaitedPartition: 'ap',
  awaitedSince: 'as',
  /** The session that holds the whole lock, by its digest. */
  sessionDigest: 'sp',
} as const;

/** The attributes of a holder in a slot. */
export const holderWords = (slot: string) => ({
  holder: `h#${slot}`,
  holderFence: `f#${slot}`,
  acquiredAt: `a#${slot}`,
  expiresAt: `x#${slot}`,
});

const plainValues = { zero: 0, one: 1, none: null, empty: [] };

/** An update of a lock's item. `:none` is nobody, or no ending yet. Not an empty map: DynamoDB Local's stream drops those. */
export const lockUpdate = (
  clauses: Clauses,
  words: Readonly<Record<string, string>>,
  values: Readonly<Record<string, unknown>>,
): Update => compile(clauses, { ...lockWords, ...words }, { ...plainValues, ...values });

/** Every write raises the revision and says when it was made. */
export const changed = ['revision = revision + :one', 'changedAt = :now'];

/** The tail of the queue is empty wherever the front is. */
export const nobodyWaits = 'attribute_not_exists(front[0])';

/**
 * A late duplicate never takes the lock again after its lease has ended. Nor while there is a note of how it ended, even if the ending
 * itself is forgotten: the note would be taken for the next ending's.
 */
export const notEnded = `NOT (:leaseId IN (${endingNames.map((_, index) => `ending${index}`).join(', ')})) AND attribute_not_exists(endingNotes.ownNote)`;

/** A lease as it is compared, and as it goes into and out of a set. */
export const leaseValues = (leaseId: string) => ({ leaseId, lease: new Set([leaseId]) });
export const leaseWords = (leaseId: string) => ({ ownNote: leaseId });

/** The newest ending, of a lease that was given back, becomes the first and each earlier one moves up; the oldest is forgotten. */
export const rememberEnding = endingNames.map((_, index) =>
  index === 0 ? 'ending0 = :leaseId' : `ending${index} = if_not_exists(ending${index - 1}, :none)`,
);
