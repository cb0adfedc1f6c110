/**
 * Requests to the table as older releases send them, word for word. A deployment runs two releases on one table for some
 * minutes, and neither may break a promise of the other. So this file does not follow the store: if a change there makes
 * `contract/releases` fail, the change needs a new layout. A release is added here when its successor writes differently.
 */
import type { UpdateCommandInput } from '@aws-sdk/lib-dynamodb';

type Sent = Pick<
  UpdateCommandInput,
  'UpdateExpression' | 'ConditionExpression' | 'ExpressionAttributeNames' | 'ExpressionAttributeValues'
>;

/** What an older release sends for a caller that wants the whole lock for `leaseMs`, or holds it. */
export interface OlderRelease {
  /** An acquire of a lock that may be free. */
  grant(leaseId: string, now: number): Sent;
  /** A waiter that joins a queue. */
  append(leaseId: string, now: number): Sent;
  /** A release, with the hand-off to the first waiter. */
  release(leaseId: string, now: number): Sent;
  renew(leaseId: string, now: number): Sent;
}

const leaseMs = 10_000;
const waitMs = 60_000;
const everyPermit = 1_024;
const bytesOfWaiter = 145;
const endings = '#ending0, #ending1, #ending2, #ending3, #ending4, #ending5, #ending6, #ending7';
const shifted = [1, 2, 3, 4, 5, 6, 7].map((n) => `#ending${n} = if_not_exists(#ending${n - 1}, :none)`).join(', ');

const lettersOf = (layout: Readonly<Record<string, string>>): Readonly<Record<string, string>> => ({
  fence: 'fence',
  holderFence: 'f#0',
  limit: 'lim',
  holder: 'h#0',
  acquiredAt: 'a#0',
  expiresAt: 'x#0',
  changedAt: 'at',
  front: 'q',
  frontBytes: 'qb',
  queuedLeases: 'w',
  listingPartition: 'lp',
  listingName: 'ln',
  awaitedPartition: 'ap',
  awaitedSince: 'as',
  sessionDigest: 'sp',
  collectAt: 'ttl',
  key: 'pk',
  ...Object.fromEntries([0, 1, 2, 3, 4, 5, 6, 7].map((n) => [`ending${n}`, `e${n}`])),
  endingNotes: 'ed',
  leaseId: 'i',
  permits: 'p',
  leaseMs: 'l',
  sessionId: 's',
  bytes: 'b',
  presentUntil: 'k',
  fenceStep: 'g',
  ...layout,
});

const known = (leaseId: string, now: number) => ({
  ':zero': 0,
  ':one': 1,
  ':none': null,
  ':empty': [],
  ':now': now,
  ':end': now + leaseMs,
  ':leaseMs': leaseMs,
  ':leaseId': leaseId,
  ':lease': new Set([leaseId]),
  ':permits': everyPermit,
  ':limit': everyPermit,
  ':room': 0,
  ':claim': { i: leaseId, o: 'older', p: everyPermit, l: leaseMs },
  ':waiters': [
    {
      i: leaseId,
      o: 'older',
      p: everyPermit,
      l: leaseMs,
      t: now,
      u: now + waitMs,
      k: now + waitMs,
      b: bytesOfWaiter,
      g: 1,
    },
  ],
  ':weight': bytesOfWaiter,
  ':awaitedPartition': 'awaited/0',
  ':awaitedSince': now,
  ':listingPartition': 'releases/locks/0',
  ':listingName': 'any',
  ':collectAt': Math.ceil(now / 1_000) + 2_592_000,
});

/** An update with exactly the names and values that its expressions use. DynamoDB refuses others. */
function sent(
  letters: Readonly<Record<string, string>>,
  values: Readonly<Record<string, unknown>>,
  leaseId: string,
  { set, when }: { set: string; when: string },
): Sent {
  const words = [...`${set} ${when}`.matchAll(/#\w+/g)].map(([word]) => word);
  const nameOf = (word: string) =>
    ({ '#ownNote': leaseId, '#ownSlot': `h#${leaseId}` })[word] ?? letters[word.slice(1)];
  const used = [...`${set} ${when}`.matchAll(/:\w+/g)].map(([alias]) => alias);
  return {
    UpdateExpression: set,
    ConditionExpression: when,
    ExpressionAttributeNames: Object.fromEntries(words.map((word) => [word, nameOf(word) as string])),
    ExpressionAttributeValues: Object.fromEntries(used.map((alias) => [alias, values[alias]])),
  };
}

const release =
  'SET #revision = #revision + :one, #changedAt = :now, #collectAt = :collectAt, #holder = if_not_exists(#front[0], :none), ' +
  '#holderFence = #fence + if_not_exists(#front[0].#fenceStep, :zero), #fence = #fence + if_not_exists(#front[0].#fenceStep, :zero), ' +
  '#acquiredAt = :now, #expiresAt = :now + if_not_exists(#front[0].#leaseMs, :zero), ' +
  '#permitsUsed = if_not_exists(#front[0].#permits, :zero), #frontBytes = #frontBytes - if_not_exists(#front[0].#bytes, :zero), ' +
  `#ending0 = :leaseId, ${shifted} REMOVE #front[0], #sessionDigest DELETE #queuedLeases :lease`;
const append =
  'SET #front = list_append(#front, :waiters), #frontBytes = #frontBytes + :weight, #revision = #revision + :one, ' +
  '#changedAt = :now, #awaitedPartition = if_not_exists(#awaitedPartition, :awaitedPartition), ' +
  '#awaitedSince = if_not_exists(#awaitedSince, :awaitedSince) ADD #queuedLeases :lease';
const renew =
  'SET #revision = #revision + :one, #changedAt = :now, #collectAt = :collectAt, #holder.#leaseMs = :leaseMs, #expiresAt = :end';
const unended = `NOT (:leaseId IN (${endings})) AND attribute_not_exists(#endingNotes.#ownNote)`;
const unknown = `NOT contains(#queuedLeases, :leaseId) AND attribute_not_exists(#ownSlot) AND NOT (:leaseId IN (#holder.#leaseId)) AND ${unended}`;
const readyHead =
  '#front[0].#presentUntil > :now AND #front[0].#permits = #limit AND attribute_not_exists(#front[0].#sessionId)';

const layout1 = lettersOf({ revision: 'rev', permitsUsed: 'used', tail: 't' });

/** The last release before pages. The whole queue is in the lock's item. */
export const releaseOfLayout1: OlderRelease = {
  grant: (leaseId, now) =>
    sent(layout1, known(leaseId, now), leaseId, {
      set:
        'SET #revision = if_not_exists(#revision, :zero) + :one, #fence = if_not_exists(#fence, :now) + :one, ' +
        '#holderFence = if_not_exists(#fence, :now) + :one, #permitsUsed = if_not_exists(#permitsUsed, :zero) + :permits, ' +
        '#limit = :limit, #holder = :claim, #acquiredAt = :now, #changedAt = :now, #front = if_not_exists(#front, :empty), ' +
        '#frontBytes = if_not_exists(#frontBytes, :zero), #listingPartition = :listingPartition, #listingName = :listingName, ' +
        '#expiresAt = :end, #collectAt = :collectAt',
      when: `attribute_not_exists(#key) OR (attribute_not_exists(#front[0]) AND ${unended} AND #permitsUsed = :zero)`,
    }),
  append: (leaseId, now) =>
    sent(layout1, { ...known(leaseId, now), ':longest': 8, ':roomBytes': 255_882 }, leaseId, {
      set: append,
      when:
        `#limit = :limit AND ${unknown} AND size(#front) < :longest AND attribute_not_exists(#tail[0]) AND ` +
        '(#permitsUsed > :room OR attribute_exists(#front[0])) AND #frontBytes <= :roomBytes',
    }),
  release: (leaseId, now) =>
    sent(layout1, known(leaseId, now), leaseId, {
      set: release,
      when:
        `#holder.#leaseId = :leaseId AND (attribute_not_exists(#front[0]) OR (${readyHead} AND ` +
        '(attribute_exists(#front[1]) OR attribute_not_exists(#tail[0]))))',
    }),
  renew: (leaseId, now) =>
    sent(layout1, known(leaseId, now), leaseId, {
      set: renew,
      when: '#holder.#leaseId = :leaseId AND #expiresAt > :now AND #changedAt <= :now AND attribute_exists(#collectAt)',
    }),
};

const layout2 = lettersOf({
  revision: 'r',
  permitsUsed: 'u',
  layout: 'lv',
  firstPage: 'pf',
  lastPage: 'pl',
  holdersBytes: 'hb',
});
const noPages = '(attribute_not_exists(#firstPage) OR #firstPage > #lastPage)';

/** A release of November 2026, with the queue in pages. */
export const releaseOfLayout2: OlderRelease = {
  grant: (leaseId, now) =>
    sent(layout2, { ...known(leaseId, now), ':layout': 2 }, leaseId, {
      set:
        'SET #revision = if_not_exists(#revision, :zero) + :one, #fence = if_not_exists(#fence, :now) + :one, ' +
        '#holderFence = if_not_exists(#fence, :now) + :one, #permitsUsed = if_not_exists(#permitsUsed, :zero) + :permits, ' +
        '#limit = :limit, #holder = :claim, #changedAt = :now, #layout = :layout, #front = if_not_exists(#front, :empty), ' +
        '#frontBytes = if_not_exists(#frontBytes, :zero), #holdersBytes = if_not_exists(#holdersBytes, :zero), ' +
        '#listingPartition = :listingPartition, #listingName = :listingName, #acquiredAt = :now, #expiresAt = :end, ' +
        '#collectAt = :collectAt',
      when:
        `attribute_not_exists(#key) OR (#layout = :layout AND attribute_not_exists(#front[0]) AND ${noPages} AND ` +
        `${unended} AND #permitsUsed = :zero)`,
    }),
  append: (leaseId, now) =>
    sent(layout2, { ...known(leaseId, now), ':layout': 2, ':longest': 10, ':roomBytes': 16_239 }, leaseId, {
      set: append,
      when:
        `#layout = :layout AND #limit = :limit AND ${unknown} AND ${noPages} AND ` +
        '(#permitsUsed > :room OR attribute_exists(#front[0])) AND ' +
        '(attribute_not_exists(#front[0]) OR (size(#front) < :longest AND #frontBytes <= :roomBytes))',
    }),
  release: (leaseId, now) =>
    sent(layout2, { ...known(leaseId, now), ':layout': 2 }, leaseId, {
      set: release,
      when:
        `#holder.#leaseId = :leaseId AND #layout = :layout AND ((attribute_not_exists(#front[0]) AND ${noPages}) OR ` +
        `(${readyHead}))`,
    }),
  renew: (leaseId, now) =>
    sent(layout2, { ...known(leaseId, now), ':layout': 2 }, leaseId, {
      set: renew,
      when:
        '#holder.#leaseId = :leaseId AND #layout = :layout AND #expiresAt > :now AND #changedAt <= :now AND ' +
        'attribute_exists(#collectAt)',
    }),
};

/** The item of a held lock with which a release of layout 1 would replace the one whose revision it saw. */
export const swapOfLayout1 = (key: { pk: string; sk: string }, leaseId: string, seen: number, now: number) => ({
  Item: {
    ...key,
    lp: 'releases/locks/0',
    ln: 'any',
    rev: seen + 1,
    fence: now + 1,
    lim: everyPermit,
    used: everyPermit,
    at: now,
    q: [],
    qb: 0,
    'h#0': { i: leaseId, o: 'older', p: everyPermit, l: leaseMs },
    'f#0': now + 1,
    'a#0': now,
    'x#0': now + leaseMs,
    ttl: Math.ceil(now / 1_000) + 2_592_000,
  },
  ConditionExpression: '#revision = :seen',
  ExpressionAttributeNames: { '#revision': 'rev' },
  ExpressionAttributeValues: { ':seen': seen },
});
