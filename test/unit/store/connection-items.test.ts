/** What is written for a connection and for a wait on it, in which order and for how long. */
import { describe, expect, it } from 'vitest';
import { SocketStore } from '../../../src/store/sockets.ts';
import { WatcherStore } from '../../../src/store/watchers.ts';
import type { Item } from '../../../src/table/attributes.ts';
import type { TableAccess } from '../../../src/table/item-table.ts';
import { epochMs } from '../../../src/time/clock.ts';
import { plainTable } from '../../support/plain-table.ts';

/** A table that takes this many items, and then fails. */
function tableFor(items: number): { access: TableAccess; put: Item[] } {
  const put: Item[] = [];
  const table = plainTable(({ Item: item }, operation) => {
    if (operation !== 'PutItem') throw new Error('Only items are put.');
    if (put.length >= items) throw new Error('The process was killed.');
    put.push(item as Item);
    return {};
  });
  return { access: { table, tableName: 'locks' }, put };
}

const now = epochMs(1_800_000_000_000);

describe('a connection', () => {
  it('can be forgotten by its id before the stream announces it, also where its process dies in between', async () => {
    const { access, put } = tableFor(1);
    const watcher = { namespace: 'a', caller: 'me', connectionId: 'c=', connectedAt: now, subject: { prefix: '' } };
    await expect(new WatcherStore(access).add(watcher)).rejects.toThrow();
    expect(put.map(({ pk }) => pk)).toEqual(['#connection/c=']);
  });
});

describe('a wait on a connection', () => {
  it('is kept for an hour after its deadline, since API Gateway may tell of the end of a connection late', async () => {
    const { access, put } = tableFor(1);
    const wait = { key: { namespace: 'a', name: 'gate' }, leaseId: 'lease-1' };
    await new SocketStore(access).noteWait('c=', wait, now);
    expect(put).toMatchObject([{ ttl: now / 1_000 + 3_600 }]);
  });
});
