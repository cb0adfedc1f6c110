import { decideSession, type SessionCommand } from '../../session/decide.ts';
import type { SessionState, SessionWait } from '../../session/state.ts';
import { type EpochMs, epochMs } from '../../time/clock.ts';
import type { SessionKey, SessionStore, SessionWritten } from '../session-store.ts';

/** Sessions in memory, for simulation and for users' own tests. It uses the rules of `src/session`. */
export class MemorySessionStore implements SessionStore {
  readonly #sessions = new Map<string, SessionState>();
  readonly #locks = new Map<string, Set<string>>();
  readonly #heldUnder: (key: SessionKey) => readonly string[];

  /** `heldUnder` returns the locks that the session holds. The other adapter has an index for that. */
  constructor(heldUnder: (key: SessionKey) => readonly string[] = () => []) {
    this.#heldUnder = heldUnder;
  }

  create(namespace: string, session: SessionState): Promise<SessionWritten> {
    const id = idOf({ namespace, sessionId: session.sessionId });
    const there = this.#sessions.get(id);
    if (there !== undefined) return Promise.resolve({ applied: false, session: there, perhapsMine: false });
    this.#sessions.set(id, session);
    return Promise.resolve({ applied: true, session });
  }

  read(namespace: string, sessionIds: readonly string[]): Promise<(SessionState | undefined)[]> {
    return Promise.resolve(sessionIds.map((sessionId) => this.#sessions.get(idOf({ namespace, sessionId }))));
  }

  keepAlive(key: SessionKey, now: EpochMs): Promise<SessionWritten> {
    return this.#decide(key, { kind: 'keepalive' }, now, now);
  }

  end(key: SessionKey, now: EpochMs): Promise<SessionWritten> {
    return this.#decide(key, { kind: 'end' }, now, now);
  }

  expire(key: SessionKey, now: EpochMs, expiredBy: EpochMs): Promise<SessionWritten> {
    return this.#decide(key, { kind: 'expire' }, now, expiredBy);
  }

  noteWait(key: SessionKey, wait: SessionWait): Promise<SessionWritten> {
    const session = this.#sessions.get(idOf(key));
    if (session === undefined || session.ended !== undefined) {
      return Promise.resolve({ applied: false, session, perhapsMine: false });
    }
    const noted = { ...session, waits: [...session.waits.filter(({ lock }) => lock !== wait.lock), wait] };
    this.#sessions.set(idOf(key), noted);
    return Promise.resolve({ applied: true, session: noted });
  }

  forgetWait(key: SessionKey, wait: SessionWait): Promise<void> {
    const session = this.#sessions.get(idOf(key));
    if (session !== undefined) {
      const waits = session.waits.filter(({ lock, leaseId }) => lock !== wait.lock || leaseId !== wait.leaseId);
      this.#sessions.set(idOf(key), { ...session, waits });
    }
    return Promise.resolve();
  }

  notePart(key: SessionKey, lock: string): Promise<void> {
    const locks = this.#locks.get(idOf(key)) ?? new Set();
    this.#locks.set(idOf(key), locks.add(lock));
    return Promise.resolve();
  }

  locksOf(key: SessionKey): Promise<string[]> {
    return Promise.resolve([...new Set([...(this.#locks.get(idOf(key)) ?? []), ...this.#heldUnder(key)])]);
  }

  #decide(key: SessionKey, command: SessionCommand, now: EpochMs, by: EpochMs): Promise<SessionWritten> {
    const before = this.#sessions.get(idOf(key));
    const { next } = decideSession(before, command, { now, graceMs: epochMs(now - by) });
    if (next === undefined || next === before)
      return Promise.resolve({ applied: false, session: before, perhapsMine: false });
    this.#sessions.set(idOf(key), next);
    return Promise.resolve({ applied: true, session: next });
  }
}

const idOf = ({ namespace, sessionId }: SessionKey): string => `${namespace}/${sessionId}`;
