/** A session and the locks under it. */
import { describe, expect, it } from 'vitest';
import { acquire } from '../../../src/service/acquire.ts';
import { createSession, endSession, inspectSession, keepAlive } from '../../../src/service/sessions.ts';
import { memoryService } from '../../../src/testing/memory-service.ts';
import { seededRandom, VirtualTime } from '../../../src/testing/virtual-time.ts';

const namespace = 'test';
const ttlMs = 30_000;

async function world() {
  const time = new VirtualTime();
  const { locks } = memoryService(time, seededRandom(1), () => {}).service;
  const { session } = await createSession(locks, namespace, { ttlMs, owner: 'me' });
  const key = { namespace, sessionId: session.sessionId };
  const take = (name: string, owner = 'me', more: object = { sessionId: key.sessionId }) =>
    acquire(locks, { namespace, name }, { leaseId: `lease-of-${owner}-${name}-0000`, owner, waitMs: 0, ...more });
  const holdersOf = async (name: string) =>
    (await locks.store.read({ namespace, name })).holders.map(({ owner }) => owner);
  return { time, locks, session, key, take, holdersOf };
}

describe('a session', () => {
  it('begins with its whole time, and each keepalive gives it that time again', async () => {
    const { time, locks, session, key } = await world();
    expect(session).toEqual({
      sessionId: key.sessionId,
      owner: 'me',
      ttlMs,
      createdAt: time.now(),
      expiresAt: time.now() + ttlMs,
      waits: [],
    });
    await time.advance(10_000);
    const kept = await keepAlive(locks, key);
    expect(kept).toMatchObject({ now: time.now(), session: { expiresAt: time.now() + ttlMs } });
  });

  it('can not be kept alive from the instant of its end on', async () => {
    const { time, locks, key } = await world();
    await time.advance(ttlMs - 1);
    expect(await keepAlive(locks, key)).toBeDefined();
    await time.advance(ttlMs);
    expect(await keepAlive(locks, key)).toBeUndefined();
    expect(await keepAlive(locks, { ...key, sessionId: 'unknown' })).toBeUndefined();
  });

  it('shows the locks that it holds, and none that others hold', async () => {
    const { time, locks, key, take } = await world();
    const held = await take('a');
    await take('b', 'they', { leaseMs: 60_000 });
    await take('rooms', 'they', { leaseMs: 60_000, limit: 3 });
    const room = await take('rooms', 'me', { sessionId: key.sessionId, limit: 3 });
    const fences = [held, room].map(({ state }) => state.fence);
    expect(await inspectSession(locks, key)).toMatchObject({
      now: time.now(),
      session: { owner: 'me' },
      held: expect.toSatisfy(
        (shown: { lock: string; fence: number }[]) =>
          shown.length === 2 &&
          shown.some(({ lock, fence }) => lock === 'a' && fence === fences[0]) &&
          shown.some(({ lock, fence }) => lock === 'rooms' && fence === fences[1]),
      ),
    });
  });

  it.each([
    ['its time is over', ({ time }: Awaited<ReturnType<typeof world>>) => time.advance(ttlMs)],
    ['it was ended', ({ locks, key }: Awaited<ReturnType<typeof world>>) => endSession(locks, key)],
  ])('is not shown if %s', async (_why, end) => {
    const here = await world();
    await here.time.advance(0);
    expect(await inspectSession(here.locks, here.key)).toBeDefined();
    await end(here);
    expect(await inspectSession(here.locks, here.key)).toBeUndefined();
  });
});

describe('the end of a session', () => {
  it('grants each of its locks to the next waiter at once, and says how many it held', async () => {
    const { time, locks, key, take, holdersOf } = await world();
    const names = Array.from({ length: 20 }, (_, index) => `lock-${index}`);
    for (const name of names) {
      await take(name);
      void take(name, 'they', { leaseMs: 60_000, waitMs: 60_000 });
      await time.settle();
    }
    expect(await endSession(locks, key)).toEqual({ ended: true, released: 20 });
    for (const name of names) expect(await holdersOf(name)).toEqual(['they']);
  });

  it('frees a lock for its waiters that was taken while it ended', async () => {
    const { time, locks, key, take, holdersOf } = await world();
    const { sessionStore } = locks;
    const end = sessionStore.end.bind(sessionStore);
    sessionStore.end = async (...asked) => {
      await take('late');
      void take('late', 'they', { leaseMs: 60_000, waitMs: 60_000 });
      await time.settle();
      return end(...asked);
    };
    expect(await endSession(locks, key)).toEqual({ ended: true, released: 0 });
    expect(await holdersOf('late')).toEqual(['they']);
  });

  it('is not reported twice, and a session that never was has no end', async () => {
    const { locks, key } = await world();
    await endSession(locks, key);
    expect(await endSession(locks, key)).toEqual({ ended: false, released: 0 });
    expect(await endSession(locks, { ...key, sessionId: 'unknown' })).toEqual({ ended: false, released: 0 });
  });

  it.each([
    ['ended', 'its own first try ended it', { ended: true, released: 1 }],
    ['expired', 'its time was over', { ended: false, released: 0 }],
  ] as const)('that finds the session %s after a lost answer knows that %s', async (how, _why, outcome) => {
    const { locks, key, take, session } = await world();
    await take('a');
    const { sessionStore } = locks;
    const ended = { ...session, ended: { how, at: locks.clock.now() } };
    sessionStore.end = async () => ({ applied: false, session: ended, perhapsMine: true });
    expect(await endSession(locks, key)).toEqual(outcome);
  });
});
