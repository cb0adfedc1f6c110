import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, it } from 'vitest';
import { lockLimits } from '../../src/lock/limits.ts';
import { LockStore } from '../../src/queue/lock-store.ts';
import { queueSizes } from '../../src/queue/pages.ts';
import { SessionStore } from '../../src/store/session-store.ts';
import { type EpochMs, epochMs } from '../../src/time/clock.ts';
import { freshTable } from '../support/engine.ts';
import { acquireOf, startOfTime } from '../support/lock-worlds.ts';
import { memoryStores } from '../support/memory-table.ts';

let store: LockStore;
let sessions: SessionStore;
beforeAll(async () => {
  const { access } = await freshTable();
  store = new LockStore(access);
  sessions = new SessionStore(access);
});

const inMs = (ms: number) => epochMs(startOfTime + ms);
const factsAt = (now: EpochMs) => ({ now, graceMs: lockLimits.graceMs });
const mine = 'lease-mine-0000000';

async function heldLock() {
  const key = { namespace: 'late', name: randomUUID() };
  const { state } = await store.attempt(key, acquireOf(mine), factsAt(startOfTime));
  return { key, state };
}

describe('a direct hand-off', () => {
  it('is refused if the first waiter is gone, so the rules drop it', async () => {
    const { key, state } = await heldLock();
    const goneAt = inMs(1_000);
    const waiter = {
      leaseId: 'lease-gone-0000000',
      owner: 'gone',
      permits: state.limit,
      leaseMs: 5_000,
      queuedAt: startOfTime,
      deadlineAt: inMs(60_000),
      presentUntil: goneAt,
    };
    expect(
      (await store.write(key, { kind: 'arrive', waiter, limit: state.limit, frontLengthMax: queueSizes.front }))
        .applied,
    ).toBe(true);
    const release = { kind: 'release' as const, leaseId: mine };
    expect((await store.attempt(key, release, factsAt(goneAt))).applied).toBe(false);
    const inTime = await store.attempt(key, release, factsAt(inMs(999)));
    const fence = state.fence + 1;
    expect(inTime.state).toMatchObject({ fence, queue: [], holders: [{ leaseId: 'lease-gone-0000000', fence }] });
  });
});

describe('a direct renewal', () => {
  it('that arrives late does not shorten a later one', async () => {
    const { key } = await heldLock();
    const renew = { kind: 'renew' as const, leaseId: mine };
    const later = await store.attempt(key, renew, factsAt(inMs(3_000)));
    const late = await store.attempt(key, renew, factsAt(inMs(1_000)));
    expect({ later: later.applied, late: late.applied }).toEqual({ later: true, late: false });
    expect(late.state.holders[0]?.expiresAt).toBe(inMs(13_000));
  });
});

describe.each([
  ['the built-in engine', () => memoryStores().sessionStore],
  ['a table', () => sessions],
])('a keepalive in %s', (_name, storeOf) => {
  it('that arrives late does not shorten the session', async () => {
    const kept = storeOf();
    const sessionId = `s${randomUUID()}`;
    const key = { namespace: 'late', sessionId };
    const ttlMs = 5_000;
    const expiresAt = inMs(ttlMs);
    await kept.create('late', { sessionId, owner: 'me', ttlMs, createdAt: startOfTime, expiresAt, waits: [] });
    expect((await kept.keepAlive(key, inMs(3_000))).applied).toBe(true);
    const late = await kept.keepAlive(key, inMs(1_000));
    expect(late).toMatchObject({ applied: false, session: { expiresAt: inMs(8_000) } });
    expect((await kept.keepAlive(key, inMs(4_000))).session?.expiresAt).toBe(inMs(9_000));
  });
});
