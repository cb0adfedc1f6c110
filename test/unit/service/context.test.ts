import { describe, expect, it } from 'vitest';
import { lockLimits } from '../../../src/lock/limits.ts';
import { unusedLock } from '../../../src/lock/state.ts';
import {
  factsAbout,
  factsAmong,
  factsForLook,
  readAndLearn,
  systemLockContext,
  unlessThrottled,
} from '../../../src/service/context.ts';
import { MemoryLockStore } from '../../../src/store/memory/lock-store.ts';
import { MemorySessionStore } from '../../../src/store/memory/session-store.ts';
import { StoreError } from '../../../src/table/store-error.ts';
import { VirtualTime } from '../../../src/testing/virtual-time.ts';
import { systemClock } from '../../../src/time/clock.ts';
import { systemTimers } from '../../../src/time/timers.ts';
import { acquireOf } from '../../support/lock-worlds.ts';
import { LockStory } from '../lock/story.ts';
import { key } from './world.ts';

const stores = () => ({ store: new MemoryLockStore(), sessionStore: new MemorySessionStore() });

describe('a context', () => {
  it('has the real clock and the limits of the rules, unless it is told otherwise', () => {
    const context = systemLockContext({ ...stores(), alone: true });
    expect(context).toMatchObject({ clock: systemClock, timers: systemTimers, random: Math.random });
    expect(context).toMatchObject({ graceMs: lockLimits.graceMs, pollMs: 20_000 });
    for (const setting of ['sizes', 'leaseMsMax', 'waitMsMax']) expect(context).not.toHaveProperty(setting);
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
    expect(facts).not.toHaveProperty('sizes');
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

describe('a read', () => {
  it('is remembered', async () => {
    const time = new VirtualTime();
    const context = systemLockContext({ ...stores(), alone: true, clock: time, timers: time });
    await context.store.swap(key, { ...unusedLock, rev: 1 });
    const state = await readAndLearn(context, key);
    expect(context.memory.seen(key)).toEqual({ state, at: time.now() });
  });
});

describe('a request that the store throttles', () => {
  it('counts as not sent, unlike any other failure', async () => {
    expect(await unlessThrottled(Promise.resolve('written'))).toBe('written');
    expect(await unlessThrottled(Promise.reject(new StoreError('throttled', 'Less traffic, please.')))).toBeUndefined();
    const failures = [new StoreError('unavailable', 'No answer came.'), new Error('throttled')];
    for (const failure of failures) await expect(unlessThrottled(Promise.reject(failure))).rejects.toBe(failure);
  });
});
