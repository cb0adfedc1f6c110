/** The search for a deadlock: what it reads, and when it ends a wait. */
import { describe, expect, it } from 'vitest';
import { apply } from '../../../src/service/apply.ts';
import { type LockContext, systemLockContext } from '../../../src/service/context.ts';
import { breakDeadlock } from '../../../src/service/deadlock.ts';
import { publicSessionId } from '../../../src/session/public-id.ts';
import type { TableRequests } from '../../../src/table/port.ts';
import { epochMs } from '../../../src/time/clock.ts';
import { acquireOf } from '../../support/lock-worlds.ts';
import { memoryStores } from '../../support/memory-table.ts';
import { serviceOnTable } from './world.ts';

const namespace = 'test';
const ttlMs = 600_000;
const leaseOf = (sessionId: string, name: string) => `lease-of-${sessionId}-on-${name}`;

function world() {
  const { time, table, store, sessionStore, locks: context, ...rest } = serviceOnTable();
  const parts = { sessionStore, clock: time, timers: time, alone: true };
  const contextOn = (stores: ReturnType<typeof memoryStores>) => systemLockContext({ ...stores, ...parts });
  /** The names in each batch read of locks, and the ids in each read of sessions. */
  const reads = { locks: [] as string[][], sessions: [] as (readonly string[])[] };
  const onSessionsRead: ((ids: readonly string[]) => void)[] = [];
  const { readMany } = store;
  store.readMany = (keys) => {
    reads.locks.push(keys.map(({ name }) => name));
    return readMany.call(store, keys);
  };
  const { read } = sessionStore;
  sessionStore.read = (at, ids) => {
    reads.sessions.push(ids);
    for (const listener of onSessionsRead) listener(ids);
    return read.call(sessionStore, at, ids);
  };

  const open = (sessionId: string) =>
    sessionStore.create(namespace, {
      sessionId,
      owner: sessionId,
      ttlMs,
      createdAt: time.now(),
      expiresAt: epochMs(time.now() + ttlMs),
      waits: [],
    });
  interface Claimed {
    readonly on?: LockContext;
    readonly owner?: string;
    readonly leaseId?: string;
  }
  const claim = (
    sessionId: string,
    name: string,
    { on = context, ...more }: Claimed & { waitMs?: number; attendMs?: number },
  ) => apply(on, { namespace, name }, acquireOf(leaseOf(sessionId, name), { leaseMs: null, sessionId, ...more }));
  const hold = (sessionId: string, name: string, more: Claimed = {}) => claim(sessionId, name, more);
  const wait = async (sessionId: string, name: string, more: Claimed = {}) => {
    await claim(sessionId, name, { ...more, waitMs: ttlMs, attendMs: ttlMs });
    const leaseId = more.leaseId ?? leaseOf(sessionId, name);
    await sessionStore.noteWait({ namespace, sessionId }, { lock: name, leaseId });
  };
  /** What one search reads: first the locks, then the sessions. */
  const search = async (sessionId: string) => {
    reads.locks.length = 0;
    reads.sessions.length = 0;
    await breakDeadlock(context, { namespace, sessionId });
    return reads;
  };
  const waitersOf = async (name: string) => (await store.read({ namespace, name })).queue.map(({ owner }) => owner);
  return {
    ...rest,
    time,
    table,
    store,
    sessionStore,
    context,
    contextOn,
    onSessionsRead,
    open,
    hold,
    wait,
    search,
    waitersOf,
  };
}

/** Each session holds the lock of its name, and waits for the next one. The last waits for the first. */
async function ring(sessions: readonly string[], ownerOf = (sessionId: string) => sessionId) {
  const all = world();
  for (const sessionId of sessions) {
    await all.open(sessionId);
    await all.hold(sessionId, `lock-${sessionId}`, { owner: ownerOf(sessionId) });
  }
  for (const [index, sessionId] of sessions.entries()) {
    const next = sessions[(index + 1) % sessions.length];
    await all.wait(sessionId, `lock-${next}`, { owner: ownerOf(sessionId) });
    await all.time.advance(1);
  }
  return all;
}

describe('a search for a deadlock', () => {
  it('reads each lock and each session once, and is not repeated if it finds nothing', async () => {
    const { open, hold, wait, search } = world();
    for (const sessionId of ['one', 'two', 'three']) await open(sessionId);
    await hold('two', 'a');
    await wait('one', 'a');
    // It waits for the same lock, so its own wait leads to no other lock.
    await wait('three', 'a');
    const { locks, sessions } = await search('one');
    expect(locks.flat()).toEqual(['a']);
    // The last read is for the decision: it tells which sessions live.
    expect(sessions).toEqual([['one'], ['two', 'three'], ['two', 'one', 'three']]);
  });

  it('reads at most 200 locks', async () => {
    const { open, hold, wait, search } = world();
    await open('start');
    for (let index = 0; index < 50; index++) {
      await open(`near-${index}`);
      await hold(`near-${index}`, `near-lock-${index}`);
      await wait('start', `near-lock-${index}`);
      for (let more = 0; more < 4; more++) {
        const far = `far-${index}-${more}`;
        await open(far);
        await hold(far, `${far}-lock`);
        await wait(`near-${index}`, `${far}-lock`);
      }
    }
    const { locks, sessions } = await search('start');
    expect(locks.map(({ length }) => length)).toEqual([50, 150]);
    // The sessions behind the last locks are not asked what they wait for.
    expect(sessions.map(({ length }) => length)).toEqual([1, 50, 1 + 50 + 150]);
  });

  it('does not follow the waits of a session that has ended, and does not need one that was collected', async () => {
    const { time, sessionStore, open, hold, wait, search, waitersOf } = world();
    for (const sessionId of ['one', 'ended', 'other']) await open(sessionId);
    await hold('other', 'b');
    await hold('ended', 'a');
    await wait('ended', 'b');
    await hold('collected', 'c');
    await wait('one', 'a');
    await wait('one', 'c');
    await sessionStore.end({ namespace, sessionId: 'ended' }, time.now());
    const { locks } = await search('one');
    expect(locks.flat()).toEqual(['a', 'c']);
    expect(await waitersOf('a')).toHaveLength(1);
  });

  it('does not count a session that is past its end, even if nobody has marked it yet', async () => {
    const { time, sessionStore, context, search, waitersOf } = await ring(['one', 'two']);
    await time.advance(ttlMs - 10);
    await sessionStore.keepAlive({ namespace, sessionId: 'one' }, time.now());
    // Both waits would still be present.
    for (const sessionId of ['one', 'two']) {
      const name = sessionId === 'one' ? 'lock-two' : 'lock-one';
      const again = { leaseMs: null, sessionId, waitMs: ttlMs, attendMs: ttlMs, owner: sessionId };
      await apply(context, { namespace, name }, acquireOf(leaseOf(sessionId, name), again));
    }
    await time.advance(10 + context.graceMs);
    await search('one');
    expect(await waitersOf('lock-two')).toEqual(['one']);
  });
});

/** The request that is under way. */
const latestOf = (requests: ReturnType<typeof world>['table']['requests']) =>
  requests.at(-1)?.request as TableRequests['BatchGetItem'];

describe('a cycle', () => {
  it('that both searches see ends its youngest wait, and tells it every step', async () => {
    const { store, search, waitersOf } = await ring(['one', 'two', 'three']);
    await search('one');
    expect([await waitersOf('lock-two'), await waitersOf('lock-three'), await waitersOf('lock-one')]).toEqual([
      ['one'],
      ['two'],
      [],
    ]);
    const { ended } = await store.read({ namespace, name: 'lock-one' });
    expect(ended).toMatchObject([{ leaseId: leaseOf('three', 'lock-one'), how: 'deadlock' }]);
    const steps = JSON.parse(ended[0]?.reason ?? '') as unknown[];
    expect(steps).toEqual([
      { sessionId: publicSessionId('three'), owner: 'three', waitsFor: 'lock-one' },
      { sessionId: publicSessionId('one'), owner: 'one', waitsFor: 'lock-two' },
      { sessionId: publicSessionId('two'), owner: 'two', waitsFor: 'lock-three' },
    ]);
  });

  it.each([
    [2_048, 3],
    [2_049, 2],
  ])('of %i bytes is told in %i steps', async (bytes, steps) => {
    const sessions = ['one', 'two', 'three'];
    const step = (sessionId: string, waitsFor: string) => ({
      sessionId: publicSessionId(sessionId),
      owner: '',
      waitsFor,
    });
    const bare = JSON.stringify([step('three', 'lock-one'), step('one', 'lock-two'), step('two', 'lock-three')]);
    const long = 'x'.repeat(bytes - bare.length);
    const { store, search } = await ring(sessions, (sessionId) => (sessionId === 'three' ? long : ''));
    await search('one');
    const { ended } = await store.read({ namespace, name: 'lock-one' });
    expect(JSON.parse(ended[0]?.reason ?? '')).toHaveLength(steps);
  });

  /** Two sessions that wait for each other. The second search sees the locks as they are in another table. */
  async function changed(change: (all: Awaited<ReturnType<typeof ring>>, later: LockContext) => Promise<void>) {
    const all = await ring(['one', 'two']);
    const { table } = all;
    const later = memoryStores({ clock: all.time });
    await change(all, all.contextOn(later));
    let searches = 0;
    all.onSessionsRead.push((ids) => {
      if (ids.length === 1 && ids[0] === 'one') searches += 1;
      if (searches === 2) table.meddle('read many', () => later.table.call('BatchGetItem', latestOf(table.requests)));
    });
    await all.search('one');
    expect(searches).toBe(2);
    return { queues: [await all.waitersOf('lock-two'), await all.waitersOf('lock-one')] };
  }
  const untouched = { queues: [['one'], ['two']] };

  it('ends no wait if a wait in it began again between the searches', async () => {
    const seen = await changed(async ({ hold, wait, time }, on) => {
      for (const sessionId of ['one', 'two']) await hold(sessionId, `lock-${sessionId}`, { on });
      await time.advance(1);
      await wait('one', 'lock-two', { on });
      await wait('two', 'lock-one', { on });
    });
    expect(seen).toEqual(untouched);
  });

  it('ends no wait if another lease of a session waits at the second search, even since the same instant', async () => {
    const seen = await changed(async ({ store }, on) => {
      for (const name of ['lock-one', 'lock-two']) {
        const state = await store.read({ namespace, name });
        const queue = state.queue.map((waiter) => ({ ...waiter, leaseId: `another-${waiter.leaseId}` }));
        const next = { ...state, rev: 1, queue: name === 'lock-one' ? queue : state.queue };
        await on.store.write({ namespace, name }, { kind: 'replace', next });
      }
    });
    expect(seen).toEqual(untouched);
  });

  it('ends no wait if the second search sees a longer cycle', async () => {
    const seen = await changed(async ({ store, open, hold, wait, time }, on) => {
      for (const name of ['lock-one', 'lock-two']) {
        const state = await store.read({ namespace, name });
        const holders = state.holders.map((holder) => ({ ...holder, sessionId: 'three' }));
        const next = { ...state, rev: 1, ...(name === 'lock-one' ? { holders } : {}) };
        await on.store.write({ namespace, name }, { kind: 'replace', next });
      }
      await open('three');
      await hold('one', 'lock-three', { on });
      await time.advance(1);
      await wait('three', 'lock-three', { on });
    });
    expect(seen).toEqual(untouched);
  });
});
