/** Looks for half of the price, which may show an older state than the latest. */
import { describe, expect, it } from 'vitest';
import { decide } from '../../../src/lock/decide.ts';
import { type LockKey, type LockState, unusedLock } from '../../../src/lock/state.ts';
import { acquire } from '../../../src/service/acquire.ts';
import { lookAndLearn, systemLockContext } from '../../../src/service/context.ts';
import { release, revoke } from '../../../src/service/lease.ts';
import { MemoryLockStore } from '../../../src/store/memory/lock-store.ts';
import { MemorySessionStore } from '../../../src/store/memory/session-store.ts';
import { VirtualTime } from '../../../src/testing/virtual-time.ts';
import { acquireOf } from '../../support/lock-worlds.ts';
import { alice, bob, carol } from '../lock/story.ts';
import { key } from './world.ts';

/** A store whose looks show the state that the test chooses. */
class LateStore extends MemoryLockStore {
  shown: LockState | undefined;

  override look(lock: LockKey): Promise<LockState> {
    return this.shown === undefined ? this.read(lock) : Promise.resolve(this.shown);
  }
}

/** Two processes on one store. */
function world() {
  const time = new VirtualTime();
  const store = new LateStore();
  const newProcess = () =>
    systemLockContext({
      store,
      sessionStore: new MemorySessionStore(),
      alone: false,
      clock: time,
      timers: time,
      random: () => 0.5,
    });
  return { time, store, here: newProcess(), there: newProcess() };
}

const ask = (leaseId: string, waitMs = 60_000) => ({ leaseId, owner: leaseId, leaseMs: 300_000, waitMs });
const never = () => false;

describe('lookAndLearn', () => {
  /** A lock that was written twice: its states in order. */
  async function twoStates() {
    const { store, here, time } = world();
    const facts = { now: time.now(), graceMs: here.graceMs };
    const first = decide(unusedLock, acquireOf(alice), facts).next;
    const second = decide(first, acquireOf(bob, { waitMs: 60_000 }), facts).next;
    await store.swap(key, first);
    await store.swap(key, second);
    return { store, here, first, second };
  }

  it('learns a state that is newer than the known one, though others have written since', async () => {
    const { store, here, first } = await twoStates();
    store.shown = first;
    expect(await lookAndLearn(here, key, never)).toEqual(first);
    expect(here.memory.seen(key)?.state).toEqual(first);
  });

  it('ignores a state that is older than the known one', async () => {
    const { store, here, first, second } = await twoStates();
    here.memory.learn(key, second);
    store.shown = first;
    expect(await lookAndLearn(here, key, never)).toEqual(second);
    expect(here.memory.seen(key)?.state).toEqual(second);
  });

  it('reads the lock again if a wait would end', async () => {
    const { store, here, first, second } = await twoStates();
    store.shown = first;
    expect(await lookAndLearn(here, key, () => true)).toEqual(second);
  });

  it('reads the lock again if it shows no item, and does not forget what it knows', async () => {
    const { store, here, second } = await twoStates();
    here.memory.learn(key, second);
    store.shown = unusedLock;
    expect(await lookAndLearn(here, key, never)).toEqual(second);
    expect(here.memory.seen(key)?.state).toEqual(second);
  });

  it('learns that the item was deleted', async () => {
    const { here: other, second } = await twoStates();
    const { here } = world();
    here.memory.learn(key, second);
    expect(await lookAndLearn(here, key, never)).toEqual(unusedLock);
    expect(here.memory.seen(key)).toBeUndefined();
    expect(await lookAndLearn(other, key, never)).toEqual(second);
  });
});

describe('a waiter that is not the next', () => {
  it('is not told of a grant that was revoked before the look', async () => {
    const { time, store, here, there } = world();
    await acquire(there, key, ask(alice, 0));
    void acquire(there, key, ask(bob));
    await time.settle();
    const waiting = acquire(here, key, ask(carol));
    await time.settle();
    await release(there, key, { leaseId: alice });
    await release(there, key, { leaseId: bob });
    const granted = await store.read(key);
    expect(granted.holders).toMatchObject([{ leaseId: carol }]);
    await revoke(there, key, { fence: granted.fence, reason: 'by hand' });
    store.shown = granted;
    await time.advance(1_000);
    expect((await waiting).answer).toMatchObject({ kind: 'lost', reason: 'revoked' });
  });

  it('keeps its place while its looks show a time before it joined', async () => {
    const { time, store, here, there } = world();
    await acquire(there, key, ask(alice, 0));
    void acquire(there, key, ask(bob));
    await time.settle();
    store.shown = await store.read(key);
    const waiting = acquire(here, key, { ...ask(carol), pollMs: 1_000 });
    await time.advance(1_000);
    expect((await waiting).answer).toMatchObject({ kind: 'waiting', position: 2 });
  });
});
