/** How sessions and waits affect each other, in the use cases. */
import { describe, expect, it } from 'vitest';
import { acquire } from '../../../src/service/acquire.ts';
import type { LockContext } from '../../../src/service/context.ts';
import { release } from '../../../src/service/lease.ts';
import { createSession, endSession } from '../../../src/service/sessions.ts';
import { publicSessionId } from '../../../src/session/public-id.ts';
import { sessionLimits } from '../../../src/session/state.ts';
import { leaseNameOf } from '../../../src/table/digest.ts';
import { serviceOnTable } from './world.ts';

const namespace = 'test';

function world() {
  const service = serviceOnTable();
  const { locks } = service;
  const open = async (owner: string) =>
    (await createSession(locks, namespace, { ttlMs: 600_000, owner })).session.sessionId;
  const take = (name: string, owner: string, more: object = {}, context: LockContext = locks) =>
    acquire(context, { namespace, name }, { leaseId: `lease-of-${owner}-${name}-0`, owner, waitMs: 0, ...more });
  return { ...service, open, take };
}

const parked = { waitMs: 3_600_000, notify: { type: 'event' as const, ref: 'somebody' } };

describe('the end of a session', () => {
  it('grants to waiters behind its own waits, even if nobody polls and nothing is released', async () => {
    const { locks, open, take } = world();
    const sessionId = await open('ending');
    await take('gate', 'holder', { limit: 2, permits: 1 });
    // Wants more permits than are free, so that the waiter behind it has to wait too.
    await take('gate', 'ending', { limit: 2, permits: 2, sessionId, ...parked });
    await take('gate', 'behind', { limit: 2, permits: 1, ...parked });
    await endSession(locks, { namespace, sessionId });
    const { holders, queue } = await locks.store.read({ namespace, name: 'gate' });
    expect(holders.map(({ owner }) => owner)).toEqual(['holder', 'behind']);
    expect(queue).toEqual([]);
  });
});

describe('a wait under a session that is over', () => {
  const queueOf = async ({ store }: LockContext) => (await store.read({ namespace, name: 'gate' })).queue;

  it('leaves no place behind', async () => {
    const { locks, open, take } = world();
    const sessionId = await open('ended');
    await endSession(locks, { namespace, sessionId });
    await take('gate', 'holder');
    expect(await take('gate', 'ended', { sessionId, ...parked })).toMatchObject({
      answer: { kind: 'lost', reason: 'session_lost' },
    });
    expect(await queueOf(locks)).toEqual([]);
  });

  it('leaves none behind either if the session ends while its wait is noted', async () => {
    const { time, table, locks, elsewhere, open, take } = world();
    const sessionId = await open('ending');
    await take('gate', 'holder');
    table.beforeNext('note wait of session', () => elsewhere.sessionStore.end({ namespace, sessionId }, time.now()));
    expect(await take('gate', 'ending', { sessionId, ...parked })).toMatchObject({
      answer: { kind: 'lost', reason: 'session_lost' },
    });
    expect(await queueOf(locks)).toEqual([]);
  });
});

describe('a request under a session', () => {
  it('knows the end of its session, and notes the part of a lock that it takes', async () => {
    const { time, table, locks, open, take } = world();
    const sessionId = await open('me');
    const { answer, facts } = await take('gate', 'me', { sessionId });
    expect(answer).toMatchObject({ kind: 'granted' });
    expect(facts.sessions?.get(sessionId)).toEqual({ alive: true, expiresAt: time.now() + 600_000 });
    const isNoted = () => table.take().includes('PutItem part');
    expect(isNoted(), 'a whole lock is found by the index').toBe(false);
    await take('rooms', 'me', { sessionId, limit: 2, permits: 1 });
    expect(isNoted()).toBe(true);
    expect((await locks.sessionStore.locksOf({ namespace, sessionId })).sort()).toEqual(['gate', 'rooms']);
  });

  it('is refused without another write if its session is over and the lock is held', async () => {
    const { locks, open, take } = world();
    const sessionId = await open('ended');
    await endSession(locks, { namespace, sessionId });
    await take('gate', 'holder');
    const before = await locks.store.read({ namespace, name: 'gate' });
    expect(await take('gate', 'ended', { sessionId })).toMatchObject({ answer: { reason: 'session_lost' } });
    expect(await locks.store.read({ namespace, name: 'gate' })).toEqual(before);
  });

  it('gives back at once what it was granted if its session is over', async () => {
    const { table, locks, open, take } = world();
    const sessionId = await open('ended');
    await endSession(locks, { namespace, sessionId });
    table.take();
    expect(await take('gate', 'ended', { sessionId })).toMatchObject({ answer: { reason: 'session_lost' } });
    expect(table.take().filter((name) => !name.endsWith('Item session'))).toEqual(['grant', 'release']);
    expect((await locks.store.read({ namespace, name: 'gate' })).holders).toEqual([]);
  });

  it('knows the session of the holder too, and sends no release for what it did not get', async () => {
    const { table, locks, open, take } = world();
    const [mine, theirs, over] = [await open('me'), await open('they'), await open('ended')];
    await take('gate', 'they', { sessionId: theirs });
    const { answer, facts } = await take('gate', 'me', { sessionId: mine });
    expect(answer.kind).toBe('held');
    expect([...(facts.sessions?.keys() ?? [])].sort()).toEqual([mine, theirs].sort());
    await endSession(locks, { namespace, sessionId: over });
    table.take();
    await take('gate', 'ended', { sessionId: over });
    expect(table.take().filter((name) => !name.endsWith('Item session'))).toEqual(['grant']);
  });

  it('notes its wait under the session, and forgets it when it is granted', async () => {
    const { time, locks, open, take } = world();
    const sessionId = await open('waiting');
    await take('gate', 'holder');
    const waitsOf = async () => (await locks.sessionStore.read(namespace, [sessionId]))[0]?.waits;
    const waiting = take('gate', 'waiting', { sessionId, waitMs: 60_000 });
    await time.advance(10);
    expect(await waitsOf()).toEqual([{ lock: 'gate', leaseId: leaseNameOf('lease-of-waiting-gate-0') }]);
    await release(locks, { namespace, name: 'gate' }, { leaseId: 'lease-of-holder-gate-0' });
    expect(await waiting).toMatchObject({ answer: { kind: 'granted' } });
    expect(await waitsOf()).toEqual([]);
  });

  it('is lost if its session ends while it waits', async () => {
    const { time, locks, open, take } = world();
    const sessionId = await open('ending');
    await take('gate', 'holder');
    const waiting = take('gate', 'ending', { sessionId, waitMs: 60_000 });
    await time.advance(10);
    await endSession(locks, { namespace, sessionId });
    await time.advance(100);
    expect(await waiting).toMatchObject({ answer: { kind: 'lost', reason: 'session_lost' } });
  });
});

describe('the waits of one session', () => {
  const { waitsMax } = sessionLimits;

  /** A session that waits for as many locks as it may. */
  async function full() {
    const { locks, open, take } = world();
    const sessionId = await open('waiting');
    const key = (index: number) => ({ namespace, name: `gate-${index}` });
    for (let index = 0; index <= waitsMax; index++) await take(`gate-${index}`, 'holder');
    const wait = (index: number) => take(`gate-${index}`, 'waiting', { sessionId, ...parked });
    for (let index = 0; index < waitsMax; index++) expect((await wait(index)).answer.kind).toBe('waiting');
    const noted = async () => (await locks.sessionStore.read(namespace, [sessionId]))[0]?.waits.length;
    const queueOf = async (index: number) => (await locks.store.read(key(index))).queue.length;
    const releaseHolder = (index: number) => release(locks, key(index), { leaseId: `lease-of-holder-gate-${index}-0` });
    return { wait, noted, queueOf, releaseHolder };
  }

  it('are limited, and one too many leaves neither a place nor a note', async () => {
    const { wait, noted, queueOf } = await full();
    expect((await wait(waitsMax)).answer).toEqual({ kind: 'too-many-waits' });
    expect([await noted(), await queueOf(waitsMax)]).toEqual([waitsMax, 0]);
    expect((await wait(0)).answer.kind, 'a wait that is not new goes on').toBe('waiting');
  });

  it('count only while they last, even if nobody removed the notes of parked waits', async () => {
    const { wait, noted, queueOf, releaseHolder } = await full();
    await releaseHolder(0);
    await releaseHolder(1);
    expect(await noted()).toBe(waitsMax);
    expect((await wait(waitsMax)).answer.kind).toBe('waiting');
    expect([await noted(), await queueOf(waitsMax)]).toEqual([waitsMax - 1, 1]);
  });
});

describe('a deadlock', () => {
  const cycleOf = ({ answer }: Awaited<ReturnType<ReturnType<typeof world>['take']>>) =>
    answer.kind === 'deadlock' ? JSON.parse(answer.cycle) : answer.kind;

  it('of two sessions ends the younger wait, tells it the cycle from its own step on, and the other is granted', async () => {
    const { time, locks, open, take } = world();
    const [one, other] = [await open('one'), await open('other')];
    await take('a', 'one', { sessionId: one });
    await take('b', 'other', { sessionId: other });
    const older = take('b', 'one', { sessionId: one, waitMs: 60_000 });
    await time.advance(10);
    const younger = take('a', 'other', { sessionId: other, waitMs: 60_000 });
    await time.advance(10);
    const expected = [
      { sessionId: publicSessionId(other), owner: 'other', waitsFor: 'a' },
      { sessionId: publicSessionId(one), owner: 'one', waitsFor: 'b' },
    ];
    expect(cycleOf(await younger)).toEqual(expected);
    await release(locks, { namespace, name: 'b' }, { leaseId: 'lease-of-other-b-0' });
    expect(await older).toMatchObject({ answer: { kind: 'granted' } });
  });

  it('ends the younger wait also if the older one finds it', async () => {
    const { time, table, locks, open, take } = world();
    const [one, other] = [await open('one'), await open('other')];
    await take('a', 'one', { sessionId: one });
    let noted = () => {};
    // The older wait is noted late, so it closes the cycle.
    table.beforeNext('note wait of session', () => new Promise<void>((resolve) => (noted = resolve)));
    await take('b', 'other', { sessionId: other });
    const older = take('b', 'one', { sessionId: one, waitMs: 60_000 });
    await time.advance(10);
    const younger = take('a', 'other', { sessionId: other, waitMs: 60_000 });
    await time.advance(10);
    noted();
    await time.advance(10);
    expect(cycleOf(await younger)).toMatchObject([{ waitsFor: 'a' }, { waitsFor: 'b' }]);
    await release(locks, { namespace, name: 'b' }, { leaseId: 'lease-of-other-b-0' });
    expect(await older).toMatchObject({ answer: { kind: 'granted' } });
  });

  it('is no deadlock if a session in the cycle has ended', async () => {
    const { time, locks, open, take } = world();
    const [one, other] = [await open('one'), await open('other')];
    await take('a', 'one', { sessionId: one });
    await take('b', 'other', { sessionId: other });
    void take('b', 'one', { sessionId: one, waitMs: 60_000 });
    await time.advance(10);
    await endSession(locks, { namespace, sessionId: one });
    expect(await take('a', 'other', { sessionId: other, waitMs: 60_000 })).toMatchObject({
      answer: { kind: 'granted' },
    });
  });

  it('that is gone at the second look ends no wait', async () => {
    const { time, locks, open, take } = world();
    const [one, other] = [await open('one'), await open('other')];
    await take('a', 'one', { sessionId: one });
    await take('b', 'other', { sessionId: other });
    const waiting = take('b', 'one', { sessionId: one, waitMs: 60_000 });
    await time.advance(10);
    // Each look reads two locks. The waiter is granted before the second look begins.
    let looks = 0;
    const { store } = locks;
    const meddled: LockContext = {
      ...locks,
      store: new Proxy(store, {
        get: (target, name: keyof typeof store) => {
          if (name !== 'readMany') return (target[name] as (...args: unknown[]) => unknown).bind(target);
          return async (keys: Parameters<typeof store.readMany>[0]) => {
            looks += 1;
            if (looks === 3) await release(locks, { namespace, name: 'b' }, { leaseId: 'lease-of-other-b-0' });
            return store.readMany(keys);
          };
        },
      }),
    };
    const second = take('a', 'other', { sessionId: other, waitMs: 60_000 }, meddled);
    await time.advance(1_000);
    expect(looks).toBeGreaterThanOrEqual(3);
    expect(await waiting).toMatchObject({ answer: { kind: 'granted' } });
    await release(locks, { namespace, name: 'a' }, { leaseId: 'lease-of-one-a-0' });
    await time.advance(1_000);
    expect(await second).toMatchObject({ answer: { kind: 'granted' } });
  });

  it('of many sessions is told to its victim in few bytes, and shows no session id', async () => {
    const { time, open, take } = world();
    const ids: string[] = [];
    const owners = Array.from({ length: 12 }, (_, index) => `${index} ${'ö'.repeat(100)}`);
    for (const [index, owner] of owners.entries()) {
      ids.push(await open(owner));
      await take(`lock-${index}`, `${index}`, { owner, sessionId: ids[index] });
    }
    let last: ReturnType<typeof take> | undefined;
    for (const [index, owner] of owners.entries()) {
      const name = `lock-${(index + 1) % owners.length}`;
      last = take(name, `${index}`, { owner, sessionId: ids[index], waitMs: 60_000 });
      await time.advance(10);
    }
    await time.advance(1_000);
    const answer = (await last)?.answer ?? { kind: 'done' };
    const cycle = answer.kind === 'deadlock' ? answer.cycle : '';
    expect(Buffer.byteLength(cycle)).toBeLessThanOrEqual(2_048);
    // It begins with the victim. In the middle, steps are left out.
    expect(JSON.parse(cycle)).toMatchObject([
      { owner: owners.at(-1), waitsFor: 'lock-0' },
      { owner: owners.at(-2), waitsFor: `lock-${owners.length - 1}` },
    ]);
    for (const id of ids) expect(cycle).not.toContain(id);
  });
});
