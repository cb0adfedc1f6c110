/**
 * Claims in items. In the lock's item a claim is a list, because a list has no names, and DynamoDB bills by the item's size. Words
 * name the places of the list, so expressions stay readable (`front[0].presentUntil`). In a page a waiter is one short string.
 */
import type { Claim, Holder, Notify, Usual, Waiter } from '../lock/state.ts';
import { extrasWeight } from '../lock/state.ts';
import {
  asList,
  asMap,
  asText,
  type Item,
  instant,
  integer,
  map,
  oneOf,
  optional,
  text,
  unreadable,
} from '../table/attributes.ts';
import { after, type EpochMs, epochMs } from '../time/clock.ts';
import { defined } from '../tools/collections.ts';

/** The places of a claim: of a waiter in the front, and of a holder of the whole lock, which has only the first of them if it never waited. */
export const claimWords = {
  leaseId: 0,
  owner: 1,
  permits: 2,
  leaseMs: 3,
  /** A map of what few claims have, or null. */
  extras: 4,
  queuedAt: 5,
  /** From its arrival to its deadline. */
  waitMs: 6,
  presentUntil: 7,
  /** Always 1. A release adds it to the fence, so the fence stays the same if nobody waits. */
  fenceStep: 8,
} as const;

export const extraWords = { sessionId: 's', lockDelayMs: 'd', mode: 'r', metadata: 'm', notify: 'n' } as const;

/** The places of an address for a delivery. */
export const notifyWords = { notifyType: 0, address: 1 } as const;

/**
 * The places of the holder of a part. Its lease is the name of its attribute, and its fence is an attribute of its own, because an
 * expression can't compute an element of a new list. A holder that differs from the lock's usual one only in these times has only
 * the first two or three of them: with both names at most 60 bytes.
 */
export const partWords = {
  partAcquiredAt: 0,
  partExpiresAt: 1,
  partWaitedMs: 2,
  partOwner: 3,
  partPermits: 4,
  partLeaseMs: 5,
  partExtras: 6,
  /** What its extras count in the limit of all holders. */
  partWeight: 7,
} as const;

/** The places of what most holders of a part have in common. */
export const usualWords = { usualOwner: 0, usualPermits: 1, usualLeaseMs: 2 } as const;

type Queued = { readonly queuedAt?: EpochMs };

/** The claim of a holder of the whole lock. */
export const toClaimItem = (claim: Claim & Queued): readonly unknown[] => [
  claim.leaseId,
  claim.owner,
  claim.permits,
  claim.leaseMs,
  extrasOf(claim),
  ...(claim.queuedAt === undefined ? [] : [claim.queuedAt]),
];

export const toWaiterItem = (waiter: Waiter): readonly unknown[] => [
  ...toClaimItem(waiter),
  waiter.deadlineAt - waiter.queuedAt,
  waiter.presentUntil,
  1,
];

export function fromClaimItem(values: readonly unknown[]): Claim & Queued {
  const item = named(values, claimWords);
  return {
    leaseId: text(item, 'leaseId'),
    owner: text(item, 'owner'),
    permits: integer(item, 'permits'),
    leaseMs: item.leaseMs === null ? null : integer(item, 'leaseMs'),
    ...fromExtras(item.extras),
    ...defined({ queuedAt: optional(instant, item, 'queuedAt') }),
  };
}

export function fromWaiterItem(values: readonly unknown[]): Waiter {
  const item = named(values, claimWords);
  const queuedAt = instant(item, 'queuedAt');
  return {
    ...fromClaimItem(values),
    queuedAt,
    deadlineAt: after(queuedAt, integer(item, 'waitMs')),
    presentUntil: instant(item, 'presentUntil'),
  };
}

export type Part = Claim & Queued & Pick<Holder, 'acquiredAt' | 'expiresAt'>;

export const isUsual = (claim: Claim, usual: Usual | undefined): boolean =>
  usual !== undefined &&
  claim.owner === usual.owner &&
  claim.permits === usual.permits &&
  claim.leaseMs === usual.leaseMs &&
  extrasOf(claim) === null;

/** The holder of a part, without its fence. Of a usual one only the times are written. */
export function toPartItem(part: Part, usual: Usual | undefined): readonly unknown[] {
  const { acquiredAt, expiresAt, queuedAt, owner, permits, leaseMs } = part;
  const waitedMs = queuedAt === undefined ? null : acquiredAt - queuedAt;
  if (isUsual(part, usual)) return [acquiredAt, expiresAt, ...(waitedMs === null ? [] : [waitedMs])];
  const extras = extrasOf(part);
  const weight = extras === null ? [] : [extrasWeight(part)];
  return [acquiredAt, expiresAt, waitedMs, owner, permits, leaseMs, extras, ...weight];
}

export function fromPartItem(
  leaseId: string,
  values: readonly unknown[],
  usual: Usual | undefined,
): Omit<Holder, 'fence'> {
  const item = named(values, partWords);
  const acquiredAt = instant(item, 'partAcquiredAt');
  const waitedMs = item.partWaitedMs === null ? undefined : optional(integer, item, 'partWaitedMs');
  return {
    leaseId,
    ...(item.partOwner === undefined ? given(usual) : ownIn(item)),
    ...fromExtras(item.partExtras ?? null),
    acquiredAt,
    expiresAt: item.partExpiresAt === null ? null : instant(item, 'partExpiresAt'),
    ...(waitedMs === undefined ? {} : { queuedAt: epochMs(acquiredAt - waitedMs) }),
  };
}

function given(usual: Usual | undefined): Usual {
  if (usual === undefined) throw unreadable('a holder has no owner');
  return usual;
}

const ownIn = (item: Item): Usual => ({
  owner: text(item, 'partOwner'),
  permits: integer(item, 'partPermits'),
  leaseMs: item.partLeaseMs === null ? null : integer(item, 'partLeaseMs'),
});

export const toUsualItem = ({ owner, permits, leaseMs }: Usual): readonly unknown[] => [owner, permits, leaseMs];

export function usualIn(item: Item, name: string): Usual {
  const usual = named(asList(item[name], name), usualWords);
  return {
    owner: text(usual, 'usualOwner'),
    permits: integer(usual, 'usualPermits'),
    leaseMs: usual.usualLeaseMs === null ? null : integer(usual, 'usualLeaseMs'),
  };
}

/** The values of a list by the words for their places, so that they are checked like attributes. */
const named = (values: readonly unknown[], words: Readonly<Record<string, number>>): Item =>
  Object.fromEntries(Object.entries(words).map(([word, place]) => [word, values[place]]));

/** What few claims have. Null if this one has nothing of it. */
function extrasOf({ sessionId, lockDelayMs, mode, metadata, notify }: Claim): Item | null {
  const extras = defined({
    [extraWords.sessionId]: sessionId,
    [extraWords.lockDelayMs]: lockDelayMs || undefined,
    [extraWords.mode]: mode,
    [extraWords.metadata]: metadata,
    [extraWords.notify]: notify && toNotifyItem(notify),
  });
  return Object.keys(extras).length === 0 ? null : extras;
}

function fromExtras(value: unknown): Partial<Claim> {
  if (value === null) return {};
  const item = asMap(value, 'extras');
  return defined({
    sessionId: optional(text, item, extraWords.sessionId),
    lockDelayMs: optional(integer, item, extraWords.lockDelayMs),
    mode: optional(modeIn, item, extraWords.mode),
    metadata: optional(texts, item, extraWords.metadata),
    notify: optional(notifyIn, item, extraWords.notify),
  });
}

const modeIn = (item: Item, name: string) => oneOf(item, name, ['exclusive', 'shared']);

function texts(item: Item, name: string): Record<string, string> {
  return Object.fromEntries(Object.entries(map(item, name)).map(([key, value]) => [key, asText(value, name)]));
}

const notifyTypes = { e: 'event', t: 'task-token', d: 'durable-callback', w: 'websocket' } as const;

/** The letter of its type, its address, the owner's leaseId if its delivery carries one, and whether it is always told. */
export function toNotifyItem(notify: Notify): readonly unknown[] {
  const secret = notify.leaseId ?? null;
  switch (notify.type) {
    case 'event':
      return ['e', notify.ref];
    case 'task-token':
      return ['t', notify.token, secret, ...(notify.always ? [true] : [])];
    case 'durable-callback':
      return ['d', notify.id, secret, ...(notify.always ? [true] : [])];
    case 'websocket':
      return ['w', notify.connectionId, secret];
  }
}

export function notifyIn(item: Item, name: string): Notify {
  const [letter, address, secret, isAlways] = asList(item[name], name);
  const type = notifyTypes[oneOf({ letter }, 'letter', ['e', 't', 'd', 'w'])];
  const to = asText(address, name);
  const leaseId = secret === null || secret === undefined ? {} : { leaseId: asText(secret, name) };
  const always = isAlways === true ? { always: true } : {};
  switch (type) {
    case 'event':
      return { type, ref: to };
    case 'task-token':
      return { type, token: to, ...leaseId, ...always };
    case 'durable-callback':
      return { type, id: to, ...leaseId, ...always };
    case 'websocket':
      return { type, connectionId: to, ...leaseId };
  }
}

/**
 * A waiter of a page as one short string, without the parts that change while it waits. Its deadline counts from its arrival, to
 * be short.
 */
export function toText({ notify: _, ...waiter }: Waiter): string {
  const { leaseId, owner, permits, leaseMs, queuedAt, deadlineAt } = waiter;
  const extras = extrasOf(waiter);
  const lasting = [leaseId, owner, permits, leaseMs, queuedAt, deadlineAt - queuedAt];
  return JSON.stringify(extras === null ? lasting : [...lasting, extras]);
}

/** Reads a waiter from its string. Its presence and its way to be notified are separate attributes of the page. */
export function fromText(written: string): Omit<Waiter, 'presentUntil'> {
  const [leaseId, owner, permits, leaseMs, queuedAt, waitMs, extras = null] = partsOf(written);
  const numbers: Item = { permits, queuedAt, waitMs };
  const queued = epochMs(integer(numbers, 'queuedAt'));
  return {
    leaseId: asText(leaseId, 'a waiter'),
    owner: asText(owner, 'a waiter'),
    permits: integer(numbers, 'permits'),
    leaseMs: leaseMs === null ? null : integer({ leaseMs }, 'leaseMs'),
    ...fromExtras(extras),
    queuedAt: queued,
    deadlineAt: after(queued, integer(numbers, 'waitMs')),
  };
}

function partsOf(written: string): readonly unknown[] {
  try {
    return asList(JSON.parse(written), 'waiter');
  } catch {
    throw unreadable('a waiter is not a list');
  }
}
