import { describe, expect, it } from 'vitest';
import type { Waiter } from '../../../src/lock/state.ts';
import { layoutKnown, lockWords } from '../../../src/queue/lock-item.ts';
import { pageItemKey } from '../../../src/queue/page-item.ts';
import type { PageWrite } from '../../../src/queue/page-store.ts';
import { emptyPage, queueSizes } from '../../../src/queue/pages.ts';
import { toStored } from '../../../src/table/json.ts';
import { epochMs } from '../../../src/time/clock.ts';
import { memoryStores } from '../../support/memory-table.ts';
import { toPageItem } from '../../support/page-items.ts';

const now = epochMs(1_000);
const later = epochMs(9_000);
const waiter: Waiter = {
  leaseId: 'lease-a',
  owner: 'a',
  permits: 1_024,
  leaseMs: 1_000,
  queuedAt: now,
  deadlineAt: later,
  presentUntil: later,
};
const lock = { namespace: 'tests', name: 'lock' };
const { leaseId } = waiter;
const other = { ...waiter, leaseId: 'lease-b' };

const writes: readonly PageWrite[] = [
  { kind: 'join', waiter: other, fence: 1, sizes: queueSizes },
  { kind: 'attend', attendance: { leaseId, presentUntil: epochMs(5_000) } },
  { kind: 'step-away', absence: { leaseId, presentUntil: epochMs(2_000) } },
  { kind: 'leave', leaseId, how: 'released', now },
  { kind: 'close', now },
];

describe('a page of a newer layout', () => {
  it.each(writes)('is not changed by $kind, which fails closed', async (write) => {
    const { engine, access, pages } = memoryStores();
    const key = { lock, number: 7 };
    const page = { ...emptyPage(7), waiters: [waiter], fence: 1 };
    const item = toStored({ ...toPageItem(lock, page, now), [lockWords.layout]: layoutKnown + 1 });
    engine.call('PutItem', { TableName: access.tableName, Item: item });

    await expect(pages.write(key, write)).rejects.toMatchObject({ code: 'unreadable' });

    const found = engine.call('GetItem', { TableName: access.tableName, Key: toStored({ ...pageItemKey(key) }) });
    expect(found.Item).toEqual(item);
  });
});

describe('a lock of a newer layout', () => {
  it('stays in the index of awaited locks, because only a release that knows the layout may remove it', async () => {
    const { engine, access, store, awaited } = memoryStores();
    const acquire = { kind: 'acquire', ...waiter, limit: 1_024, waitMs: 0, attendMs: 0 } as const;
    const notify = { type: 'task-token', token: 'token', always: true } as const;
    const written = await store.attempt(lock, { ...acquire, notify }, { now, graceMs: 0 });
    expect(written.applied).toBe(true);
    const Key = toStored({ pk: 'tests/lock/lock', sk: 'lock' });
    const { Item: item } = engine.call('GetItem', { TableName: access.tableName, Key }) as { Item: object };
    const newer = { ...item, [lockWords.layout]: { N: String(layoutKnown + 1) } };
    engine.call('PutItem', { TableName: access.tableName, Item: newer });

    await awaited.forget(lock);

    expect(engine.call('GetItem', { TableName: access.tableName, Key }).Item).toEqual(newer);
  });
});
