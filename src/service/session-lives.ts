import type { SessionFact } from '../lock/commands.ts';
import { isOverdue, sessionFactOf } from '../session/decide.ts';
import type { SessionState } from '../session/state.ts';
import type { SessionKey, SessionStore } from '../store/session-store.ts';
import { type EpochMs, epochMs } from '../time/clock.ts';
import { BoundedMap } from '../tools/collections.ts';

export type SessionFacts = ReadonlyMap<string, SessionFact>;

/** For reads that decide nothing, a session is not read again for this time. The fastest poll is as old as that. */
const lookKeptMs = 100;
/** Enough for a large crowd. A forgotten session is read again. */
const rememberedMax = 10_000;

const idOf = (namespace: string, sessionId: string): string => `${namespace}/${sessionId}`;

interface Remembered {
  readonly fact: Promise<SessionFact>;
  readonly at: EpochMs;
}

/**
 * Tells which sessions are alive. A session that is past its end plus the grace is first marked as dead by a conditional
 * write, and only then reported as dead. After that write it can't come back, and its locks may be taken over.
 */
export class SessionLives {
  readonly #store: SessionStore;
  readonly #graceMs: number;
  readonly #remembered = new BoundedMap<string, Remembered>(rememberedMax);
  /** An owner never changes. */
  readonly #owners = new BoundedMap<string, string>(rememberedMax);

  constructor({ store, graceMs }: { store: SessionStore; graceMs: number }) {
    this.#store = store;
    this.#graceMs = graceMs;
  }

  /** The sessions as they are stored now. Decisions use this. */
  async of(namespace: string, sessionIds: readonly string[], now: EpochMs): Promise<SessionFacts> {
    const sessions = await this.#store.read(namespace, sessionIds);
    const facts = sessionIds.map(async (sessionId, index): Promise<[string, SessionFact]> => {
      const session = sessions[index];
      if (session !== undefined) this.#owners.set(idOf(namespace, sessionId), session.owner);
      const judged = session === undefined ? undefined : await this.#judge({ namespace, sessionId }, session, now);
      return [sessionId, sessionFactOf(judged)];
    });
    return new Map(await Promise.all(facts));
  }

  /** The owner of a session that this process has read before. */
  ownerOf({ namespace, sessionId }: SessionKey): string | undefined {
    return this.#owners.get(idOf(namespace, sessionId));
  }

  /**
   * The sessions as they were a moment ago. Each is read once per process and moment. Otherwise, in a crowd of waiters
   * under sessions, each poll would read the sessions of all others.
   */
  async lately(namespace: string, sessionIds: readonly string[], now: EpochMs): Promise<SessionFacts> {
    const stale = sessionIds.filter((sessionId) => {
      const known = this.#remembered.get(idOf(namespace, sessionId));
      return known === undefined || known.at + lookKeptMs <= now;
    });
    if (stale.length > 0) {
      const read = this.of(namespace, stale, now);
      for (const sessionId of stale) {
        const fact = read.then((facts) => facts.get(sessionId) ?? sessionFactOf(undefined));
        this.#remembered.set(idOf(namespace, sessionId), { fact, at: now });
        // A failed read is reported to its callers, and not remembered.
        fact.catch(() => this.#remembered.delete(idOf(namespace, sessionId)));
      }
    }
    const facts = sessionIds.map(async (sessionId): Promise<[string, SessionFact]> => {
      const fact = await this.#remembered.get(idOf(namespace, sessionId))?.fact;
      return [sessionId, fact ?? sessionFactOf(undefined)];
    });
    return new Map(await Promise.all(facts));
  }

  async #judge(key: SessionKey, session: SessionState, now: EpochMs): Promise<SessionState | undefined> {
    if (!isOverdue(session, { now, graceMs: this.#graceMs })) return session;
    // If a keepalive or an end came in between, this is refused, and the session that it found counts.
    return (await this.#store.expire(key, now, epochMs(now - this.#graceMs))).session;
  }
}
