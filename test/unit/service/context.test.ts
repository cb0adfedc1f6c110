import { describe, expect, it } from 'vitest';
import { lockLimits } from '../../../src/lock/limits.ts';
import { unusedLock } from '../../../src/lock/state.ts';
import { lockItemKey } from '../../../src/queue/lock-item.ts';
import { queueSizes } from '../../../src/queue/pages.ts';
import { acquire } from '../../../src/service/acquire.ts';
import { apply } from '../../../src/service/apply.ts';
import { factsAbout, factsAmong, factsForLook, peekAndLearn, systemLockContext } from '../../../src/service/context.ts';
import { release, revoke } from '../../../src/service/lease.ts';
import { leaseNameOf } from '../../../src/table/digest.ts';
import { toStored } from '../../../src/table/json.ts';
import { VirtualTime } from '../../../src/testing/virtual-time.ts';
import { systemClock } from '../../../src/time/clock.ts';
import { systemTimers } from '../../../src/time/timers.ts';
import { acquireOf } from '../../support/lock-worlds.ts';
import { memoryStores } from '../../support/memory-table.ts';
import { alice, bob, carol, LockStory } from '../lock/story.ts';
import { key, serviceOnTable } from './world.ts';

const stores = () => memoryStores();

describe('a context', () => {
  it('has the real clock and the limits of the rules, unless it is told otherwise', () => {
    const context = systemLockContext({ ...stores(), alone: true });
    expect(context).toMatchObject({ clock: systemClock, timers: systemTimers, random: Math.random });
    expect(context).toMatchObject({ graceMs: lockLimits.graceMs, pollMs: 20_000, sizes: queueSizes });
    for (const setting of ['leaseMsMax', 'waitMsMax']) expect(context).not.toHaveProperty(setting);
    const given = {
      clock: new VirtualTime(),
      timers: new VirtualTime(),
      random: () => 0.5,
      pollMs: 1,
      graceMs: 2,
      leaseMsMax: 3,
      waitMsMax: 4,
      sizes: { front: 5, page: 6 },
    };
    expect(systemLockContext({ ...stores(), alone: true, ...given })).toMatchObject(given);
  });

  it('trusts what it remembers for ever only if nobody else writes', () => {
    expect(systemLockContext({ ...stores(), alone: true }).rememberedMs).toBe(Number.POSITIVE_INFINITY);
    expect(systemLockContext({ ...stores(), alone: false }).rememberedMs).toBe(100);
  });

  it('makes ids that nobody can guess, and a session id that may be part of a path', () => {
    const { newLeaseId, newSessionId } = systemLockContext({ ...stores(), alone: true });
    expect(newLeaseId()).toMatch(/^[\w-]{22}$/);
    expect(newSessionId()).toMatch(/^s[\w-]{22}$/);
    expect(newLeaseId()).not.toBe(newLeaseId());
  });
});

describe('the facts for a decision', () => {
  const under = (sessionId: string) => ({ leaseMs: null, sessionId });

  async function world() {
    const time = new VirtualTime();
    const parts = stores();
    const context = systemLockContext({ ...parts, alone: true, clock: time, timers: time });
    const reads: (readonly string[])[] = [];
    const read = parts.sessionStore.read.bind(parts.sessionStore);
    parts.sessionStore.read = (namespace, ids) => {
      reads.push(ids);
      return read(namespace, ids);
    };
    const story = new LockStory().openSession('one').openSession('two');
    const { state } = story.after(
      acquireOf('lease-of-the-holder', under('one')),
      acquireOf('lease-of-a-waiter-1', { ...under('two'), waitMs: 60_000 }),
      acquireOf('lease-of-a-waiter-2', { ...under('one'), waitMs: 60_000 }),
    );
    return { time, context, reads, state };
  }

  it('tell of the sessions of holders and waiters, each read once', async () => {
    const { time, context, reads, state } = await world();
    const facts = await factsAbout(context, key, state);
    expect(facts).toMatchObject({ now: time.now(), graceMs: lockLimits.graceMs });
    expect(facts.frontLengthMax).toBe(queueSizes.front);
    expect([...(facts.sessions?.keys() ?? [])].sort()).toEqual(['one', 'two']);
    expect(reads).toEqual([['one', 'two']]);
  });

  it('tell of a session that no lock names yet', async () => {
    const { context, reads, state } = await world();
    await factsAmong(context, key.namespace, [unusedLock], 'three');
    await factsAmong(context, key.namespace, [state], 'one');
    expect(reads).toEqual([['three'], ['one', 'two']]);
  });

  it('need no read if there are no sessions, and for a look not a second one within a moment', async () => {
    const { context, reads, state } = await world();
    await factsAbout(context, key, unusedLock);
    await factsForLook(context, key, unusedLock);
    expect(reads).toEqual([]);
    for (let look = 0; look < 2; look++) {
      const facts = await factsForLook(context, key, state);
      expect([...(facts.sessions?.keys() ?? [])]).toEqual(['one', 'two']);
    }
    expect(reads).toHaveLength(1);
  });
});

/** Two processes on one table. */
function twoProcesses() {
  const { table, elsewhere, newProcess, ...rest } = serviceOnTable({ alone: false });
  const { access, store } = elsewhere;
  /** What the table shows now. Eventually consistent reads can be made to show it later. */
  const itemNow = () => {
    const Key = toStored({ ...lockItemKey(key) });
    return access.table.call('GetItem', { TableName: access.tableName, Key, ConsistentRead: true });
  };
  type Shown = Awaited<ReturnType<typeof itemNow>>;
  const showInPeeks = (shown: Shown) => table.meddle('peek', async () => shown);
  return { ...rest, lock: () => store.read(key), itemNow, showInPeeks, here: newProcess(), there: newProcess() };
}

const never = () => false;

describe('peekAndLearn', () => {
  /** A lock that was written twice: its states in order. Peeks show the first one. */
  async function twoStates() {
    const all = twoProcesses();
    const { state: first } = await apply(all.there, key, acquireOf(alice));
    all.showInPeeks(await all.itemNow());
    const { state: second } = await apply(all.there, key, acquireOf(bob, { waitMs: 60_000 }));
    return { ...all, first, second };
  }

  it('learns a state that is newer than the known one, though others have written since', async () => {
    const { here, first } = await twoStates();
    expect(await peekAndLearn(here, key, never)).toEqual(first);
    expect(here.cache.seen(key)?.state).toEqual(first);
  });

  it('ignores a state that is older than the known one', async () => {
    const { here, second } = await twoStates();
    here.cache.learn(key, second);
    expect(await peekAndLearn(here, key, never)).toEqual(second);
    expect(here.cache.seen(key)?.state).toEqual(second);
  });

  it('reads the lock again if a wait would end', async () => {
    const { here, second } = await twoStates();
    expect(await peekAndLearn(here, key, () => true)).toEqual(second);
  });

  it('reads the lock again if it shows no item, and does not forget what it knows', async () => {
    const { here, second, showInPeeks } = await twoStates();
    here.cache.learn(key, second);
    showInPeeks({});
    expect(await peekAndLearn(here, key, never)).toEqual(second);
    expect(here.cache.seen(key)?.state).toEqual(second);
  });

  it('learns that the item was deleted', async () => {
    const { second } = await twoStates();
    const { here } = twoProcesses();
    here.cache.learn(key, second);
    expect(await peekAndLearn(here, key, never)).toEqual(unusedLock);
    expect(here.cache.seen(key)).toBeUndefined();
  });
});

describe('a waiter that is not the next', () => {
  const ask = (leaseId: string, waitMs = 60_000) => ({ leaseId, owner: leaseId, leaseMs: 300_000, waitMs });

  it('is not told of a grant that was revoked before the peek', async () => {
    const { time, lock, itemNow, showInPeeks, here, there } = twoProcesses();
    await acquire(there, key, ask(alice, 0));
    void acquire(there, key, ask(bob));
    await time.settle();
    const waiting = acquire(here, key, ask(carol));
    await time.settle();
    await release(there, key, { leaseId: alice });
    await release(there, key, { leaseId: bob });
    const granted = await lock();
    expect(granted.holders).toMatchObject([{ leaseId: leaseNameOf(carol) }]);
    showInPeeks(await itemNow());
    await revoke(there, key, { fence: granted.fence, reason: 'by hand' });
    await time.advance(1_000);
    expect((await waiting).answer).toMatchObject({ kind: 'lost', reason: 'revoked' });
  });

  it('keeps its place while its peeks show a time before it joined', async () => {
    const { time, itemNow, showInPeeks, here, there } = twoProcesses();
    await acquire(there, key, ask(alice, 0));
    void acquire(there, key, ask(bob));
    await time.settle();
    showInPeeks(await itemNow());
    const waiting = acquire(here, key, { ...ask(carol), pollMs: 1_000 });
    await time.advance(1_000);
    expect((await waiting).answer).toMatchObject({ kind: 'waiting', position: 2 });
  });
});
