import type { SessionState, SessionWait } from '../../session/state.ts';
import { after, type EpochMs } from '../../time/clock.ts';
import type { SessionKey, SessionStore, SessionWritten } from '../session-store.ts';
import { ItemTable, type ItemWritten, type TableAccess } from './item-table.ts';
import { lockKeyOf } from './keys.ts';
import {
  fromSessionItem,
  sessionItemKey,
  sessionPartKey,
  sessionTtl,
  toSessionItem,
  waitName,
} from './session-item.ts';
import { tableShape } from './table.ts';

/** Locks that one session may be found by: far more than one process keeps apart. */
const locksPerSessionMax = 10_000;

export class DynamoDBSessionStore implements SessionStore {
  readonly #table: ItemTable;

  constructor(access: TableAccess) {
    this.#table = new ItemTable(access);
  }

  async create(namespace: string, session: SessionState): Promise<SessionWritten> {
    return toWritten(
      await this.#table.put({
        Item: toSessionItem(namespace, session),
        // An id is used once: a session that has ended can't be created again over its own marker.
        ConditionExpression: 'attribute_not_exists(#pk)',
        ExpressionAttributeNames: { '#pk': 'pk' },
      }),
    );
  }

  async read(namespace: string, sessionIds: readonly string[]): Promise<(SessionState | undefined)[]> {
    const keys = sessionIds.map((sessionId) => sessionItemKey({ namespace, sessionId }));
    const [only] = keys;
    if (only === undefined) return [];
    if (keys.length === 1) return [fromSessionItem(await this.#table.get(only))];
    return (await this.#table.getMany(keys)).map(fromSessionItem);
  }

  async keepAlive(key: SessionKey, now: EpochMs): Promise<SessionWritten> {
    return toWritten(
      await this.#table.update(sessionItemKey(key), {
        UpdateExpression: 'SET #x = :now + #ttlMs, #k = :now, #ttl = :ttl',
        // Who has ended, or missed its end, can't come back; and a keepalive that comes after a later one takes no time away.
        ConditionExpression: 'attribute_exists(#pk) AND attribute_not_exists(#d) AND #x > :now AND #k < :now',
        ExpressionAttributeNames: { '#pk': 'pk', '#d': 'd', '#x': 'x', '#k': 'k', '#ttlMs': 'ttlMs', '#ttl': 'ttl' },
        ExpressionAttributeValues: { ':now': now, ':ttl': sessionTtl(after(now, 3_600_000)) },
      }),
    );
  }

  end(key: SessionKey, now: EpochMs): Promise<SessionWritten> {
    return this.#end(key, now, 'ended', 'attribute_exists(#pk) AND attribute_not_exists(#d)', {});
  }

  bury(key: SessionKey, now: EpochMs, expiredBy: EpochMs): Promise<SessionWritten> {
    // A keepalive that came in between moved the end, and this is refused: nobody loses a live session.
    return this.#end(key, now, 'expired', 'attribute_exists(#pk) AND attribute_not_exists(#d) AND #x <= :by', {
      ':by': expiredBy,
    });
  }

  async noteWait(key: SessionKey, wait: SessionWait): Promise<SessionWritten> {
    return toWritten(
      await this.#table.update(sessionItemKey(key), {
        UpdateExpression: 'SET #w = :lease',
        ConditionExpression: 'attribute_exists(#pk) AND attribute_not_exists(#d)',
        ExpressionAttributeNames: { '#pk': 'pk', '#d': 'd', '#w': waitName(wait.lock) },
        ExpressionAttributeValues: { ':lease': wait.leaseId },
      }),
    );
  }

  async forgetWait(key: SessionKey, wait: SessionWait): Promise<void> {
    // Only its own note: another claim of the same session may wait for the same lock by now.
    await this.#table.update(sessionItemKey(key), {
      UpdateExpression: 'REMOVE #w',
      ConditionExpression: '#w = :lease',
      ExpressionAttributeNames: { '#w': waitName(wait.lock) },
      ExpressionAttributeValues: { ':lease': wait.leaseId },
    });
  }

  async notePart(key: SessionKey, lock: string, now: EpochMs): Promise<void> {
    await this.#table.replace({
      ...sessionPartKey(key, lock),
      sp: key.sessionId,
      ttl: sessionTtl(after(now, partRetentionMs)),
    });
  }

  async locksOf({ namespace, sessionId }: SessionKey): Promise<string[]> {
    const { bySession } = tableShape.indexes;
    const items = await this.#table.query(
      {
        IndexName: bySession.name,
        KeyConditionExpression: '#sp = :sp',
        ExpressionAttributeNames: { '#sp': bySession.partitionKey },
        ExpressionAttributeValues: { ':sp': sessionId },
      },
      locksPerSessionMax,
    );
    const keys = items.map(({ pk }) => lockKeyOf({ pk: pk as string, sk: 'lock' }));
    return [...new Set(keys.filter((key) => key?.namespace === namespace).map((key) => key?.name ?? ''))];
  }

  async #end(
    key: SessionKey,
    now: EpochMs,
    how: string,
    condition: string,
    values: Record<string, unknown>,
  ): Promise<SessionWritten> {
    return toWritten(
      await this.#table.update(sessionItemKey(key), {
        UpdateExpression: 'SET #d = :now, #dh = :how, #ttl = :ttl',
        ConditionExpression: condition,
        ExpressionAttributeNames: {
          '#pk': 'pk',
          '#d': 'd',
          '#dh': 'dh',
          '#ttl': 'ttl',
          ...(condition.includes('#x') ? { '#x': 'x' } : {}),
        },
        ExpressionAttributeValues: { ':now': now, ':how': how, ':ttl': sessionTtl(now), ...values },
      }),
    );
  }
}

/** A session that holds a part for longer loses only the quick way to it: the lock's own holder is what counts. */
const partRetentionMs = 30 * 86_400_000;

function toWritten(written: ItemWritten): SessionWritten {
  const session = fromSessionItem(written.item);
  if (written.applied) return { applied: true, session: session as SessionState };
  return { applied: false, session, perhapsMine: written.perhapsMine };
}
