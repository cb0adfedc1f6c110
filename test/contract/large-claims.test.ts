import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, it } from 'vitest';
import { decide } from '../../src/lock/decide.ts';
import { lockLimits } from '../../src/lock/limits.ts';
import { type LockState, unusedLock, type Waiter } from '../../src/lock/state.ts';
import { holdersWeight, weightOf } from '../../src/lock/weight.ts';
import { apply } from '../../src/service/apply.ts';
import { release, revoke } from '../../src/service/lease.ts';
import { systemLockContext } from '../../src/service/system.ts';
import { DynamoDBLockStore } from '../../src/store/dynamodb/lock-store.ts';
import { MemorySessionStore } from '../../src/store/memory/session-store.ts';
import { systemClock } from '../../src/time/clock.ts';
import { freshTable } from '../support/engine.ts';
import { acquireOf } from '../support/lock-worlds.ts';

let store: DynamoDBLockStore;
beforeAll(async () => {
  store = new DynamoDBLockStore((await freshTable()).access);
});

const writer = 'lease-of-the-writer-0';
const facts = () => ({ now: systemClock.now(), graceMs: lockLimits.graceMs });

/** A writer, and as many parked readers behind it as a queue takes. */
function awaitedByReaders(idLength: number, more: object): LockState {
  const held = decide(unusedLock, acquireOf(writer, { leaseMs: 60_000 }), facts()).next;
  const reader = {
    ...acquireOf('reader', { mode: 'shared', waitMs: 3_600_000, attendMs: null, ...more }),
    owner: 'reader',
  };
  const { answer } = decide(held, reader, facts());
  if (answer.kind !== 'waiting') throw new Error(`Expected to wait, got ${answer.kind}.`);
  const queue = Array.from({ length: lockLimits.queueLengthMax }, (_, index) => ({
    ...answer.waiter,
    leaseId: `reader-${String(index).padStart(idLength - 7, '0')}`,
  }));
  const fitting = Math.floor(lockLimits.queueBytesMax / weightOf(queue[0] as Waiter));
  return { ...held, queue: queue.slice(0, fitting) };
}

describe('a writer with many readers behind it', () => {
  it.each([
    ['ids of 64 characters', 64, {}],
    ['ids of 128 characters', 128, {}],
    ['ids of 128 characters and large claims', 128, { metadata: { note: 'x'.repeat(900) } }],
  ])('can release and be revoked, with %s', async (_what, idLength, more) => {
    const context = systemLockContext({ store, sessionStore: new MemorySessionStore(), alone: false });
    const state = awaitedByReaders(idLength, more);
    for (const end of ['release', 'revoke'] as const) {
      const key = { namespace: 'large', name: randomUUID() };
      expect((await store.swap(key, { ...state, rev: 1 })).applied).toBe(true);
      const { answer } =
        end === 'release'
          ? await release(context, key, { leaseId: writer })
          : await revoke(context, key, { fence: state.fence, reason: 'test' });
      expect(answer.kind).toBe(end === 'release' ? 'released' : 'revoked');
      const served = await store.read(key);
      expect(served.holders.length).toBeGreaterThan(50);
      expect(holdersWeight(served)).toBeLessThanOrEqual(lockLimits.holdersBytesMax);

      // Those that did not fit are served as soon as others have gone.
      const [first] = served.holders;
      await release(context, key, { leaseId: first?.leaseId ?? '' });
      await apply(context, key, { kind: 'sweep' });
      const later = await store.read(key);
      expect(later.holders.length + later.queue.length).toBe(served.holders.length + served.queue.length - 1);
      expect(later.holders.length).toBeGreaterThanOrEqual(served.holders.length - 1);
    }
  });
});
