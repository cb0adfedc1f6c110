import { beforeAll, describe, expect, it } from 'vitest';
import type { LockKey } from '../../src/lock/state.ts';
import { apply } from '../../src/service/apply.ts';
import { systemLockContext } from '../../src/service/context.ts';
import type { DeliveryStore } from '../../src/store/notices.ts';
import type { SocketStore } from '../../src/store/sockets.ts';
import type { Watcher, WatcherStore } from '../../src/store/watchers.ts';
import { epochMs } from '../../src/time/clock.ts';
import { freshTable } from '../support/engine.ts';
import { acquireOf } from '../support/lock-worlds.ts';
import { type MemoryStores, memoryStores, storesOn } from '../support/memory-table.ts';

type Stores = Pick<MemoryStores, 'watchers' | 'sockets' | 'deliveries'>;

const tables: [string, () => Promise<Stores>][] = [
  ['the built-in engine', () => Promise.resolve(memoryStores())],
  ['a table', async () => storesOn((await freshTable()).access)],
];

describe.each(tables)('the watchers in %s', (_name, open) => {
  let watchers: WatcherStore;
  beforeAll(async () => {
    ({ watchers } = await open());
  });
  const watcher = (namespace: string, connectionId: string, subject: Watcher['subject']): Watcher => ({
    namespace,
    caller: 'anonymous',
    connectionId,
    connectedAt: epochMs(Date.now()),
    subject,
  });

  it('shows the watchers of a namespace that got their first message, with what they watch', async () => {
    const one = watcher('a', 'one=', { lock: 'wallet' });
    const other = watcher('a', 'other=', { prefix: '' });
    for (const added of [
      one,
      other,
      watcher('a', 'new=', { prefix: 'x' }),
      watcher('b', 'elsewhere=', { prefix: '' }),
    ]) {
      await watchers.add(added);
    }
    expect([await watchers.welcome(one), await watchers.welcome(other)]).toEqual([true, true]);
    const found = await watchers.welcomed('a');
    expect([...found].sort((x, y) => (x.connectionId < y.connectionId ? -1 : 1))).toEqual([one, other]);
  });

  it('deletes one by its id alone, and may do so again', async () => {
    const gone = watcher('c', 'gone=', { prefix: '' });
    await watchers.add(gone);
    await watchers.welcome(gone);
    await watchers.remove('gone=');
    await watchers.remove('gone=');
    expect(await watchers.welcomed('c')).toEqual([]);
  });

  it('does not bring back a watcher that left before its first message', async () => {
    const gone = watcher('d', 'left=', { prefix: '' });
    await watchers.add(gone);
    await watchers.remove('left=');
    expect([await watchers.welcome(gone), await watchers.welcomed('d')]).toEqual([false, []]);
  });
});

describe.each(tables)('the sockets in %s', (_name, open) => {
  let sockets: SocketStore;
  beforeAll(async () => {
    ({ sockets } = await open());
  });
  const owner = { namespace: 'a', caller: 'somebody' };
  const at = (ms: number) => epochMs(1_800_000_000_000 + ms);

  it('let a ticket open one connection, once, before its end', async () => {
    for (const secret of ['first', 'second', 'third']) await sockets.issue(secret, { ...owner, expiresAt: at(1_000) });
    expect(await sockets.redeem('first', at(999))).toEqual(owner);
    expect(await sockets.redeem('first', at(999))).toBeUndefined();
    expect(await sockets.redeem('second', at(1_000))).toBeUndefined();
    expect(await sockets.redeem('made up', at(0))).toBeUndefined();
    const both = await Promise.all([sockets.redeem('third', at(0)), sockets.redeem('third', at(0))]);
    expect(both.filter((found) => found !== undefined)).toEqual([owner]);
  });

  it('find what is parked on a connection, each wait once, and nothing of others', async () => {
    const wait = (name: string, leaseId: string) => ({ key: { namespace: 'a', name }, leaseId });
    const [one, other] = [wait('gate', 'lease-1'), wait('gate', 'lease-2')];
    for (const noted of [one, one, other]) await sockets.noteWait('c1=', noted, at(60_000));
    await sockets.noteWait('c2=', wait('gate', 'lease-3'), at(60_000));
    const found = await sockets.waitsOn('c1=', 'a');
    expect([...found].sort((x, y) => (x.leaseId < y.leaseId ? -1 : 1))).toEqual([one, other]);
    expect(await sockets.waitsOn('c1=', 'b')).toEqual([]);
  });
});

describe.each(tables)('the deliveries in %s', (_name, open) => {
  it('knows which grants were delivered, by lock and fence', async () => {
    const { deliveries }: { deliveries: DeliveryStore } = await open();
    const key: LockKey = { namespace: 'contract', name: 'wallet' };
    await deliveries.markDelivered(key, 7);
    await deliveries.markDelivered(key, 7);
    expect([await deliveries.read(key, 7), await deliveries.read(key, 8)]).toMatchObject([
      { delivered: true },
      { delivered: false },
    ]);
    expect(await deliveries.read({ ...key, name: 'other' }, 7)).toEqual({ tries: 0, delivered: false });
  });

  it('counts each try to deliver, before and after it was written', async () => {
    const { deliveries }: { deliveries: DeliveryStore } = await open();
    const key: LockKey = { namespace: 'contract', name: 'wallet' };
    expect(await deliveries.begin(key, 9)).toEqual({ tries: 1, delivered: false });
    expect(await deliveries.begin(key, 9)).toEqual({ tries: 2, delivered: false });
    await deliveries.markDelivered(key, 9);
    expect(await deliveries.read(key, 9)).toEqual({ tries: 2, delivered: true });
    expect(await deliveries.begin(key, 9)).toEqual({ tries: 3, delivered: true });
  });
});

describe('the awaited locks', () => {
  it('lists each lock with waiters, and removes only locks without a waiter', async () => {
    const stores = storesOn((await freshTable()).access);
    const { store, awaited } = stores;
    const locks = systemLockContext({ ...stores, alone: false });
    const listed = async () => {
      const names: string[] = [];
      for await (const { name } of awaited.list()) names.push(name);
      return names.sort();
    };
    const names = Array.from({ length: 12 }, (_, index) => `lock-${String(index).padStart(2, '0')}`);
    for (const name of [...names, 'free']) {
      await apply(locks, { namespace: 'contract', name }, acquireOf('lease-holder-00001'));
    }
    for (const name of names) {
      const waiting = acquireOf('lease-waiter-00001', { waitMs: 60_000, attendMs: null });
      await apply(locks, { namespace: 'contract', name }, waiting);
    }
    expect(await listed()).toEqual(names);

    const [first, second] = names as [string, string];
    await apply(locks, { namespace: 'contract', name: first }, { kind: 'release', leaseId: 'lease-holder-00001' });
    // The hand-over left it in the index, where only a queue belongs.
    const handedOver = await store.read({ namespace: 'contract', name: first });
    expect([handedOver.queue, await listed()]).toEqual([[], names]);
    await awaited.forget({ namespace: 'contract', name: first });
    await awaited.forget({ namespace: 'contract', name: first });
    await awaited.forget({ namespace: 'contract', name: second });
    expect(await listed()).toEqual(names.slice(1));
    // Nothing else of the lock has changed.
    expect(await store.read({ namespace: 'contract', name: first })).toEqual({
      ...handedOver,
      rev: handedOver.rev + 1,
    });
  });
});
