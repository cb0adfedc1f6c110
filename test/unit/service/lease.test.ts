/** What a holder and an operator do with a lease. */
import { describe, expect, it } from 'vitest';
import { acquire } from '../../../src/service/acquire.ts';
import { release, renew, revoke } from '../../../src/service/lease.ts';
import { memoryService } from '../../../src/testing/memory-service.ts';
import { seededRandom, VirtualTime } from '../../../src/testing/virtual-time.ts';
import { key } from './world.ts';

const leaseId = 'lease-of-the-holder';

async function held() {
  const time = new VirtualTime();
  const { locks } = memoryService(time, seededRandom(1), () => {}).service;
  const { state } = await acquire(locks, key, { leaseId, owner: 'holder', leaseMs: 10_000, waitMs: 0 });
  const expiresAt = async () => (await locks.store.read(key)).holders[0]?.expiresAt;
  return { time, locks, fence: state.fence, expiresAt };
}

describe('a renewal', () => {
  it('lasts as long as the lease, or as long as asked, and keeps the fence', async () => {
    const { time, locks, fence, expiresAt } = await held();
    await time.advance(5_000);
    const { answer } = await renew(locks, key, { leaseId });
    expect(answer).toMatchObject({ kind: 'granted', holder: { fence } });
    expect(await expiresAt()).toBe(time.now() + 10_000);
    await renew(locks, key, { leaseId, leaseMs: 60_000 });
    expect(await expiresAt()).toBe(time.now() + 60_000);
  });

  it('is refused to another lease', async () => {
    const { locks, expiresAt } = await held();
    const before = await expiresAt();
    expect((await renew(locks, key, { leaseId: 'lease-of-another' })).answer.kind).toBe('lost');
    expect(await expiresAt()).toBe(before);
  });
});

describe('a release', () => {
  it('ends the lease, and a renewal does not bring it back', async () => {
    const { locks, expiresAt } = await held();
    expect((await release(locks, key, { leaseId })).answer).toEqual({ kind: 'released', reason: 'ok' });
    expect((await renew(locks, key, { leaseId })).answer).toEqual({ kind: 'lost', reason: 'released' });
    expect(await expiresAt()).toBeUndefined();
  });
});

describe('a revocation', () => {
  it('ends the lease with that fence, and no other', async () => {
    const { locks, fence, expiresAt } = await held();
    await revoke(locks, key, { fence: fence - 1, reason: 'by hand' });
    expect(await expiresAt()).toBeDefined();
    await revoke(locks, key, { fence, reason: 'by hand' });
    expect(await expiresAt()).toBeUndefined();
    expect((await renew(locks, key, { leaseId })).answer).toMatchObject({ kind: 'lost', reason: 'revoked' });
  });
});
