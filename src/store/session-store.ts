import { lockKeyOf } from '../queue/lock-item.ts';
import { type SessionState, type SessionWait, sessionLimits } from '../session/state.ts';
import { condition, type ItemKey, text, update } from '../table/attributes.ts';
import { digestOf } from '../table/digest.ts';
import { type ItemWritten, TableStore } from '../table/item-table.ts';
import { tableShape } from '../table/shape.ts';
import { after, type EpochMs } from '../time/clock.ts';
import {
  fromSessionItem,
  sessionItemKey,
  sessionPartKey,
  sessionTtl,
  sessionWords,
  toSessionItem,
  waitName,
} from './session-item.ts';

export interface SessionKey {
  readonly namespace: string;
  readonly sessionId: string;
}

export type SessionWritten =
  | { readonly applied: true; readonly session: SessionState }
  | { readonly applied: false; readonly session: SessionState | undefined; readonly perhapsMine: boolean };

/** The most locks found for one session: far more than one process uses. */
const locksPerSessionMax = 10_000;
/** If a session holds a part for longer, its locks are only found more slowly. The holder in the lock decides. */
const partRetentionMs = 30 * 86_400_000;

/** An id is used once. A session that has ended leaves its item, so it can't be created again. */
const neverCreated = 'attribute_not_exists(key)';
const notEnded = 'attribute_exists(key) AND attribute_not_exists(endedAt)';
const endHasNotCome = 'expiresAt > :now';
/** A keepalive that arrives after a later one must not shorten the session. */
const isLatest = 'keptAliveAt < :now';

/** Keeps one item per session. Each method is one request. The rules in `src/session` say what a refusal means. */
export class SessionStore extends TableStore {
  async create(namespace: string, session: SessionState): Promise<SessionWritten> {
    const Item = toSessionItem(namespace, session);
    return toWritten(await this.table.put({ Item, ...condition(neverCreated, sessionWords) }));
  }

  /** Strongly consistent, in the order of the ids. Undefined if there is no such session. */
  async read(namespace: string, sessionIds: readonly string[]): Promise<(SessionState | undefined)[]> {
    const keys = sessionIds.map((sessionId) => sessionItemKey({ namespace, sessionId }));
    // A read of one item is our own fast call. A batch goes through the SDK.
    const items = keys.length === 1 ? [await this.table.get(keys[0] as ItemKey)] : await this.table.getMany(keys);
    return items.map((item) => item && fromSessionItem(item));
  }

  /** Applies only to a session that has neither ended nor expired, and only if its expiry moves to a later time. */
  keepAlive(key: SessionKey, now: EpochMs): Promise<SessionWritten> {
    const collectAt = sessionTtl(after(now, sessionLimits.ttlMsMax));
    return this.#update(
      key,
      {
        set: ['expiresAt = :now + ttlMs', 'keptAliveAt = :now', 'collectAt = :collectAt'],
        // A session that has ended or expired can't come back.
        when: `${notEnded} AND ${endHasNotCome} AND ${isLatest}`,
      },
      { now, collectAt },
    );
  }

  /** Applies only to a session that has not ended. */
  end(key: SessionKey, now: EpochMs): Promise<SessionWritten> {
    return this.#end(key, notEnded, { now, how: 'ended' });
  }

  /** Applies only to a session that has not ended and that expired at or before `expiredBy`. */
  expire(key: SessionKey, now: EpochMs, expiredBy: EpochMs): Promise<SessionWritten> {
    // If a keepalive came in between, the end has moved and this write is refused. So no live session is lost.
    return this.#end(key, `${notEnded} AND expiresAt <= :expiredBy`, { now, how: 'expired', expiredBy });
  }

  /** Notes what the session waits for. Applies only to a session that has not ended. */
  noteWait(key: SessionKey, { lock, leaseId }: SessionWait): Promise<SessionWritten> {
    const words = { ...sessionWords, wait: waitName(lock) };
    return this.#update(key, { set: ['wait = :leaseId'], when: notEnded }, { leaseId }, words);
  }

  async forgetWait(key: SessionKey, { lock, leaseId }: SessionWait): Promise<void> {
    const words = { ...sessionWords, wait: waitName(lock) };
    // Only its own note is removed, because another claim of the same session may now wait for the same lock.
    await this.#update(key, { remove: ['wait'], when: 'wait = :leaseId' }, { leaseId }, words);
  }

  /** Notes that the session holds or wants a part of a lock. The index finds only locks that a session holds as a whole. */
  notePart(key: SessionKey, lock: string, now: EpochMs): Promise<void> {
    return this.table.replace({
      ...sessionPartKey(key, lock),
      [sessionWords.digest]: digestOf(key.sessionId),
      [sessionWords.collectAt]: sessionTtl(after(now, partRetentionMs)),
    });
  }

  /** The names of locks that may belong to the session. Only the locks themselves say whether they do. */
  async locksOf({ namespace, sessionId }: SessionKey): Promise<string[]> {
    const items = await this.table.query(
      {
        index: tableShape.indexes.bySession.name,
        where: 'digest = :digest',
        words: sessionWords,
        values: { digest: digestOf(sessionId) },
      },
      locksPerSessionMax,
    );
    const keys = items.map((item) => lockKeyOf({ pk: text(item, 'pk'), sk: 'lock' }));
    return [...new Set(keys.filter((key) => key?.namespace === namespace).map((key) => key?.name ?? ''))];
  }

  #end(key: SessionKey, when: string, values: Record<string, unknown> & { now: EpochMs }): Promise<SessionWritten> {
    const set = ['endedAt = :now', 'endedHow = :how', 'collectAt = :collectAt'];
    return this.#update(key, { set, when }, { ...values, collectAt: sessionTtl(values.now) });
  }

  async #update(
    key: SessionKey,
    clauses: Parameters<typeof update>[0],
    values: Record<string, unknown>,
    words: Parameters<typeof update>[1] = sessionWords,
  ): Promise<SessionWritten> {
    return toWritten(await this.table.update(sessionItemKey(key), update(clauses, words, values)));
  }
}

const toWritten = ({ item, ...outcome }: ItemWritten): SessionWritten =>
  ({ ...outcome, session: item && fromSessionItem(item) }) as SessionWritten;
