import { randomUUID } from 'node:crypto';
import { PutCommand } from '@aws-sdk/lib-dynamodb';
import { beforeAll, describe, expect, inject, it } from 'vitest';
import { decide } from '../../src/lock/decide.ts';
import { lockLimits } from '../../src/lock/limits.ts';
import { emptyPage, queueSizes } from '../../src/lock/pages.ts';
import { holdersWeight, type LockKey, unusedLock, type Waiter, weightOf } from '../../src/lock/state.ts';
import { apply } from '../../src/service/apply.ts';
import { systemLockContext } from '../../src/service/context.ts';
import { release, revoke } from '../../src/service/lease.ts';
import { inspect } from '../../src/service/look.ts';
import { DynamoDBLockStore } from '../../src/store/dynamodb/lock-store.ts';
import { MemorySessionStore } from '../../src/store/memory/session-store.ts';
import { systemClock } from '../../src/time/clock.ts';
import { type FreshTable, freshTable } from '../support/engine.ts';
import { acquireOf } from '../support/lock-worlds.ts';
import { toPageItem } from '../support/page-items.ts';

let table: FreshTable;
let store: DynamoDBLockStore;
beforeAll(async () => {
  table = await freshTable();
  store = new DynamoDBLockStore(table.access);
});

const writer = 'lease-of-the-writer-0';
const facts = () => ({ now: systemClock.now(), graceMs: lockLimits.graceMs });

/** More than hold at the same time, if their claims are large. */
const readersCount = 400;

/** A lock held by a writer, and many parked readers behind it: as many as fit in the front, the others in pages. */
async function awaitedByReaders(idLength: number, more: object): Promise<LockKey> {
  const key = { namespace: 'large', name: randomUUID() };
  const held = decide(unusedLock, acquireOf(writer, { leaseMs: 3_600_000 }), facts()).next;
  const reader = {
    ...acquireOf('reader', { mode: 'shared', leaseMs: 3_600_000, waitMs: 3_600_000, attendMs: null, ...more }),
    owner: 'reader',
  };
  const { answer } = decide(held, reader, facts());
  if (answer.kind !== 'waiting') throw new Error(`Expected to wait, got ${answer.kind}.`);
  const readers = Array.from({ length: readersCount }, (_, index) => ({
    ...answer.waiter,
    leaseId: `reader-${String(index).padStart(idLength - 7, '0')}`,
  }));
  const fitting = Math.floor(lockLimits.frontBytesMax / weightOf(readers[0] as Waiter));
  const front = readers.slice(0, fitting);
  const pages = Array.from({ length: Math.ceil((readersCount - fitting) / queueSizes.page) }, (_, page) =>
    readers.slice(fitting + page * queueSizes.page, fitting + (page + 1) * queueSizes.page),
  );
  await store.swap(key, { ...held, rev: 1, queue: front, pages: { first: 1, last: pages.length } });
  // One write for each page. An engine would compute long if the waiters were appended one by one.
  for (const [index, waiters] of pages.entries()) {
    const page = { ...emptyPage(index + 1), waiters, fence: held.fence };
    await table.own.send(
      new PutCommand({ TableName: table.tableName, Item: toPageItem(key, page, systemClock.now()) }),
    );
  }
  return key;
}

/** dynoxide computes for seconds on items of this size, so each case ends in one way there. */
const endsOf = (end: 'release' | 'revoke') =>
  inject('engine').name === 'dynoxide' ? [end] : (['release', 'revoke'] as const);

describe('a writer with many readers behind it', () => {
  it.each([
    ['ids of 64 characters', 64, {}, 'release'],
    ['ids of 128 characters and large claims', 128, { metadata: { note: 'x'.repeat(900) } }, 'revoke'],
  ] as const)('can release and be revoked, with %s', async (_what, idLength, more, firstEnd) => {
    const context = systemLockContext({ store, sessionStore: new MemorySessionStore(), alone: false });
    for (const end of endsOf(firstEnd)) {
      const key = await awaitedByReaders(idLength, more);
      const { fence } = await store.read(key);
      const { answer } =
        end === 'release'
          ? await release(context, key, { leaseId: writer })
          : await revoke(context, key, { fence, reason: 'test' });
      expect(answer.kind).toBe(end === 'release' ? 'released' : 'revoked');
      // What one release does not get to is served by those who look next. On a busy machine, each of them does less.
      let served = await store.read(key);
      for (let rev = -1; rev !== served.rev; served = await store.read(key)) {
        rev = served.rev;
        await apply(context, key, { kind: 'sweep' });
      }
      expect(holdersWeight(served)).toBeLessThanOrEqual(lockLimits.holdersBytesMax);
      const bytes = holdersWeight(served) + lockLimits.holdersBytesMax / 100;
      const isFull = bytes > lockLimits.holdersBytesMax;
      expect(isFull || served.holders.length === readersCount, `${served.holders.length} hold`).toBe(true);

      // Those that did not fit are served as soon as others have gone.
      const [first] = served.holders;
      await release(context, key, { leaseId: first?.leaseId ?? '' });
      const later = await inspect(context, key);
      expect(later.state.holders.length + later.state.queue.length).toBe(readersCount - 1);
      expect(later.state.holders.length).toBeGreaterThanOrEqual(served.holders.length - 1);
    }
  });
});
