import { PutCommand, ScanCommand } from '@aws-sdk/lib-dynamodb';
import { beforeAll, describe, expect, it } from 'vitest';
import type { LockKey } from '../../src/lock/state.ts';
import { layoutKnown, lockItemKey, toLockItem, ttlOf } from '../../src/queue/lock-item.ts';
import { LockStore, retentionMsDefault, retentionMsMin } from '../../src/queue/lock-store.ts';
import { acquire } from '../../src/service/acquire.ts';
import type { LockContext } from '../../src/service/context.ts';
import { systemLockContext } from '../../src/service/context.ts';
import { createSession } from '../../src/service/sessions.ts';
import { epochMs } from '../../src/time/clock.ts';
import { type FreshTable, freshTable } from '../support/engine.ts';
import { storesOn } from '../support/memory-table.ts';

let table: FreshTable;
let store: LockStore;
let context: LockContext;

beforeAll(async () => {
  table = await freshTable();
  store = new LockStore(table.access);
  context = systemLockContext({ ...storesOn(table.access), alone: false });
});

const put = (Item: Record<string, unknown>) => table.own.send(new PutCommand({ TableName: table.tableName, Item }));

const lockNamed = (name: string): LockKey => ({ namespace: 'layout', name });
const ask = (leaseId: string, more: object = {}) => ({
  leaseId,
  owner: 'me',
  // On a busy machine, a test may take longer than the usual lease.
  leaseMs: 600_000,
  waitMs: 0,
  ...more,
});

/** A lock as this release writes it, held by somebody. */
async function heldItem(key: LockKey): Promise<Record<string, unknown>> {
  await acquire(context, key, ask('lease-of-the-holder'));
  return toLockItem(key, await store.read(key), retentionMsDefault);
}

describe("a lock's item", () => {
  it('of a newer layout is neither read nor written, and the error says so', async () => {
    const key = lockNamed('newer');
    await put({ ...(await heldItem(key)), lv: layoutKnown + 1 });
    const newer = { code: 'unreadable', message: expect.stringContaining('a newer release wrote it') };
    await expect(store.read(key)).rejects.toMatchObject(newer);
    await expect(acquire(context, key, ask('lease-of-another-1'))).rejects.toMatchObject(newer);
  });

  it.each([
    ['a number that is a string', { f: 'seven' }],
    ['a holder without an owner', { h0: ['lease-name', null, 1_024, 1_000, null] }],
    ['more permits than there are', { m: 3 }],
    ['a queue that is not a list', { q: 'nobody' }],
  ])('with %s fails closed, and names no secret', async (what, damage) => {
    const key = lockNamed(what.replaceAll(' ', '-'));
    await put({ ...(await heldItem(key)), ...damage });
    const error = await acquire(context, key, ask('lease-of-another-1')).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ name: 'StoreError', code: 'unreadable' });
    expect((error as Error).message).not.toContain('lease-of');
  });

  it('that is held is never deleted before its lease has ended, for any retention', async () => {
    const now = epochMs(1_800_000_000_000);
    const end = epochMs(now + 86_400_000);
    expect(ttlOf(now, 3_600_000, [end]) * 1_000).toBeGreaterThan(end);
    expect(ttlOf(now, retentionMsDefault, [end]) * 1_000).toBe(now + retentionMsDefault);
    expect(() => new LockStore({ ...table.access, retentionMs: retentionMsMin - 1 })).toThrow('two days');
  });
});

describe('a secret', () => {
  it('is in no key, in no index and in no name of an attribute', async () => {
    const { session } = await createSession(context, 'layout', { ttlMs: 600_000, owner: 'me' });
    const { sessionId } = session;
    const leaseIds = Array.from({ length: 16 }, (_, index) => `secret-lease-${index}`);
    const [whole = '', part = '', ...others] = leaseIds;
    await acquire(context, lockNamed('whole'), ask(whole, { sessionId }));
    await acquire(context, lockNamed('part'), ask(part, { sessionId, limit: 3 }));
    await acquire(context, lockNamed('part'), ask(others[0] as string, { limit: 3 }));
    for (const leaseId of others)
      await acquire(context, lockNamed('whole'), ask(leaseId, { waitMs: 60_000, pollMs: 0 }));
    const { Items = [] } = await table.own.send(new ScanCommand({ TableName: table.tableName }));
    const shown = Items.map((item) => {
      const { pk, sk, sp, ap, lp } = item;
      return JSON.stringify([pk, sk, sp, ap, lp, ...namesIn(item)]);
    });
    expect(shown.some((names) => names.includes('/session/'))).toBe(true);
    expect(shown.some((names) => names.includes('/page/'))).toBe(true);
    expect(shown.filter((names) => [sessionId, ...leaseIds].some((secret) => names.includes(secret)))).toEqual([]);
    expect(await context.sessionStore.locksOf({ namespace: 'layout', sessionId })).toEqual(
      expect.arrayContaining(['whole', 'part']),
    );
    expect(lockItemKey(lockNamed('whole')).pk).toBe('layout/lock/whole');
  });
});

/** The names of attributes, at any depth. */
const namesIn = (value: unknown): string[] =>
  typeof value !== 'object' || value === null || value instanceof Set
    ? []
    : Object.entries(value).flatMap(([name, member]) => [name, ...namesIn(member)]);
