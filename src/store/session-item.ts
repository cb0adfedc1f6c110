/**
 * A session as an item. The end is in the item, so one write ends a session, and with it every lock under it. Each wait
 * is a separate attribute, named by the lock.
 */
import { type SessionState, type SessionWait, sessionLimits } from '../session/state.ts';
import { asText, type Item, type ItemKey, instant, integer, oneOf, optional, text } from '../table/attributes.ts';
import { digestOf } from '../table/digest.ts';
import { after, type EpochMs, toTtlSeconds } from '../time/clock.ts';
import type { SessionKey } from './session-store.ts';

export const sessionItemKey = ({ namespace, sessionId }: SessionKey): ItemKey => ({
  pk: `${namespace}/session/${digestOf(sessionId)}`,
  sk: 'session',
});

/**
 * A separate item for a part of a lock. The index finds the lock's item by only one session, and a semaphore has many
 * holders.
 */
export const sessionPartKey = ({ namespace, sessionId }: SessionKey, lock: string): ItemKey => ({
  pk: `${namespace}/lock/${lock}`,
  sk: `part/${digestOf(sessionId)}`,
});

export const sessionWords = {
  key: 'pk',
  sessionId: 'id',
  owner: 'o',
  ttlMs: 'ttlMs',
  createdAt: 'c',
  expiresAt: 'x',
  keptAliveAt: 'k',
  endedAt: 'd',
  endedHow: 'dh',
  collectAt: 'ttl',
  digest: 'sp',
} as const;

const waitPrefix = 'w#';
export const waitName = (lock: string): string => `${waitPrefix}${lock}`;

/** A session that nobody ended leaves its item. TTL collects it long after its end. */
export const sessionTtl = (end: EpochMs): number => toTtlSeconds(after(end, sessionLimits.endedRetentionMs));

export const toSessionItem = (namespace: string, session: SessionState): Item => ({
  ...sessionItemKey({ namespace, sessionId: session.sessionId }),
  [sessionWords.sessionId]: session.sessionId,
  [sessionWords.owner]: session.owner,
  [sessionWords.ttlMs]: session.ttlMs,
  [sessionWords.createdAt]: session.createdAt,
  [sessionWords.expiresAt]: session.expiresAt,
  [sessionWords.keptAliveAt]: session.expiresAt - session.ttlMs,
  [sessionWords.collectAt]: sessionTtl(session.expiresAt),
});

export function fromSessionItem(item: Item): SessionState {
  const waits = Object.entries(item)
    .filter(([name]) => name.startsWith(waitPrefix))
    .map(([name, leaseId]): SessionWait => ({ lock: name.slice(waitPrefix.length), leaseId: asText(leaseId, name) }));
  const endedAt = optional(instant, item, sessionWords.endedAt);
  return {
    sessionId: text(item, sessionWords.sessionId),
    owner: text(item, sessionWords.owner),
    ttlMs: integer(item, sessionWords.ttlMs),
    createdAt: instant(item, sessionWords.createdAt),
    expiresAt: instant(item, sessionWords.expiresAt),
    ...(endedAt === undefined
      ? {}
      : { ended: { at: endedAt, how: oneOf(item, sessionWords.endedHow, ['ended', 'expired']) } }),
    waits,
  };
}
