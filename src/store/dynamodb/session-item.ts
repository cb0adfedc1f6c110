/**
 * How a session lies in its item: `id o ttlMs c x` its facts, `k` when it was last kept alive, `d dh` when and how it ended, `w#LOCK` what it waits for.
 * The end lies in the item itself, so ending a session, and with it every lock under it, is one write.
 */
import { type SessionState, type SessionWait, sessionLimits } from '../../session/state.ts';
import { after, type EpochMs, epochMs, toTtlSeconds } from '../../time/clock.ts';
import type { SessionKey } from '../session-store.ts';
import type { ItemKey } from './keys.ts';

export type SessionItem = Record<string, unknown>;

export const sessionItemKey = ({ namespace, sessionId }: SessionKey): ItemKey => ({
  pk: `${namespace}/session/${sessionId}`,
  sk: 'session',
});

/** An item of its own for a part of a lock: the lock's item can be found by one session only, and a semaphore has many holders. */
export const sessionPartKey = ({ namespace, sessionId }: SessionKey, lock: string): ItemKey => ({
  pk: `${namespace}/lock/${lock}`,
  sk: `part/${sessionId}`,
});

export const waitName = (lock: string): string => `w#${lock}`;

/** Whoever forgets to end a session and to keep it alive leaves an item; it is collected long after its end. */
export const sessionTtl = (end: EpochMs): number => toTtlSeconds(after(end, sessionLimits.endedRetentionMs));

export const toSessionItem = (namespace: string, session: SessionState): SessionItem => ({
  ...sessionItemKey({ namespace, sessionId: session.sessionId }),
  id: session.sessionId,
  o: session.owner,
  ttlMs: session.ttlMs,
  c: session.createdAt,
  x: session.expiresAt,
  k: session.expiresAt - session.ttlMs,
  ttl: sessionTtl(session.expiresAt),
});

export function fromSessionItem(item: SessionItem | undefined): SessionState | undefined {
  if (item === undefined) return undefined;
  const waits = Object.entries(item)
    .filter(([name]) => name.startsWith('w#'))
    .map(([name, leaseId]): SessionWait => ({ lock: name.slice(2), leaseId: leaseId as string }));
  return {
    sessionId: item.id as string,
    owner: item.o as string,
    ttlMs: item.ttlMs as number,
    createdAt: epochMs(item.c as number),
    expiresAt: epochMs(item.x as number),
    ...(item.d === undefined ? {} : { ended: { at: epochMs(item.d as number), how: item.dh as 'ended' | 'expired' } }),
    waits,
  };
}
