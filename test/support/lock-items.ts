/** What a direct write leaves of a lock in the table, compared with what `decide` would have put there. */
import { expect } from 'vitest';
import type { LockKey, LockState } from '../../src/lock/state.ts';
import type { Item } from '../../src/table/attributes.ts';
import { toLockItem } from '../../src/queue/lock-item.ts';
import { retentionMsDefault } from '../../src/queue/lock-store.ts';

/** What a hand-off leaves of the waiter in the holder that it became. Nobody reads it. */
const ofWaiters = new Set(['u', 'k', 'b', 'g']);

/**
 * Every attribute that means something, without what is left behind on purpose, and without the queue. The queue is part
 * of the state, which is compared as well.
 */
function meaningOf(item: Item): Item {
  const { q: _q, w: _w, ap: _ap, as: _as, ...rest } = item;
  const isPast = (name: string) => /^[fax]#/.test(name) && (rest[`h#${name.slice(2)}`] ?? null) === null;
  const claimOf = (value: object) => Object.fromEntries(Object.entries(value).filter(([name]) => !ofWaiters.has(name)));
  return Object.fromEntries(
    Object.entries(rest)
      .filter(([name, value]) => value !== null && !isPast(name))
      .map(([name, value]) => [name, name.startsWith('h#') ? claimOf(value as object) : value]),
  );
}

/**
 * Indexes and TTL included. A write to the queue alone leaves the TTL as it was (`keptFrom`): the holder's last write set
 * it, and retention is longer than a lease and a wait together.
 */
export function expectSameItem(raw: Item, key: LockKey, next: LockState, keptFrom?: LockState): void {
  if (next.rev === 0) {
    expect(raw).toEqual({});
    return;
  }
  const expected = toLockItem(key, next, retentionMsDefault);
  const { ttl } = keptFrom === undefined ? expected : toLockItem(key, keptFrom, retentionMsDefault);
  expect(meaningOf(raw)).toEqual(meaningOf({ ...expected, ...(ttl === undefined ? {} : { ttl }) }));
  // An awaited lock is in the index since its first waiter or longer. A lock that no longer is may stay until the next sweep.
  if (expected.ap === undefined) return;
  expect(raw.ap).toBe(expected.ap);
  expect(raw.as).toBeLessThanOrEqual(expected.as as number);
}
