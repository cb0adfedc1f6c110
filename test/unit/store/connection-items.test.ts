/** What is written for a connection and for a wait on it, in which order and for how long. */
import { describe, expect, it } from 'vitest';
import { SocketStore } from '../../../src/store/sockets.ts';
import { WatcherStore } from '../../../src/store/watchers.ts';
import type { Item } from '../../../src/table/attributes.ts';
import type { TableAccess } from '../../../src/table/item-table.ts';
import { epochMs } from '../../../src/time/clock.ts';

/** A table that takes this many items, and then fails. */
function tableFor(items: number): { access: TableAccess; put: Item[] } {
  const put: Item[] = [];
  const unused = () => Promise.reject(new Error('Only items are put.'));
  const calls = {
    get: unused,
    update: unused,
    put: async ({ Item }: { Item?: Item | undefined }) => {
      if (put.length >= items) throw new Error('The process was killed.');
      put.push(Item as Item);
    },
  };
  return { access: { client: undefined as never, tableName: 'locks', calls }, put };
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
