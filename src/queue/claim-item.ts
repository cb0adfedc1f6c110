/**
 * Claims in items. In the lock's item a claim is a map, so that the expression of a hand-off can use its attributes. In
 * a page a waiter is one short text, because DynamoDB bills by the item's size.
 */
import type { Claim, Notify, Waiter } from '../lock/state.ts';
import { holderWeight, weightOf } from '../lock/state.ts';
import {
  asMap,
  asText,
  type Item,
  instant,
  integer,
  list,
  map,
  oneOf,
  optional,
  text,
  unreadable,
} from '../table/attributes.ts';
import { after, type EpochMs, epochMs } from '../time/clock.ts';
import { defined } from '../tools/collections.ts';

/** The attributes of every claim. */
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

/** The attributes that only a waiter has. */
export const waiterWords = {
  deadlineAt: 'u',
  presentUntil: 'k',
  /** Its weight in the front. */
  bytes: 'b',
  /** Always 1. A release adds it to the fence, so the fence stays the same if nobody waits. */
  fenceStep: 'g',
} as const;

/** The attributes that only the holder of a part has. For a holder of the whole lock, they are attributes of the item. */
export const partWords = { grantedAt: 'a', endsAt: 'x' } as const;

/** The claim of a holder or a waiter as a map. */
export function toClaimItem(claim: Claim & { readonly queuedAt?: EpochMs }): Item {
  return {
    [claimWords.leaseId]: claim.leaseId,
    [claimWords.owner]: claim.owner,
    [claimWords.permits]: claim.permits,
    ...(claim.leaseMs === null ? {} : { [claimWords.leaseMs]: claim.leaseMs }),
    ...extrasOf(claim),
    ...defined({ [claimWords.queuedAt]: claim.queuedAt }),
  };
}

/** The holder of a part. The name of its slot is its lease, so the map does not repeat it. */
export function toPartItem(
  claim: Claim & { readonly queuedAt?: EpochMs },
  acquiredAt: EpochMs,
  expiresAt?: EpochMs | null,
): Item {
  const { [claimWords.leaseId]: _, ...item } = toClaimItem(claim);
  const end = expiresAt ?? (claim.leaseMs === null ? null : after(acquiredAt, claim.leaseMs));
  return {
    ...item,
    [partWords.grantedAt]: acquiredAt,
    ...(end === null ? {} : { [partWords.endsAt]: end }),
    [waiterWords.bytes]: holderWeight(claim),
  };
}

/** The attributes that few claims have. */
const extrasOf = (claim: Claim): Item =>
  defined({
    [claimWords.sessionId]: claim.sessionId,
    [claimWords.lockDelayMs]: claim.lockDelayMs || undefined,
    [claimWords.mode]: claim.mode,
    [claimWords.metadata]: claim.metadata,
    [claimWords.notify]: claim.notify,
  });

export function fromClaimItem(item: Item): Claim & { readonly queuedAt?: EpochMs } {
  return {
    leaseId: text(item, claimWords.leaseId),
    owner: text(item, claimWords.owner),
    permits: integer(item, claimWords.permits),
    leaseMs: optional(integer, item, claimWords.leaseMs) ?? null,
    ...fromExtras(item),
    ...defined({ queuedAt: optional(instant, item, claimWords.queuedAt) }),
  };
}

const fromExtras = (item: Item): Partial<Claim> =>
  defined({
    sessionId: optional(text, item, claimWords.sessionId),
    lockDelayMs: optional(integer, item, claimWords.lockDelayMs),
    mode: optional(modeIn, item, claimWords.mode),
    metadata: optional(texts, item, claimWords.metadata),
    notify: optional(notifyIn, item, claimWords.notify),
  });

const modeIn = (item: Item, name: string) => oneOf(item, name, ['exclusive', 'shared']);

function texts(item: Item, name: string): Record<string, string> {
  return Object.fromEntries(Object.entries(map(item, name)).map(([key, value]) => [key, asText(value, name)]));
}

export function notifyIn(item: Item, name: string): Notify {
  const notify = map(item, name);
  const type = oneOf(notify, 'type', ['event', 'task-token', 'durable-callback', 'websocket']);
  const always = typeof notify.always === 'boolean' ? { always: notify.always } : {};
  switch (type) {
    case 'event':
      return { type, ref: text(notify, 'ref') };
    case 'task-token':
      return { type, token: text(notify, 'token'), ...always };
    case 'durable-callback':
      return { type, id: text(notify, 'id'), ...always };
    case 'websocket':
      return { type, connectionId: text(notify, 'connectionId') };
  }
}

export const toWaiterItem = (waiter: Waiter): Item => ({
  ...toClaimItem(waiter),
  [waiterWords.deadlineAt]: waiter.deadlineAt,
  [waiterWords.presentUntil]: waiter.presentUntil,
  [waiterWords.bytes]: weightOf(waiter),
  [waiterWords.fenceStep]: 1,
});

export const fromWaiterItem = (item: Item): Waiter => ({
  ...fromClaimItem(item),
  queuedAt: instant(item, claimWords.queuedAt),
  deadlineAt: instant(item, waiterWords.deadlineAt),
  presentUntil: instant(item, waiterWords.presentUntil),
});

/**
 * A waiter as one short text, without the parts that change while it waits. Its deadline counts from its arrival, to be
 * short.
 */
export function toText(waiter: Waiter): string {
  const { leaseId, owner, permits, leaseMs, queuedAt, deadlineAt } = waiter;
  const { notify: _, ...lasting } = waiter;
  const extras = extrasOf(lasting);
  return JSON.stringify([
    leaseId,
    owner,
    permits,
    leaseMs,
    queuedAt,
    deadlineAt - queuedAt,
    ...(Object.keys(extras).length === 0 ? [] : [extras]),
  ]);
}

/** Reads a waiter from its text. Its presence and its way to be notified are separate attributes of the page. */
export function fromText(written: string): Omit<Waiter, 'presentUntil'> {
  return fromParts(partsOf(written));
}

export function fromParts([leaseId, owner, permits, leaseMs, queuedAt, waitMs, extras = {}]: readonly unknown[]) {
  const numbers: Item = { permits, queuedAt, waitMs };
  const queued = epochMs(integer(numbers, 'queuedAt'));
  return {
    leaseId: asText(leaseId, 'a waiter'),
    owner: asText(owner, 'a waiter'),
    permits: integer(numbers, 'permits'),
    leaseMs: leaseMs === null ? null : integer({ leaseMs }, 'leaseMs'),
    ...fromExtras(asMap(extras, 'a waiter')),
    queuedAt: queued,
    deadlineAt: after(queued, integer(numbers, 'waitMs')),
  };
}

export function partsOf(written: string): readonly unknown[] {
  try {
    return list({ waiter: JSON.parse(written) }, 'waiter');
  } catch {
    throw unreadable('a waiter is no list');
  }
}
