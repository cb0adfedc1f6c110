import type { SessionFact } from '../lock/commands.ts';
import { isOverdue, sessionFactOf } from '../session/decide.ts';
import type { SessionState } from '../session/state.ts';
import type { SessionKey, SessionStore } from '../store/session-store.ts';
import { type EpochMs, epochMs } from '../time/clock.ts';
import { BoundedMap } from '../tools/bounded-map.ts';

type Facts = ReadonlyMap<string, SessionFact>;

/** For this long after it was read, a session counts as it was for all who only look: a tenth of the tightest pace would be no less stale. */
const lookKeptMs = 100;
/** Sessions remembered for looks: a crowd's worth. Forgotten ones are read again. */
const rememberedMax = 10_000;

interface Remembered {
  readonly fact: Promise<SessionFact>;
  readonly at: EpochMs;
}

/**
 * Tells which sessions are alive. Whoever finds a session past its end plus grace marks it dead first, by a conditional write, and
 * only then reports it so: from that write on it can't come back, and its locks may be taken.
 */
export class SessionLives {
  readonly #store: SessionStore;
  readonly #graceMs: number;
  readonly #remembered = new BoundedMap<string, Remembered>(rememberedMax);

  constructor({ store, graceMs }: { store: SessionStore; graceMs: number }) {
    this.#store = store;
    this.#graceMs = graceMs;
  }

  /** As they are stored now. What is decided rests on this. */
  async of(namespace: string, sessionIds: readonly string[], now: EpochMs): Promise<Facts> {
    const sessions = await this.#store.read(namespace, sessionIds);
    const facts = sessionIds.map(async (sessionId, index): Promise<[string, SessionFact]> => {
      const session = sessions[index];
      const judged = session === undefined ? undefined : await this.#judge({ namespace, sessionId }, session, now);
      return [sessionId, sessionFactOf(judged)];
    });
    return new Map(await Promise.all(facts));
  }

  /**
   * As they were a moment ago: each session is read once per process and moment, however many look. In a crowd of session-bound waiters
   * each look would otherwise read the session of everybody else.
   */
  async lately(namespace: string, sessionIds: readonly string[], now: EpochMs): Promise<Facts> {
    const idOf = (sessionId: string) => `${namespace}/${sessionId}`;
    const stale = sessionIds.filter((sessionId) => {
      const known = this.#remembered.get(idOf(sessionId));
      return known === undefined || known.at + lookKeptMs <= now;
    });
    if (stale.length > 0) {
      const read = this.of(namespace, stale, now);
      for (const sessionId of stale) {
        const fact = read.then((facts) => facts.get(sessionId) ?? sessionFactOf(undefined));
        this.#remembered.set(idOf(sessionId), { fact, at: now });
        // A read that failed is reported to those who wait for it, and is not remembered.
        fact.catch(() => this.#remembered.delete(idOf(sessionId)));
      }
    }
    const facts = sessionIds.map(async (sessionId): Promise<[string, SessionFact]> => {
      const known = this.#remembered.get(idOf(sessionId));
      return [sessionId, await (known?.fact ?? Promise.resolve(sessionFactOf(undefined)))];
    });
    return new Map(await Promise.all(facts));
  }

  async #judge(key: SessionKey, session: SessionState, now: EpochMs): Promise<SessionState | undefined> {
    if (!isOverdue(session, { now, graceMs: this.#graceMs })) return session;
    // Refused if a keepalive or an end came in between: then what it found is what counts.
    return (await this.#store.expire(key, now, epochMs(now - this.#graceMs))).session;
  }
}
