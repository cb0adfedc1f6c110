import { type SessionState, type SessionWait, sessionLimits } from '../../session/state.ts';
import { after, type EpochMs } from '../../time/clock.ts';
import type { SessionKey, SessionStore, SessionWritten } from '../session-store.ts';
import { condition, type ItemKey, text, update } from './attributes.ts';
import { type ItemWritten, TableStore } from './item-table.ts';
import { lockKeyOf } from './lock-item.ts';
import {
  fromSessionItem,
  sessionDigest,
  sessionItemKey,
  sessionPartKey,
  sessionTtl,
  sessionWords,
  toSessionItem,
  waitName,
} from './session-item.ts';
import { tableShape } from './table.ts';

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

export class DynamoDBSessionStore extends TableStore implements SessionStore {
  async create(namespace: string, session: SessionState): Promise<SessionWritten> {
    const Item = toSessionItem(namespace, session);
    return toWritten(await this.table.put({ Item, ...condition(neverCreated, sessionWords) }));
  }

  async read(namespace: string, sessionIds: readonly string[]): Promise<(SessionState | undefined)[]> {
    const keys = sessionIds.map((sessionId) => sessionItemKey({ namespace, sessionId }));
    // A read of one item is our own fast call. A batch goes through the SDK.
    const items = keys.length === 1 ? [await this.table.get(keys[0] as ItemKey)] : await this.table.getMany(keys);
    return items.map((item) => item && fromSessionItem(item));
  }

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

  end(key: SessionKey, now: EpochMs): Promise<SessionWritten> {
    return this.#end(key, notEnded, { now, how: 'ended' });
  }

  expire(key: SessionKey, now: EpochMs, expiredBy: EpochMs): Promise<SessionWritten> {
    // If a keepalive came in between, the end has moved and this write is refused. So no live session is lost.
    return this.#end(key, `${notEnded} AND expiresAt <= :expiredBy`, { now, how: 'expired', expiredBy });
  }

  noteWait(key: SessionKey, { lock, leaseId }: SessionWait): Promise<SessionWritten> {
    const words = { ...sessionWords, wait: waitName(lock) };
    return this.#update(key, { set: ['wait = :leaseId'], when: notEnded }, { leaseId }, words);
  }

  async forgetWait(key: SessionKey, { lock, leaseId }: SessionWait): Promise<void> {
    const words = { ...sessionWords, wait: waitName(lock) };
    // Only its own note is removed, because another claim of the same session may now wait for the same lock.
    await this.#update(key, { remove: ['wait'], when: 'wait = :leaseId' }, { leaseId }, words);
  }

  notePart(key: SessionKey, lock: string, now: EpochMs): Promise<void> {
    return this.table.replace({
      ...sessionPartKey(key, lock),
      [sessionWords.digest]: sessionDigest(key.sessionId),
      [sessionWords.collectAt]: sessionTtl(after(now, partRetentionMs)),
    });
  }

  async locksOf({ namespace, sessionId }: SessionKey): Promise<string[]> {
    const items = await this.table.query(
      {
        index: tableShape.indexes.bySession.name,
        where: 'digest = :digest',
        words: sessionWords,
        values: { digest: sessionDigest(sessionId) },
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
