/** What a direct write leaves of a lock in the table, compared with what `decide` would have put there. */
import { expect } from 'vitest';
import type { LockKey, LockState } from '../../src/lock/state.ts';
import { toLockItem } from '../../src/queue/lock-item.ts';
import { retentionMsDefault } from '../../src/queue/lock-store.ts';
import type { Item } from '../../src/table/attributes.ts';

/**
 * Every attribute that means something, without what is left behind on purpose, and without queue and holders. Those are part of
 * the state, which is compared as well: the same holder may be written in a short and in a long form.
 */
function meaningOf(item: Item): Item {
  const { q: _q, ap: _ap, as: _as, us: _us, h0: _h0, ...rest } = item;
  const holdsNobody = (item.h0 ?? null) === null;
  const isHolders = (name: string) => name.startsWith('h-') || (holdsNobody && ['a0', 'x0'].includes(name));
  const isNothing = (name: string, value: unknown) => value === null || (name === 'hb' && value === 0);
  return Object.fromEntries(
    Object.entries(rest).filter(([name, value]) => !isHolders(name) && !isNothing(name, value)),
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
