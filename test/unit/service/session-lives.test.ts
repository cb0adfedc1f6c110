import { describe, expect, it } from 'vitest';
import { SessionLives } from '../../../src/service/session-lives.ts';
import { MemorySessionStore } from '../../../src/store/memory/session-store.ts';
import { epochMs } from '../../../src/time/clock.ts';

const now = epochMs(1_800_000_000_000);

class CountedSessions extends MemorySessionStore {
  reads = 0;
  failure: Error | undefined;

  override read(namespace: string, sessionIds: readonly string[]) {
    this.reads += sessionIds.length;
    return this.failure === undefined ? super.read(namespace, sessionIds) : Promise.reject(this.failure);
  }
}

async function crowd(count: number) {
  const store = new CountedSessions();
  const ids = Array.from({ length: count }, (_, index) => `session-${index}`);
  for (const sessionId of ids) {
    const session = {
      sessionId,
      owner: 'me',
      ttlMs: 30_000,
      createdAt: now,
      expiresAt: epochMs(now + 30_000),
      waits: [],
    };
    await store.create('test', session);
  }
  return { store, ids, lives: new SessionLives({ store, graceMs: 250 }) };
}

describe('the lives of sessions', () => {
  it('are read once per moment, even if many ask', async () => {
    const { store, ids, lives } = await crowd(30);
    const looks = await Promise.all(ids.map(() => lives.lately('test', ids, now)));
    await lives.lately('test', ids, epochMs(now + 99));
    expect(store.reads).toBe(ids.length);
    expect(looks.every((facts) => ids.every((id) => facts.get(id)?.alive))).toBe(true);
    await lives.lately('test', ids, epochMs(now + 100));
    expect(store.reads).toBe(2 * ids.length);
  });

  it('are read each time for a decision', async () => {
    const { store, ids, lives } = await crowd(3);
    await lives.lately('test', ids, now);
    await store.end({ namespace: 'test', sessionId: 'session-1' }, now);
    expect((await lives.of('test', ids, now)).get('session-1')).toMatchObject({ alive: false });
  });

  it('are read again after a read that failed', async () => {
    const { store, ids, lives } = await crowd(1);
    store.failure = new Error('out of reach');
    await expect(lives.lately('test', ids, now)).rejects.toThrow('out of reach');
    store.failure = undefined;
    expect((await lives.lately('test', ids, now)).get('session-0')).toMatchObject({ alive: true });
  });

  it('are kept apart by namespace, and no session is read if none is asked for', async () => {
    const { store, ids, lives } = await crowd(1);
    expect((await lives.lately('test', ids, now)).get('session-0')).toMatchObject({ alive: true });
    expect((await lives.lately('other', ids, now)).get('session-0')).toMatchObject({ alive: false });
    const { reads } = store;
    const asked: unknown[] = [];
    store.read = async (...session) => {
      asked.push(session);
      return [];
    };
    expect(await lives.lately('test', [], now)).toEqual(new Map());
    expect(await lives.lately('test', ids, now)).toHaveProperty('size', 1);
    expect([store.reads, asked]).toEqual([reads, []]);
  });

  it('end after the grace, and the end is written before it is reported', async () => {
    const { store, ids, lives } = await crowd(1);
    const endsAt = now + 30_000;
    const factAt = async (at: number) => (await lives.of('test', ids, epochMs(at))).get('session-0');
    const stored = async () => (await store.read('test', ids))[0]?.ended;
    expect(await factAt(endsAt + 249)).toEqual({ alive: true, expiresAt: endsAt });
    expect(await stored()).toBeUndefined();
    expect(await factAt(endsAt + 250)).toEqual({ alive: false, endedAt: endsAt + 250, how: 'expired' });
    expect(await stored()).toEqual({ at: endsAt + 250, how: 'expired' });
    // From now on, a clock that is behind sees the end too.
    expect(await factAt(now)).toMatchObject({ alive: false, how: 'expired' });
  });

  it('go on if a keepalive came between the read and the write of the end', async () => {
    const { store, ids, lives } = await crowd(1);
    const session = { namespace: 'test', sessionId: 'session-0' };
    const { expire } = store;
    store.expire = async (...asked) => {
      // The keepalive was sent before the end. Its sender has another clock.
      await store.keepAlive(session, epochMs(now + 29_999));
      return expire.apply(store, asked);
    };
    const facts = await lives.of('test', ids, epochMs(now + 30_250));
    expect(facts.get('session-0')).toEqual({ alive: true, expiresAt: now + 59_999 });
  });

  it('are over for a session that nobody knows', async () => {
    const { lives } = await crowd(0);
    for (const facts of [await lives.of('test', ['gone'], now), await lives.lately('test', ['gone'], now)]) {
      expect(facts.get('gone')).toEqual({ alive: false, endedAt: 0, how: 'ended' });
    }
  });
});
