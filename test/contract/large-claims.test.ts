import { randomUUID } from 'node:crypto';
import { PutCommand } from '@aws-sdk/lib-dynamodb';
import { beforeAll, describe, expect, inject, it } from 'vitest';
import { decide } from '../../src/lock/decide.ts';
import { lockLimits } from '../../src/lock/limits.ts';
import { holdersWeight, type LockKey, unusedLock } from '../../src/lock/state.ts';
import { LockStore } from '../../src/queue/lock-store.ts';
import { emptyPage, queueSizes } from '../../src/queue/pages.ts';
import { apply } from '../../src/service/apply.ts';
import { systemLockContext } from '../../src/service/context.ts';
import { revoke } from '../../src/service/lease.ts';
import { inspect } from '../../src/service/look.ts';
import { systemClock } from '../../src/time/clock.ts';
import { type FreshTable, freshTable } from '../support/engine.ts';
import { acquireOf } from '../support/lock-worlds.ts';
import { storesOn } from '../support/memory-table.ts';
import { toPageItem } from '../support/page-items.ts';

let table: FreshTable;
let store: LockStore;
beforeAll(async () => {
  table = await freshTable();
  store = new LockStore(table.access);
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
  const fitting = queueSizes.front;
  const front = readers.slice(0, fitting);
  const pages = Array.from({ length: Math.ceil((readersCount - fitting) / queueSizes.page) }, (_, page) =>
    readers.slice(fitting + page * queueSizes.page, fitting + (page + 1) * queueSizes.page),
  );
  await store.write(key, {
    kind: 'replace',
    next: { ...held, rev: 1, queue: front, behind: { first: 1, last: pages.length } },
  });
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
    ['small claims', 16, {}, 'release'],
    ['large claims', 16, { metadata: { note: 'x'.repeat(900) } }, 'revoke'],
  ] as const)('can release and be revoked, with %s', async (_what, idLength, more, firstEnd) => {
    const context = systemLockContext({ ...storesOn(table.access), alone: false });
    for (const end of endsOf(firstEnd)) {
      const key = await awaitedByReaders(idLength, more);
      const { fence } = await store.read(key);
      const { answer } =
        end === 'release'
          ? await apply(context, key, { kind: 'release', leaseId: writer })
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
      await apply(context, key, { kind: 'release', leaseId: first?.leaseId ?? '' });
      const later = await inspect(context, key);
      expect(later.state.holders.length + later.state.queue.length).toBe(readersCount - 1);
      expect(later.state.holders.length).toBeGreaterThanOrEqual(served.holders.length - 1);
    }
  });
});
