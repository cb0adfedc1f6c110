import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { serviceOn } from '../../src/process/wiring.ts';
import { acquire } from '../../src/service/acquire.ts';
import type { LockContext } from '../../src/service/context.ts';
import { acquireAll } from '../../src/service/multi.ts';
import { createSession, endSession, keepAlive } from '../../src/service/sessions.ts';
import { decideSession, type SessionCommand } from '../../src/session/decide.ts';
import type { SessionState } from '../../src/session/state.ts';
import { SessionStore } from '../../src/store/session-store.ts';
import { epochMs } from '../../src/time/clock.ts';
import { drawn, exactOnly, freshTable } from '../support/engine.ts';
import { startOfTime } from '../support/lock-worlds.ts';
import { memoryStores } from '../support/memory-table.ts';
import { countRequests, type RequestCount } from '../support/request-count.ts';

const adapters: [string, () => Promise<SessionStore>][] = [
  ['the built-in engine', () => Promise.resolve(memoryStores().sessionStore)],
  [
    'a table',
    async () => {
      const { access } = await freshTable();
      return new SessionStore(access);
    },
  ],
];

const graceMs = 250;
const newSession = (): SessionState => ({
  sessionId: randomUUID(),
  owner: 'me',
  ttlMs: 10_000,
  createdAt: startOfTime,
  expiresAt: epochMs(startOfTime + 10_000),
  waits: [],
});

describe.each(adapters)('the session store in %s', (_name, open) => {
  let store: SessionStore;
  beforeAll(async () => {
    store = await open();
  });

  const run = (sessionId: string, { kind }: SessionCommand, now: number) => {
    const key = { namespace: 'contract', sessionId };
    const at = epochMs(now);
    if (kind === 'keepalive') return store.keepAlive(key, at);
    if (kind === 'end') return store.end(key, at);
    return store.expire(key, at, epochMs(now - graceMs));
  };

  it('follows the rules, in any order of commands', async () => {
    const commands = fc.array(
      fc.record({
        kind: fc.constantFrom('keepalive' as const, 'keepalive' as const, 'end' as const, 'expire' as const),
        afterMs: fc.constantFrom(0, 5_000, 9_999, 10_000, 10_249, 10_250, 60_000),
      }),
      { maxLength: 6 },
    );
    await fc.assert(
      fc.asyncProperty(commands, async (history) => {
        const session = newSession();
        await store.create('contract', session);
        let expected: SessionState | undefined = session;
        let now: number = startOfTime;
        for (const { kind, afterMs } of history) {
          now += afterMs;
          const { next } = decideSession(expected, { kind }, { now: epochMs(now), graceMs });
          const written = await run(session.sessionId, { kind }, now);
          expect(written.applied).toBe(next !== expected);
          expect(written.session).toEqual(next);
          expected = next;
        }
        expect(await store.read('contract', [session.sessionId, 'never-was'])).toEqual([expected, undefined]);
      }),
      { numRuns: drawn(60) },
    );
  });

  it('creates an id once', async () => {
    const session = newSession();
    expect((await store.create('contract', session)).applied).toBe(true);
    expect(await store.create('contract', { ...session, owner: 'another' })).toMatchObject({ applied: false, session });
  });

  it('stores the waits of a session while it lives, and deletes only its own entry', async () => {
    const session = newSession();
    const key = { namespace: 'contract', sessionId: session.sessionId };
    await store.create('contract', session);
    const [one, two] = [
      { lock: 'l:1', leaseId: 'lease-1' },
      { lock: 'l:2', leaseId: 'lease-2' },
    ];
    await store.noteWait(key, one);
    const noted = await store.noteWait(key, two);
    expect(noted.applied).toBe(true);
    expect(noted.session?.waits).toEqual(expect.arrayContaining([one, two]));
    await store.forgetWait(key, { lock: 'l:1', leaseId: 'somebody else' });
    await store.forgetWait(key, two);
    expect((await store.read('contract', [session.sessionId]))[0]?.waits).toEqual([one]);
    await store.end(key, startOfTime);
    expect((await store.noteWait(key, two)).applied).toBe(false);
  });

  it('keeps one note per lock, that of the lease that came last', async () => {
    const session = newSession();
    const key = { namespace: 'contract', sessionId: session.sessionId };
    await store.create('contract', session);
    await store.noteWait(key, { lock: 'l:1', leaseId: 'lease-1' });
    await store.noteWait(key, { lock: 'l:1', leaseId: 'lease-2' });
    expect((await store.read('contract', [session.sessionId]))[0]?.waits).toEqual([
      { lock: 'l:1', leaseId: 'lease-2' },
    ]);
  });

  it('forgets only the named lock of a lease that waits for several', async () => {
    const session = newSession();
    const key = { namespace: 'contract', sessionId: session.sessionId };
    await store.create('contract', session);
    await store.noteWait(key, { lock: 'l:1', leaseId: 'lease-1' });
    await store.noteWait(key, { lock: 'l:2', leaseId: 'lease-1' });
    await store.forgetWait(key, { lock: 'l:1', leaseId: 'lease-1' });
    expect((await store.read('contract', [session.sessionId]))[0]?.waits).toEqual([
      { lock: 'l:2', leaseId: 'lease-1' },
    ]);
  });

  it('makes no session of a wait, a keepalive or an end', async () => {
    const key = { namespace: 'contract', sessionId: randomUUID() };
    const wait = { lock: 'l:1', leaseId: 'lease-1' };
    const refused = { applied: false, session: undefined };
    expect(await store.noteWait(key, wait)).toMatchObject(refused);
    await store.forgetWait(key, wait);
    expect(await store.keepAlive(key, startOfTime)).toMatchObject(refused);
    expect(await store.end(key, startOfTime)).toMatchObject(refused);
    expect(await store.expire(key, startOfTime, startOfTime)).toMatchObject(refused);
    expect(await store.read('contract', [key.sessionId])).toEqual([undefined]);
  });

  it('finds the locks of which the session holds a part', async () => {
    const key = { namespace: 'contract', sessionId: randomUUID() };
    await store.notePart(key, 'semaphore:1', startOfTime);
    await store.notePart(key, 'semaphore:1', startOfTime);
    await store.notePart(key, 'semaphore:2', startOfTime);
    expect((await store.locksOf(key)).sort()).toEqual(['semaphore:1', 'semaphore:2']);
    expect(await store.locksOf({ ...key, namespace: 'other' })).toEqual([]);
  });
});

describe('requests to the store', exactOnly('counts requests'), () => {
  let context: LockContext;
  let sent: RequestCount;
  beforeAll(async () => {
    const { client, access } = await freshTable();
    sent = countRequests(client);
    context = serviceOn({ access, alone: true, engine: 'test' }).locks;
    sent.take();
  });
  const ask = (more: object = {}) => ({ leaseId: randomUUID(), owner: 'me', leaseMs: 600_000, waitMs: 0, ...more });

  it('are one write for a keepalive, for any number of locks', async () => {
    const { session } = await createSession(context, 'count', { ttlMs: 600_000, owner: 'me' });
    const key = { namespace: 'count', sessionId: session.sessionId };
    expect(sent.take()).toEqual({ reads: 0, writes: 1 });
    for (let index = 0; index < 20; index++) {
      await acquire(context, { namespace: 'count', name: randomUUID() }, ask({ sessionId: session.sessionId }));
      expect(sent.take()).toEqual({ reads: 1, writes: 1 });
    }
    expect(await keepAlive(context, key)).toBeDefined();
    expect(sent.take()).toEqual({ reads: 0, writes: 1 });
    expect(await endSession(context, key)).toEqual({ ended: true, released: 20 });
  });

  it.each([2, 50])('are two for a try of %i locks', async (count) => {
    const entries = Array.from({ length: count }, () => ({ name: randomUUID() }));
    sent.take();
    const outcome = await acquireAll(context, 'count', { entries, leaseId: randomUUID(), owner: 'me', waitMs: 0 });
    expect(outcome.kind).toBe('granted');
    expect(sent.take()).toEqual({ reads: 1, writes: 1 });
  });
});
