import type { SessionState, SessionWait } from '../session/state.ts';
import type { EpochMs } from '../time/clock.ts';

export interface SessionKey {
  readonly namespace: string;
  readonly sessionId: string;
}

export type SessionWritten =
  | { readonly applied: true; readonly session: SessionState }
  | { readonly applied: false; readonly session: SessionState | undefined; readonly perhapsMine: boolean };

/** Keeps one item per session. Each method is one request; the rules in `src/session` say what a refusal means. */
export interface SessionStore {
  create(namespace: string, session: SessionState): Promise<SessionWritten>;
  /** Strongly consistent; undefined if there is none. In the order asked. */
  read(namespace: string, sessionIds: readonly string[]): Promise<(SessionState | undefined)[]>;
  /** Applies only to a session that has not ended, whose end has not come, and that this keepalive gives more time. */
  keepAlive(key: SessionKey, now: EpochMs): Promise<SessionWritten>;
  /** Applies only to a session that has not ended. */
  end(key: SessionKey, now: EpochMs): Promise<SessionWritten>;
  /** Applies only to a session that has not ended and whose end came at or before `expiredBy`. */
  expire(key: SessionKey, now: EpochMs, expiredBy: EpochMs): Promise<SessionWritten>;
  /** Notes what the session waits for. Applies only while it has not ended. */
  noteWait(key: SessionKey, wait: SessionWait): Promise<SessionWritten>;
  forgetWait(key: SessionKey, wait: SessionWait): Promise<void>;
  /** Notes that the session holds or wants a part of a lock, which the lock's own item can't be found by. */
  notePart(key: SessionKey, lock: string, now: EpochMs): Promise<void>;
  /** Names of the locks that may belong to the session. The locks themselves tell whether they do. */
  locksOf(key: SessionKey): Promise<string[]>;
}
