import { describe, expect, it } from 'vitest';
import { acquire } from '../../../src/service/acquire.ts';
import { systemLockContext } from '../../../src/service/context.ts';
import { release } from '../../../src/service/lease.ts';
import { LockStore } from '../../../src/queue/lock-store.ts';
import { MemorySessionStore } from '../../../src/store/memory/session-store.ts';
import { VirtualTime } from '../../../src/testing/virtual-time.ts';
import { pauseFor } from '../../../src/time/timers.ts';
import { CountedTable, tableName } from '../../bench/counted-table.ts';
import { accessTo } from '../../scale/table-access.ts';
import { key } from './world.ts';

/** One process on a table whose requests take 4 ms, in virtual time. */
function serviceInTime({ alone }: { alone: boolean }) {
  const time = new VirtualTime();
  const table = new CountedTable(() => pauseFor(time, 2));
  const context = systemLockContext({
    store: new LockStore(accessTo(table as never, tableName, () => 0.5)),
    sessionStore: new MemorySessionStore(),
    alone,
    clock: time,
    timers: time,
    random: () => 0.5,
  });
  return { time, table, context };
}

describe('many readers behind a writer', () => {
  const count = 60;

  it.each([true, false])(
    'are served and release with few requests, though all do so at once (alone: %s)',
    async (alone) => {
      const { time, table, context } = serviceInTime({ alone });
      const writer = { leaseId: 'lease-writer-00000', owner: 'writer', waitMs: 0, mode: 'exclusive' as const };
      const readers = Array.from({ length: count }, (_, index) => ({
        leaseId: `lease-reader-${String(index).padStart(5, '0')}`,
        owner: 'reader',
        waitMs: 60_000,
        mode: 'shared' as const,
        place: 'new' as const,
      }));
      let granted = 0;
      let released = 0;
      void acquire(context, key, writer);
      await time.advance(50);
      for (const reader of readers) {
        void acquire(context, key, reader).then(async ({ answer }) => {
          expect(answer.kind).toBe('granted');
          granted += 1;
          await release(context, key, reader);
          released += 1;
        });
        await time.advance(30);
      }
      table.take();
      void release(context, key, writer);
      await time.passUntil(time.now() + 20_000, () => released === count);
      expect([granted, released]).toEqual([count, count]);
      // A release each, a write and a read for each page, and a few that lose to a release. If each release also swept, it would be thousands.
      expect(table.take().requests).toBeLessThanOrEqual(3 * count);
    },
  );
});
