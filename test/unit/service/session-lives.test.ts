import { describe, expect, it } from 'vitest';
import { SessionLives } from '../../../src/service/session-lives.ts';
import { epochMs } from '../../../src/time/clock.ts';
import { memoryStores, outOfReach } from '../../support/memory-table.ts';

const now = epochMs(1_800_000_000_000);

async function crowd(count: number) {
  const { table, elsewhere, sessionStore: store } = memoryStores();
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
  const reads = () => table.take().filter((name) => name.endsWith('Item session')).length;
  reads();
  return { store, table, elsewhere, reads, ids, lives: new SessionLives({ store, graceMs: 250 }) };
}

describe('the lives of sessions', () => {
  it('are read once per moment, even if many ask', async () => {
    const { reads, ids, lives } = await crowd(30);
    const looks = await Promise.all(ids.map(() => lives.lately('test', ids, now)));
    await lives.lately('test', ids, epochMs(now + 99));
    expect(reads()).toBe(1);
    expect(looks.every((facts) => ids.every((id) => facts.get(id)?.alive))).toBe(true);
    await lives.lately('test', ids, epochMs(now + 100));
    expect(reads()).toBe(1);
  });

  it('are read each time for a decision', async () => {
    const { store, ids, lives } = await crowd(3);
    await lives.lately('test', ids, now);
    await store.end({ namespace: 'test', sessionId: 'session-1' }, now);
    expect((await lives.of('test', ids, now)).get('session-1')).toMatchObject({ alive: false });
  });

  it('are read again after a read that failed', async () => {
    const { table, ids, lives } = await crowd(1);
    table.meddle('GetItem session', outOfReach, 1);
    await expect(lives.lately('test', ids, now)).rejects.toMatchObject({ code: 'unavailable' });
    expect((await lives.lately('test', ids, now)).get('session-0')).toMatchObject({ alive: true });
  });

  it('are kept apart by namespace, and no session is read if none is asked for', async () => {
    const { reads, ids, lives } = await crowd(1);
    expect((await lives.lately('test', ids, now)).get('session-0')).toMatchObject({ alive: true });
    expect((await lives.lately('other', ids, now)).get('session-0')).toMatchObject({ alive: false });
    reads();
    expect(await lives.lately('test', [], now)).toEqual(new Map());
    expect(await lives.lately('test', ids, now)).toHaveProperty('size', 1);
    expect(reads()).toBe(0);
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
    const { table, elsewhere, ids, lives } = await crowd(1);
    const session = { namespace: 'test', sessionId: 'session-0' };
    // The keepalive was sent before the end. Its sender has another clock.
    table.beforeNext('expire session', () => elsewhere.sessionStore.keepAlive(session, epochMs(now + 29_999)));
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
