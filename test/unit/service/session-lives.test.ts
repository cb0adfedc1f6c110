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
});
