import { describe, expect, it } from 'vitest';
import { keepAlive } from '../../../src/service/sessions.ts';
import { memoryService } from '../../../src/testing/memory-service.ts';
import { Twin } from '../../../src/testing/twin.ts';
import { seededRandom, VirtualTime } from '../../../src/testing/virtual-time.ts';

describe('the end of a session', () => {
  it('grants its locks to their waiters at once, long before the session would have expired', async () => {
    const twin = new Twin();
    const [one, other] = [twin.client(), twin.client()];
    const session = await one.session({ ttlMs: 600_000 });
    await session.acquire('wallet:42');
    const waiting = other.acquire('wallet:42', { waitMs: 60_000 });
    await twin.advance(1_000);
    const endedAt = twin.now();
    await session.end();
    const held = await twin.until(waiting);
    expect(held.isHeld()).toBe(true);
    expect(twin.now() - endedAt).toBeLessThan(100);
  });
});

describe('keepalive', () => {
  it('of an open session is answered as alive even if a later one came first', async () => {
    const time = new VirtualTime();
    const { service } = memoryService(time, seededRandom(1), () => {});
    const { locks } = service;
    const sessionId = locks.newSessionId();
    const now = time.now();
    const state = { sessionId, owner: 'me', ttlMs: 5_000, createdAt: now, expiresAt: now, waits: [] };
    await locks.sessionStore.create('test', { ...state, expiresAt: (now + 60_000) as typeof now });
    const open = await keepAlive(locks, { namespace: 'test', sessionId });
    expect(open?.session.expiresAt).toBe(now + 60_000);
  });
});
