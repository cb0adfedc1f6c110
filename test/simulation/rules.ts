/**
 * The rules as the oracle of the expressions: each write that an expression made to a lock or to a page must be what the rules say about
 * the state before it. A grant, a renewal and a release are compared with `decide`, and changes of one place with what `Change` says
 * about them: they are decided on an earlier state, and must be right on this one.
 */
import { isDeepStrictEqual } from 'node:util';
import type { LockCommand } from '../../src/lock/commands.ts';
import { decide } from '../../src/lock/decide.ts';
import { lockLimits } from '../../src/lock/limits.ts';
import { type Holder, hasMore, type LockState, permitsHeld, type Waiter } from '../../src/lock/state.ts';
import { lockWords, toLockItem } from '../../src/queue/lock-item.ts';
import { retentionMsDefault } from '../../src/queue/lock-store.ts';
import {
  append,
  attendIn,
  close,
  leaveIn,
  moveUp,
  type Page,
  type QueueSizes,
  stepAwayIn,
} from '../../src/queue/pages.ts';
import type { Item } from '../../src/table/attributes.ts';
import type { LockWrite } from './table.ts';

export interface RuleFacts {
  readonly sizes: QueueSizes;
  /** The pages of the lock, by number. */
  readonly pages: ReadonlyMap<number, Page>;
}

/** What is wrong with a write that an expression made. Undefined if nothing is. */
export function brokenRule({ name, stored, item }: LockWrite, facts: RuleFacts): string | undefined {
  if (stored.kind === 'page') return brokenInPage(stored.before, stored.after, facts);
  const { before, after } = stored;
  const expected = expectedOf(before, after, facts);
  if (typeof expected === 'string') return expected;
  // What is usual among holders is only how the item is written.
  const next = { ...expected, rev: before.rev + 1, changedAt: after.changedAt, usual: undefined };
  if (!isSame(next, { ...after, usual: undefined })) return `the rules make ${JSON.stringify(next)}`;
  return brokenItem(name, item, after);
}

/** By value, and without attributes that are undefined. */
const isSame = (one: object, other: object): boolean =>
  isDeepStrictEqual(one, other) || JSON.stringify(sorted(one)) === JSON.stringify(sorted(other));

const sorted = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .sort(([one], [other]) => (one < other ? -1 : 1))
      .map(([name, part]) => [name, sorted(part)]),
  );
};

const ids = (entries: readonly { readonly leaseId: string }[]): string[] => entries.map(({ leaseId }) => leaseId);

/** The state that the rules make where the expression made `after`, or what forbids the write. */
function expectedOf(before: LockState, after: LockState, { sizes, pages }: RuleFacts): LockState | string {
  const facts = { now: after.changedAt, graceMs: lockLimits.graceMs, frontLengthMax: sizes.front };
  const by = (command: LockCommand): LockState | string => {
    const { next, answer } = decide(before, command, facts);
    return next === before ? `the rules answer ${answer.kind} to ${command.kind} and change nothing` : next;
  };
  if ((after.behind?.first ?? 0) > (before.behind?.first ?? Number.POSITIVE_INFINITY))
    return movedUp(before, after, pages);
  if (!isDeepStrictEqual(before.behind, after.behind)) return openedPage(before, after, sizes);
  const granted = after.holders.find(({ fence }) => fence > before.fence);
  if (granted !== undefined && granted.queuedAt === undefined) return by(acquireOf(granted, after.limit));
  const released = before.holders.find(({ leaseId }) => !ids(after.holders).includes(leaseId));
  // Only another item tells whether a session is alive, and an expression can't read it.
  if (granted?.sessionId !== undefined) return `${granted.leaseId} was granted, and nobody read its session`;
  if (released !== undefined) return by({ kind: 'release', leaseId: released.leaseId });
  if (granted !== undefined) return `${granted.leaseId} was granted although nobody released`;
  const renewed = after.holders.find((holder, index) => !isDeepStrictEqual(holder, before.holders[index]));
  if (renewed !== undefined) {
    // A renewal that arrives late must not undo a later write.
    if (after.changedAt < before.changedAt) return `${renewed.leaseId} was renewed by a write that was sent earlier`;
    return by({
      kind: 'renew',
      leaseId: renewed.leaseId,
      ...(renewed.leaseMs === null ? {} : { leaseMs: renewed.leaseMs }),
    });
  }
  return changedQueue(before, after, sizes);
}

const acquireOf = (holder: Holder, limit: number): LockCommand => ({
  ...holder,
  kind: 'acquire',
  limit,
  waitMs: 0,
  attendMs: 0,
});

function movedUp(before: LockState, after: LockState, pages: ReadonlyMap<number, Page>): LockState | string {
  let state = before;
  while (state.behind !== undefined && state.behind.first < (after.behind?.first ?? 0)) {
    const page = pages.get(state.behind.first);
    if (page === undefined || page.closedAt === null) return `page ${state.behind.first} moved up and is not closed`;
    state = moveUp(state, page);
  }
  return state;
}

function openedPage(before: LockState, after: LockState, sizes: QueueSizes): LockState | string {
  if (!hasMore(before) && before.queue.length < sizes.front) return 'a page was opened although the front has room';
  const { first, last } = after.behind ?? { first: 0, last: -1 };
  const isNext =
    before.behind === undefined ? first === last : last === before.behind.last + 1 && first === before.behind.first;
  return isNext ? { ...before, behind: { first, last } } : 'a page was opened out of order';
}

function changedQueue(before: LockState, after: LockState, sizes: QueueSizes): LockState | string {
  const arrived = after.queue.length > before.queue.length ? after.queue.at(-1) : undefined;
  if (arrived !== undefined) return arrivedIn(before, arrived, sizes);
  const index = before.queue.findIndex(({ leaseId }) => !ids(after.queue).includes(leaseId));
  const left = before.queue[index];
  if (left !== undefined) {
    if (index === 0) return `${left.leaseId} left the head of the queue, and nobody was served`;
    const queue = before.queue.filter((waiter) => waiter !== left);
    const isRemembered = after.ended[0]?.leaseId === left.leaseId && after.ended !== before.ended;
    const ended = [{ leaseId: left.leaseId, how: 'released' as const }, ...before.ended];
    return isRemembered
      ? { ...before, queue, ended: ended.slice(0, lockLimits.endedRemembered) }
      : { ...before, queue };
  }
  const place = before.queue.findIndex((waiter, at) => !isDeepStrictEqual(waiter, after.queue[at]));
  const presentUntil = after.queue[place]?.presentUntil;
  if (presentUntil === undefined) return before;
  return { ...before, queue: before.queue.with(place, { ...(before.queue[place] as Waiter), presentUntil }) };
}

function arrivedIn(before: LockState, waiter: Waiter, sizes: QueueSizes): LockState | string {
  const known = ids([...before.holders, ...before.queue, ...before.ended]);
  if (known.includes(waiter.leaseId)) return `${waiter.leaseId} joined although the lock knows it`;
  if (hasMore(before)) return `${waiter.leaseId} joined the front although there are pages`;
  if (before.queue.length >= sizes.front) return `${waiter.leaseId} joined a full front`;
  if (before.queue.length === 0 && permitsHeld(before) + waiter.permits <= before.limit)
    return `${waiter.leaseId} waits although its permits are free`;
  return { ...before, queue: [...before.queue, waiter] };
}

function brokenInPage(before: Page, after: Page, { sizes }: RuleFacts): string | undefined {
  if (isDeepStrictEqual(before, after)) return undefined;
  const expected = pageOf(before, after, sizes);
  if (expected === undefined) return `the rules refuse this change of page ${before.number}`;
  return isSame(inOrder(expected), inOrder(after)) ? undefined : `the rules make ${JSON.stringify(expected)}`;
}

/** The item keeps those that left in the order in which they joined, the rules in the order in which they left. */
const inOrder = (page: Page): Page => ({
  ...page,
  left: page.left.toSorted((one, other) => (one.leaseId < other.leaseId ? -1 : 1)),
});

function pageOf(before: Page, after: Page, sizes: QueueSizes): Page | undefined {
  if (after.closedAt !== null) return before.closedAt === null ? close(before, after.closedAt) : before;
  const joined = after.waiters.find(({ leaseId }) => !ids(before.waiters).includes(leaseId));
  if (joined !== undefined) return append(before, { waiter: joined, fence: after.fence }, sizes);
  const left = after.left.find((entry) => !before.left.some((other) => isDeepStrictEqual(other, entry)));
  if (left !== undefined) return leaveIn(before, left.leaseId, left.how);
  const changed = after.waiters.find((waiter) => !before.waiters.some((other) => isDeepStrictEqual(other, waiter)));
  if (changed === undefined) return undefined;
  const { leaseId, presentUntil, notify } = changed;
  const attended = attendIn(before, { leaseId, presentUntil, notify });
  if (attended !== undefined && isSame(inOrder(attended), inOrder(after))) return attended;
  const connectionId = notify?.type === 'websocket' ? notify.connectionId : undefined;
  return stepAwayIn(before, { leaseId, presentUntil, connectionId });
}

/** What the item repeats of the state, so that conditions can ask for it. */
const repeated = [
  lockWords.layout,
  lockWords.permitsUsed,
  lockWords.holdersBytes,
  lockWords.sessionDigest,
  lockWords.listingPartition,
];

/** What the item has besides the state: used permits, sizes, TTL and the keys of the indexes. */
function brokenItem(name: string, item: Item, after: LockState): string | undefined {
  const expected = toLockItem({ namespace: 'sim', name }, after, retentionMsDefault);
  const wrong = repeated.find((attribute) => (item[attribute] || undefined) !== (expected[attribute] || undefined));
  if (wrong !== undefined) return `"${wrong}" is ${shown(item[wrong])}, not ${shown(expected[wrong])}`;
  const { collectAt, awaitedPartition, holder } = lockWords;
  if (((item[holder] ?? null) === null) !== (expected[holder] === undefined))
    return 'a holder of a part is in the place of a holder of all permits, or the other way round';
  const ttl = item[collectAt];
  if ((ttl === undefined) !== (expected[collectAt] === undefined))
    return ttl === undefined ? 'it is never deleted' : 'it has a TTL although a session holds it';
  const ends = [...after.holders, ...after.queue].map((claim) =>
    'deadlineAt' in claim ? claim.deadlineAt : (claim.expiresAt ?? 0),
  );
  if (ttl !== undefined && (ttl as number) * 1_000 < Math.max(0, ...ends))
    return 'its TTL is before the end of a lease or a wait';
  return expected[awaitedPartition] === undefined || item[awaitedPartition] === expected[awaitedPartition]
    ? undefined
    : 'it has waiters and is not in the index of awaited locks';
}

const shown = (value: unknown): string => JSON.stringify(value) ?? 'missing';
