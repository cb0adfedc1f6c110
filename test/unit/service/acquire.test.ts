/** A request that waits: what it answers when its poll ends, its time is over or its caller is gone. */
import { describe, expect, it } from 'vitest';
import { lockLimits } from '../../../src/lock/limits.ts';
import { type AcquireRequest, acquire, askAgain } from '../../../src/service/acquire.ts';
import { apply } from '../../../src/service/apply.ts';
import { release } from '../../../src/service/lease.ts';
import { createSession } from '../../../src/service/sessions.ts';
import { leaseNameOf } from '../../../src/table/digest.ts';
import { outOfReach } from '../../support/memory-table.ts';
import { key, serviceOnTable, watched } from './world.ts';

const leaseOf = (owner: string) => `lease-of-${owner}-000000`;
const nameOf = (owner: string) => leaseNameOf(leaseOf(owner));

function world() {
  const service = serviceOnTable();
  const { locks } = service;
  const ask = (owner: string, more: object = {}, gone?: AbortSignal) =>
    acquire(locks, key, { leaseId: leaseOf(owner), owner, leaseMs: 300_000, waitMs: 0, ...more }, gone);
  return { ...service, ask };
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

  it('is over at its deadline, and does not join again, if a sweep in that instant removed it first', async () => {
    const { time, locks, ask } = world();
    await ask('holder');
    time.after(5_000, () => void apply(locks, key, { kind: 'sweep' }));
    const waiting = watched(ask('waiter', { waitMs: 5_000, pollMs: 20_000 }));
    await time.advance(5_000);
    expect(waiting.done).toBe(true);
    expect((await waiting.promise).answer).toEqual({ kind: 'wait-timeout', waitedMs: 5_000 });
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

  it('estimates nothing if nobody was granted, or if it waits no longer', async () => {
    const { time, locks, ask } = world();
    expect(await ask('holder', { waitMs: 60_000 })).toMatchObject({ answer: { kind: 'granted' }, etaMs: null });
    const polled = ask('waiter', { waitMs: 60_000, pollMs: 2_000 });
    await time.advance(2_000);
    expect(await polled).toMatchObject({ answer: { kind: 'waiting' }, etaMs: null });
    const served = ask('waiter', { waitMs: 60_000 });
    await time.advance(1_000);
    await release(locks, key, { leaseId: leaseOf('holder') });
    await time.advance(1);
    expect(await served).toMatchObject({ answer: { kind: 'granted' }, etaMs: null });
  });

  it('divides the time by the number of grants', async () => {
    const { time, locks, ask } = world();
    await ask('holder');
    for (const owner of ['first', 'second', 'third']) void ask(owner, { waitMs: 60_000 });
    await time.settle();
    const waiting = ask('last', { waitMs: 60_000, pollMs: 4_000 });
    await time.advance(1_000);
    await release(locks, key, { leaseId: leaseOf('holder') });
    await release(locks, key, { leaseId: leaseOf('first') });
    await time.advance(3_000);
    expect(await waiting).toMatchObject({ answer: { kind: 'waiting', position: 2 }, etaMs: 4_000 });
  });

  it('counts as present until its poll ends, and for a while after that', async () => {
    const { time, locks, ask } = world();
    await ask('holder');
    void ask('waiter', { waitMs: 60_000, pollMs: 4_000 });
    await time.settle();
    const [place] = (await locks.store.read(key)).queue;
    expect(place?.presentUntil).toBe(time.now() + 4_000 + lockLimits.waiterAbsenceMs);
  });

  it('goes on if its place is lost before the poll ends: it takes a new one', async () => {
    const { time, locks, ask } = world();
    await ask('holder');
    const waiting = watched(ask('waiter', { waitMs: 60_000, pollMs: 10_000 }));
    await time.advance(1_000);
    await apply(locks, key, { kind: 'give-up', leaseId: nameOf('waiter') });
    await time.advance(1_000);
    expect(waiting.done).toBe(false);
    expect((await locks.store.read(key)).queue).toMatchObject([{ queuedAt: time.now() - 1_000 }]);
    await release(locks, key, { leaseId: leaseOf('holder') });
    await time.advance(1);
    expect((await waiting.promise).answer.kind).toBe('granted');
  });

  it('writes nothing when its poll ends, and nothing when it learns of its grant', async () => {
    const { time, table, locks, ask } = world();
    await ask('holder');
    const polled = ask('waiter', { waitMs: 60_000, pollMs: 2_000 });
    await time.settle();
    table.take();
    await time.advance(2_000);
    expect((await polled).answer.kind).toBe('waiting');
    expect(table.take()).toEqual([]);
    const served = ask('waiter', { waitMs: 60_000 });
    await time.settle();
    table.take();
    await release(locks, key, { leaseId: leaseOf('holder') });
    await time.advance(1);
    expect((await served).answer.kind).toBe('granted');
    expect(table.take()).toEqual(['release']);
  });

  it('leaves nothing behind in this process, even if it fails', async () => {
    const { locks, table, ask } = world();
    await ask('holder', { waitMs: 60_000 });
    expect(locks.waits.openCount).toBe(0);
    table.meddle('grant', outOfReach);
    await expect(ask('another', { waitMs: 60_000, limit: 3 })).rejects.toMatchObject({ code: 'unavailable' });
    expect(locks.waits.openCount).toBe(0);
  });
});

describe('an acquire', () => {
  it('grants what was asked for, and keeps no field that was not given', async () => {
    const { time, ask } = world();
    const more = { lockDelayMs: 500, mode: 'shared', metadata: { job: '7' } } as const;
    const { answer } = await ask('holder', more);
    expect(answer).toMatchObject({ kind: 'granted', holder: { ...more, leaseMs: 300_000 } });
    const plain = (await world().ask('holder', { leaseMs: undefined })).answer;
    expect(plain.kind === 'granted' ? plain.holder : undefined).toStrictEqual({
      leaseId: nameOf('holder'),
      owner: 'holder',
      permits: expect.any(Number),
      leaseMs: lockLimits.leaseMsDefault,
      fence: expect.any(Number),
      acquiredAt: time.now(),
      expiresAt: time.now() + lockLimits.leaseMsDefault,
    });
  });

  it.each([
    ['efficiency', 0],
    ['correctness', 1],
    [undefined, 1],
  ] as const)('of the tier %s asks the store %i time(s) about a lock that was just refused', async (tier, times) => {
    const { table, ask } = world();
    await ask('holder');
    await ask('one', { tier });
    table.take();
    expect((await ask('other', { tier })).answer.kind).toBe('held');
    expect(table.take()).toHaveLength(times);
  });

  it('of the tier efficiency waits if it is parked, though it was just refused', async () => {
    const { ask } = world();
    await ask('holder');
    await ask('one', { tier: 'efficiency' });
    const parked = { tier: 'efficiency', waitMs: 60_000, notify: { type: 'event', ref: 'r' } };
    expect((await ask('parked', parked)).answer.kind).toBe('waiting');
  });
});

describe('a parked waiter', () => {
  it.each([
    ['not to a bus, which has many readers', { type: 'event', ref: 'r' }, {}],
    ['to a task', { type: 'task-token', token: 't' }, { leaseId: leaseOf('parked') }],
    ['to a callback', { type: 'durable-callback', id: 'c' }, { leaseId: leaseOf('parked') }],
    ['to a connection', { type: 'websocket', connectionId: 'c' }, { leaseId: leaseOf('parked') }],
  ])('has its leaseId sent with its grant: %s', async (_where, notify, secret) => {
    const { locks, ask } = world();
    await ask('holder');
    await ask('parked', { waitMs: 60_000, notify });
    expect((await locks.store.read(key)).queue).toMatchObject([{ leaseId: nameOf('parked') }]);
    expect((await locks.store.read(key)).queue[0]?.notify).toEqual({ ...notify, ...secret });
  });
});

describe('a parked waiter that asks again', () => {
  const parked = { waitMs: 60_000, notify: { type: 'event', ref: 'r' } } as const;
  const request = { leaseId: leaseOf('parked'), owner: 'parked', leaseMs: 300_000, ...parked };

  it('is answered by a read alone', async () => {
    const { locks, table, ask } = world();
    await ask('holder');
    await ask('parked', parked);
    table.take();
    expect(await askAgain(locks, key, request)).toMatchObject({
      answer: { kind: 'waiting', position: 1 },
      etaMs: null,
    });
    expect(table.take()).toEqual(['read']);
  });

  it('is not even looked for if its lease is new', async () => {
    const { locks, table } = world();
    expect(await askAgain(locks, key, { ...request, place: 'new' })).toBeUndefined();
    expect(table.take()).toEqual([]);
  });
});

describe('a wait of one process among many', () => {
  /** The holder asks another process, so nothing wakes the waiters of this one. */
  function two() {
    const { time, locks: here, newProcess } = serviceOnTable({ alone: false });
    const there = newProcess();
    const ask = (context: typeof here, owner: string, more: Partial<AcquireRequest>) =>
      acquire(context, key, { leaseId: leaseOf(owner), owner, leaseMs: 10_000, waitMs: 0, ...more });
    return { time, here, there, ask };
  }

  it('finds its grant', async () => {
    const { time, here, there, ask } = two();
    await ask(there, 'holder', {});
    const waiting = watched(ask(here, 'waiter', { waitMs: 60_000 }));
    await time.advance(1_000);
    await release(there, key, { leaseId: leaseOf('holder') });
    await time.advance(1_000);
    expect(waiting.done).toBe(true);
    expect((await waiting.promise).answer.kind).toBe('granted');
  });

  it('takes over a lease that has expired', async () => {
    const { time, here, there, ask } = two();
    await ask(there, 'holder', {});
    const waiting = watched(ask(here, 'waiter', { waitMs: 60_000 }));
    await time.advance(10_000 + lockLimits.graceMs - 1);
    expect(waiting.done).toBe(false);
    await time.advance(1_000);
    expect(waiting.done).toBe(true);
    expect((await waiting.promise).answer.kind).toBe('granted');
  });
});

describe('a wait in a page', () => {
  /** A lock with a holder, a waiter in the front, and all others in pages of two. */
  async function queue(...owners: readonly string[]) {
    const { time, table, locks: context, elsewhere } = serviceOnTable({ sizes: { front: 1, page: 2 } });
    const { store, pages } = elsewhere;
    const ask = (owner: string, more: Partial<AcquireRequest> = {}, gone?: AbortSignal) =>
      acquire(context, key, { leaseId: leaseOf(owner), owner, leaseMs: 300_000, waitMs: 600_000, ...more }, gone);
    await ask('holder', { waitMs: 0 });
    for (const owner of owners) void ask(owner, { pollMs: 600_000 });
    await time.settle();
    const waitersInPages = async () => {
      const { behind } = await store.read(key);
      const numbers = behind === undefined ? [] : [behind.first, behind.last];
      const read = await pages.read([...new Set(numbers)].map((number) => ({ lock: key, number })));
      return read.flatMap(({ waiters }) => waiters);
    };
    return { time, table, store, context, ask, waitersInPages };
  }

  it('learns its page and its position when its poll ends, and takes both along', async () => {
    const { time, store, ask } = await queue('first', 'second');
    const polled = ask('third', { pollMs: 2_000 });
    await time.advance(2_000);
    const { answer } = await polled;
    expect(answer).toMatchObject({ kind: 'waiting', position: 3, waiter: { leaseId: nameOf('third') } });
    const { behind } = await store.read(key);
    expect(answer).toMatchObject({ place: behind?.first });
  });

  it('is never told a worse position than before, and writes nothing when its poll ends', async () => {
    const { time, table, ask } = await queue('first');
    const polled = ask('second', { pollMs: 2_000 });
    await time.settle();
    void ask('third', { pollMs: 600_000 });
    await time.settle();
    table.take();
    await time.advance(2_000);
    expect((await polled).answer).toMatchObject({ kind: 'waiting', position: 2 });
    expect(table.take()).toEqual([]);
  });

  it('ends in its page by one write, even if the process has forgotten where it waits', async () => {
    const { time, table, context, ask } = await queue('first', 'second');
    const waiting = ask('third', { waitMs: 5_000 });
    await time.advance(4_000);
    context.hints.forgetPage(key, nameOf('third'));
    table.take();
    await time.advance(1_000);
    expect((await waiting).answer).toEqual({ kind: 'wait-timeout', waitedMs: 5_000 });
    expect(table.take()).toEqual(['leave page', 'read']);
  });

  it('has no page any more when it is in the front', async () => {
    const { time, context, ask } = await queue('first', 'second');
    const polled = ask('third', { pollMs: 2_000 });
    await time.advance(1_000);
    await release(context, key, { leaseId: leaseOf('holder') });
    await release(context, key, { leaseId: leaseOf('first') });
    await time.advance(1_000);
    const { answer } = await polled;
    expect(answer).toMatchObject({ kind: 'waiting', position: 1 });
    expect(answer).not.toHaveProperty('place');
  });

  it('is over at its deadline, and its page does not keep it', async () => {
    const { time, ask, waitersInPages } = await queue('first', 'second');
    const waiting = ask('third', { waitMs: 5_000 });
    await time.advance(5_000);
    expect((await waiting).answer).toEqual({ kind: 'wait-timeout', waitedMs: 5_000 });
    expect((await waitersInPages()).map(({ owner }) => owner)).toEqual(['second']);
  });

  it('keeps its place in the page for a while if its caller is gone', async () => {
    const { time, ask, waitersInPages } = await queue('first', 'second');
    const gone = new AbortController();
    const waiting = ask('third', {}, gone.signal);
    await time.advance(1_000);
    gone.abort();
    await time.settle();
    await waiting;
    expect((await waitersInPages()).at(-1)?.presentUntil).toBe(time.now() + lockLimits.waiterAbsenceMs);
  });
});

describe('a wait under a session', () => {
  async function underSession() {
    const all = world();
    const { namespace } = key;
    const { sessionId } = (await createSession(all.locks, namespace, { ttlMs: 600_000, owner: 'me' })).session;
    const { sessionStore } = all.locks;
    const forgotten: unknown[] = [];
    const forgetWait = sessionStore.forgetWait.bind(sessionStore);
    sessionStore.forgetWait = (...asked) => {
      forgotten.push(asked);
      return forgetWait(...asked);
    };
    const ask = (more: object) => all.ask('waiter', { sessionId, leaseMs: undefined, waitMs: 60_000, ...more });
    return { ...all, sessionId, forgotten, askUnder: ask };
  }

  it('stays noted while it waits, and is forgotten with its own lease only', async () => {
    const { time, locks, ask, sessionId, forgotten, askUnder } = await underSession();
    await ask('holder');
    const polled = askUnder({ pollMs: 1_000 });
    await time.advance(1_000);
    expect((await polled).answer.kind).toBe('waiting');
    expect(forgotten).toEqual([]);
    const served = askUnder({});
    await time.settle();
    await release(locks, key, { leaseId: leaseOf('holder') });
    await time.advance(1);
    expect((await served).answer.kind).toBe('granted');
    const wait = { lock: key.name, leaseId: nameOf('waiter') };
    expect(forgotten).toEqual([[{ namespace: key.namespace, sessionId }, wait]]);
  });

  it('is not forgotten in any session if it has none', async () => {
    const { time, locks, ask, forgotten } = await underSession();
    await ask('holder');
    const served = ask('waiter', { waitMs: 60_000 });
    await time.settle();
    await release(locks, key, { leaseId: leaseOf('holder') });
    await time.advance(1);
    expect((await served).answer.kind).toBe('granted');
    expect(forgotten).toEqual([]);
  });

  it('is lost without another write to the lock if its session is over', async () => {
    const { time, table, locks, ask, sessionId, askUnder } = await underSession();
    await ask('holder');
    const waiting = watched(askUnder({}));
    await time.advance(10);
    await locks.sessionStore.end({ namespace: key.namespace, sessionId }, time.now());
    table.take();
    await time.advance(locks.pollMs);
    expect((await waiting.promise).answer).toEqual({ kind: 'lost', reason: 'session_lost' });
    expect(table.take().filter((name) => ['grant', 'replace', 'arrive', 'release'].includes(name))).toEqual([]);
  });

  it('has nothing to forget if it is granted at once', async () => {
    const { locks, forgotten, askUnder, sessionId } = await underSession();
    expect((await askUnder({})).answer.kind).toBe('granted');
    expect(forgotten).toEqual([]);
    expect((await locks.sessionStore.read(key.namespace, [sessionId]))[0]?.waits).toEqual([]);
  });
});
