/** The rules of a session. Pure, like those of a lock. */
import type { Facts, SessionFact } from '../lock/commands.ts';
import { after, epochMs } from '../time/clock.ts';
import type { SessionState } from './state.ts';

export type SessionCommand =
  | { readonly kind: 'keepalive' }
  | { readonly kind: 'end' }
  /** Marks a session dead after its end. Only then may others take its locks. */
  | { readonly kind: 'expire' };

export type SessionAnswer = { readonly kind: 'alive' } | { readonly kind: 'ended' } | { readonly kind: 'lost' };

export interface SessionDecision {
  /** The same object as before if nothing changes. */
  readonly next: SessionState | undefined;
  readonly answer: SessionAnswer;
}

type Now = Pick<Facts, 'now' | 'graceMs'>;

/** For its owner, a session is alive until the instant of its end, like a lease. */
export const isOpen = (session: SessionState | undefined, { now }: Pick<Facts, 'now'>): session is SessionState =>
  session !== undefined && session.ended === undefined && now < session.expiresAt;

/**
 * For others it is over only after its end plus the grace. A slow clock may delay a takeover, but never cause one too
 * early.
 */
export const isOverdue = (session: SessionState, { now, graceMs }: Now): boolean =>
  session.ended === undefined && after(session.expiresAt, graceMs) <= now;

export function decideSession(before: SessionState | undefined, command: SessionCommand, facts: Now): SessionDecision {
  if (before === undefined || before.ended !== undefined) return { next: before, answer: { kind: 'lost' } };
  switch (command.kind) {
    case 'keepalive':
      // A session that missed its end can't come back, even if nobody has noticed yet.
      if (!isOpen(before, facts)) return { next: before, answer: { kind: 'lost' } };
      // A keepalive that arrives late must not shorten the session: its owner may have been promised a later end since.
      if (after(facts.now, before.ttlMs) <= before.expiresAt) return { next: before, answer: { kind: 'alive' } };
      return { next: { ...before, expiresAt: after(facts.now, before.ttlMs) }, answer: { kind: 'alive' } };
    case 'end':
      return { next: { ...before, ended: { at: facts.now, how: 'ended' } }, answer: { kind: 'ended' } };
    case 'expire':
      if (!isOverdue(before, facts)) return { next: before, answer: { kind: 'alive' } };
      return { next: { ...before, ended: { at: facts.now, how: 'expired' } }, answer: { kind: 'ended' } };
  }
}

/** What a lock's rules need to know about a session. A missing session was deleted long after its end. */
export function sessionFactOf(session: SessionState | undefined): SessionFact {
  if (session === undefined) return { alive: false, endedAt: epochMs(0), how: 'ended' };
  if (session.ended === undefined) return { alive: true, expiresAt: session.expiresAt };
  return { alive: false, endedAt: session.ended.at, how: session.ended.how };
}
