import type { Claim, Notify } from '../../lock/state.ts';
import type { EpochMs } from '../../time/clock.ts';
import { claimWords as words } from './lock-words.ts';
import { asText, type Item, instant, integer, map, oneOf, optional, text, unreadable } from './reading.ts';

/** A claim as it lies in an item, of a holder or of a waiter. */
export function toClaimItem(claim: Claim & { readonly queuedAt?: EpochMs }): Item {
  return {
    [words.leaseId]: claim.leaseId,
    [words.owner]: claim.owner,
    [words.permits]: claim.permits,
    ...(claim.leaseMs === null ? {} : { [words.leaseMs]: claim.leaseMs }),
    ...extrasOf(claim),
    ...(claim.queuedAt === undefined ? {} : { [words.queuedAt]: claim.queuedAt }),
  };
}

/** What few claims have. */
export const extrasOf = (claim: Claim): Item => ({
  ...(claim.sessionId === undefined ? {} : { [words.sessionId]: claim.sessionId }),
  ...(claim.lockDelayMs ? { [words.lockDelayMs]: claim.lockDelayMs } : {}),
  ...(claim.mode === undefined ? {} : { [words.mode]: claim.mode }),
  ...(claim.metadata === undefined ? {} : { [words.metadata]: claim.metadata }),
  ...(claim.notify === undefined ? {} : { [words.notify]: claim.notify }),
});

export function fromClaimItem(item: Item): Claim & { readonly queuedAt?: EpochMs } {
  const queuedAt = optional(instant, item, words.queuedAt);
  return {
    leaseId: text(item, words.leaseId),
    owner: text(item, words.owner),
    permits: integer(item, words.permits),
    leaseMs: optional(integer, item, words.leaseMs) ?? null,
    ...fromExtras(item),
    ...(queuedAt === undefined ? {} : { queuedAt }),
  };
}

export function fromExtras(item: Item): Partial<Claim> {
  const sessionId = optional(text, item, words.sessionId);
  const lockDelayMs = optional(integer, item, words.lockDelayMs);
  const metadata = optional(texts, item, words.metadata);
  const notify = optional(notifyIn, item, words.notify);
  return {
    ...(sessionId === undefined ? {} : { sessionId }),
    ...(lockDelayMs === undefined ? {} : { lockDelayMs }),
    ...(item[words.mode] === undefined ? {} : { mode: oneOf(item, words.mode, ['exclusive', 'shared']) }),
    ...(metadata === undefined ? {} : { metadata }),
    ...(notify === undefined ? {} : { notify }),
  };
}

function texts(item: Item, name: string): Record<string, string> {
  const values = map(item, name);
  for (const key of Object.keys(values)) asText(values[key], name);
  return values as Record<string, string>;
}

/** Only this service writes it, and a delivery of an unknown type fails by itself; that it has one is what matters here. */
function notifyIn(item: Item, name: string): Notify {
  const notify = map(item, name);
  if (typeof notify.type !== 'string') throw unreadable('a waiter does not say how it wants to be notified');
  return notify as unknown as Notify;
}
