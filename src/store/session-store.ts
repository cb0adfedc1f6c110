import type { SessionState, SessionWait } from '../session/state.ts';
import type { EpochMs } from '../time/clock.ts';

export interface SessionKey {
  readonly namespace: string;
  readonly sessionId: string;
}

export type SessionWritten =
  | { readonly applied: true; readonly session: SessionState }
  | { readonly applied: false; readonly session: SessionState | undefined; readonly perhapsMine: boolean };

/** Keeps one item per session. Each method is one request. The rules in `src/session` say what a refusal means. */
export interface SessionStore {
  create(namespace: string, session: SessionState): Promise<SessionWritten>;
  /** Strongly consistent, in the order of the ids. Undefined if there is no such session. */
  read(namespace: string, sessionIds: readonly string[]): Promise<(SessionState | undefined)[]>;
  /** Applies only to a session that has neither ended nor expired, and only if its expiry moves to a later time. */
  keepAlive(key: SessionKey, now: EpochMs): Promise<SessionWritten>;
  /** Applies only to a session that has not ended. */
  end(key: SessionKey, now: EpochMs): Promise<SessionWritten>;
  /** Applies only to a session that has not ended and that expired at or before `expiredBy`. */
  expire(key: SessionKey, now: EpochMs, expiredBy: EpochMs): Promise<SessionWritten>;
  /** Notes what the session waits for. Applies only to a session that has not ended. */
  noteWait(key: SessionKey, wait: SessionWait): Promise<SessionWritten>;
  forgetWait(key: SessionKey, wait: SessionWait): Promise<void>;
  /**
   * Notes that the session holds or wants a part of a lock. The index finds only locks that a session holds as a whole.
   */
  notePart(key: SessionKey, lock: string, now: EpochMs): Promise<void>;
  /** The names of locks that may belong to the session. Only the locks themselves say whether they do. */
  locksOf(key: SessionKey): Promise<string[]>;
}
