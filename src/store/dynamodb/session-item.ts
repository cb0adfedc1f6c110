/**
 * How a session lies in its item. The end lies in the item itself, so ending a session, and with it every lock under it, is one write.
 * Each wait is an attribute of its own, named by the lock.
 */
import { type SessionState, type SessionWait, sessionLimits } from '../../session/state.ts';
import { after, type EpochMs, toTtlSeconds } from '../../time/clock.ts';
import { sessionItemKey } from './keys.ts';
import { asText, type Item, instant, integer, oneOf, optional, text } from './reading.ts';

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

/** A session that nobody ends or keeps alive leaves an item; it is collected long after its end. */
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
