/** A request that waits: what it answers when its poll ends, its time is over or its caller is gone. */
import { describe, expect, it } from 'vitest';
import { lockLimits } from '../../../src/lock/limits.ts';
import { acquire } from '../../../src/service/acquire.ts';
import { release } from '../../../src/service/lease.ts';
import { memoryService } from '../../../src/testing/memory-service.ts';
import { seededRandom, VirtualTime } from '../../../src/testing/virtual-time.ts';
import { key } from './world.ts';

const leaseOf = (owner: string) => `lease-of-${owner}-000000`;

function world() {
  const time = new VirtualTime();
  const { locks } = memoryService(time, seededRandom(1), () => {}).service;
  const ask = (owner: string, more: object = {}, gone?: AbortSignal) =>
    acquire(locks, key, { leaseId: leaseOf(owner), owner, leaseMs: 300_000, waitMs: 0, ...more }, gone);
  return { time, locks, ask };
}

describe('an acquire that waits', () => {
  it('is over, and not still waiting, if its deadline is the end of its poll', async () => {
    const { time, locks, ask } = world();
    await ask('holder');
    const waiting = ask('waiter', { waitMs: locks.pollMs });
    await time.advance(locks.pollMs);
    expect((await waiting).answer).toEqual({ kind: 'wait-timeout', waitedMs: locks.pollMs });
    expect((await locks.store.read(key)).queue).toEqual([]);
  });

  it('keeps its place for a while if its caller is gone', async () => {
    const { time, locks, ask } = world();
    await ask('holder');
    const gone = new AbortController();
    const waiting = ask('waiter', { waitMs: 60_000 }, gone.signal);
    await time.advance(1_000);
    gone.abort();
    await time.settle();
    await waiting;
    const [place] = (await locks.store.read(key)).queue;
    expect(place).toMatchObject({ presentUntil: time.now() + lockLimits.waiterAbsenceMs });
  });

  it('estimates the time until its grant by its position and the rate of grants', async () => {
    const { time, locks, ask } = world();
    await ask('holder');
    for (const owner of ['first', 'second', 'third']) void ask(owner, { waitMs: 60_000 });
    await time.settle();
    const waiting = ask('last', { waitMs: 60_000, pollMs: 4_000 });
    await time.advance(3_000);
    await release(locks, key, { leaseId: leaseOf('holder') });
    await time.advance(1_000);
    // One grant in four seconds, and two waiters ahead.
    expect(await waiting).toMatchObject({ answer: { kind: 'waiting', position: 3 }, etaMs: 12_000 });
  });
});
