import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, it } from 'vitest';
import type { Acquire, Facts, LockCommand } from '../../src/lock/commands.ts';
import { decide } from '../../src/lock/decide.ts';
import { lockLimits } from '../../src/lock/limits.ts';
import { type LockKey, type LockState, unusedLock, type Waiter } from '../../src/lock/state.ts';
import { listingKeyOf } from '../../src/queue/lock-item.ts';
import { LockStore } from '../../src/queue/lock-store.ts';
import { SdkTable } from '../../src/table/aws/table.ts';
import type { TableAccess } from '../../src/table/item-table.ts';
import { epochMs } from '../../src/time/clock.ts';
import { freshTable } from '../support/engine.ts';
import { acquireOf, startOfTime } from '../support/lock-worlds.ts';
import { memoryStores } from '../support/memory-table.ts';

const tables: [string, () => Promise<TableAccess>][] = [
  ['a table over the wire', async () => (await freshTable()).access],
  [
    'a table by the SDK alone',
    async () => {
      const { client, tableName } = await freshTable();
      return { table: new SdkTable(client), tableName };
    },
  ],
  ['the built-in engine', async () => memoryStores().access],
];

const facts: Facts = { now: startOfTime, graceMs: lockLimits.graceMs };
const newKey = (namespace = 'contract'): LockKey => ({ namespace, name: randomUUID() });

describe.each(tables)('the lock store on %s', (_name, open) => {
  let store: LockStore;
  beforeAll(async () => {
    store = new LockStore(await open());
  });

  /** Carries out a command as the service does, without the retries. */
  async function command(key: LockKey, asked: LockCommand): Promise<LockState> {
    const attempted = await store.attempt(key, asked, facts);
    if (attempted.applied) return attempted.state;
    const { next } = decide(attempted.state, asked, facts);
    return next === attempted.state ? next : (await store.write(key, { kind: 'replace', next: next })).state;
  }

  it('shows a lock that was never used as unused', async () => {
    expect(await store.read(newKey())).toEqual(unusedLock);
    expect(await store.peek(newKey())).toEqual(unusedLock);
  });

  it('does not let a late poll or the end of an old connection make a parked waiter absent', async () => {
    const key = newKey();
    const waits = (more: object) => acquireOf('lease-b-0000000000', { waitMs: 60_000, ...more });
    const on = (connectionId: string) => waits({ attendMs: null, notify: { type: 'websocket', connectionId } });
    await command(key, acquireOf('lease-a-0000000000'));
    const [polling] = (await command(key, waits({ attendMs: 4_000 }))).queue;
    const [onFirst] = (await command(key, on('one'))).queue;
    expect(
      (await store.write(key, { kind: 'attend', index: 0, waiter: polling as Waiter, now: startOfTime })).applied,
    ).toBe(false);
    const absent = { ...(onFirst as Waiter), presentUntil: epochMs(startOfTime + 5_000) };
    const { queue } = await command(key, on('two'));
    expect((await store.write(key, { kind: 'attend', index: 0, waiter: absent, now: startOfTime })).applied).toBe(
      false,
    );
    expect((await store.read(key)).queue).toEqual(queue);
    const gone = { ...(queue[0] as Waiter), presentUntil: absent.presentUntil };
    expect((await store.write(key, { kind: 'attend', index: 0, waiter: gone, now: startOfTime })).applied).toBe(true);
  });

  it('does not let a late poll or cancellation change a later wait of the same lease', async () => {
    const key = newKey();
    const waits = (leaseId: string, waitMs: number) => acquireOf(leaseId, { waitMs, attendMs: 4_000 });
    await command(key, acquireOf('lease-a-0000000000'));
    await command(key, waits('lease-b-0000000000', 60_000));
    const first = (await command(key, waits('lease-c-0000000000', 60_000))).queue[1] as Waiter;
    await command(key, { kind: 'give-up', leaseId: first.leaseId });
    const { queue } = await command(key, waits('lease-c-0000000000', 5_000));
    const late = { ...first, presentUntil: first.deadlineAt };
    expect((await store.write(key, { kind: 'attend', index: 1, waiter: late, now: startOfTime })).applied).toBe(false);
    expect(
      (await store.write(key, { kind: 'leave', index: 1, waiter: first, isRemembered: false, now: startOfTime }))
        .applied,
    ).toBe(false);
    expect((await store.read(key)).queue).toEqual(queue);
    expect(
      (
        await store.write(key, {
          kind: 'leave',
          index: 1,
          waiter: queue[1] as Waiter,
          isRemembered: false,
          now: startOfTime,
        })
      ).applied,
    ).toBe(true);
  });

  it('reads exactly the state that was written', async () => {
    const key = newKey();
    const asked = acquireOf('lease-a-0000000000', {
      lockDelayMs: 5,
      metadata: { unicode: 'ключ 🔑', empty: '' },
      leaseMs: 86_400_000,
    });
    const held = await command(key, asked);
    const parked = acquireOf('lease-b-0000000000', {
      waitMs: 1_000,
      attendMs: null,
      notify: { type: 'event', ref: 'my ref' },
    });
    const queued = await command(key, parked);
    expect(await store.read(key)).toEqual(queued);
    expect([unusedLock, held, queued]).toContainEqual(await store.peek(key));
    expect(queued.queue).toMatchObject([{ leaseId: 'lease-b-0000000000', notify: { type: 'event', ref: 'my ref' } }]);
  });

  it('refuses a swap on any other revision than the one that was read, and returns the current state', async () => {
    const key = newKey();
    const first = await command(key, acquireOf('lease-a-0000000000'));
    const stale = { ...first, rev: first.rev + 2 };
    expect(await store.write(key, { kind: 'replace', next: stale })).toMatchObject({ applied: false, state: first });
    expect(await store.write(key, { kind: 'replace', next: { ...first, rev: 1 } })).toMatchObject({
      applied: false,
      state: first,
    });
    expect(await store.write(newKey(), { kind: 'replace', next: { ...first, rev: 7 } })).toMatchObject({
      applied: false,
      state: unusedLock,
    });
  });

  it('lets one of many concurrent swaps win', async () => {
    const key = newKey();
    const first = await command(key, acquireOf('lease-a-0000000000'));
    const rivals = Array.from({ length: 10 }, (_, index) => ({
      ...first,
      rev: first.rev + 1,
      fence: first.fence + index,
    }));
    const written = await Promise.all(rivals.map((next) => store.write(key, { kind: 'replace', next: next })));
    expect(written.filter(({ applied }) => applied)).toHaveLength(1);
  });

  it('appends every one of many concurrent arrivals once', async () => {
    const key = newKey();
    const first = await command(key, acquireOf('lease-a-0000000000'));
    const arrivals = Array.from({ length: 20 }, (_, index) => `lease-${index}-000000000000`);
    await Promise.all(
      [...arrivals, ...arrivals].map((leaseId) => {
        const { answer } = decide(first, acquireOf(leaseId, { waitMs: 1_000 }), facts);
        if (answer.kind !== 'waiting') throw new Error(`expected to wait, got ${answer.kind}`);
        return store.write(key, { kind: 'arrive', waiter: answer.waiter, limit: first.limit, frontLengthMax: 100 });
      }),
    );
    const { queue } = await store.read(key);
    expect(queue.map(({ leaseId }) => leaseId).sort()).toEqual([...arrivals].sort());
  });

  it('lists by name in order, complete over pages, within its namespace and prefix', async () => {
    const namespace = randomUUID();
    const names = Array.from({ length: 25 }, (_, index) => `job:${String(index).padStart(2, '0')}`);
    const asked: Acquire = acquireOf('lease-a-0000000000');
    await Promise.all([...names, 'other', 'joc', 'job', 'job.'].map((name) => command({ namespace, name }, asked)));
    await command({ namespace: `${namespace}x`, name: 'job:99' }, asked);
    const listed: string[] = [];
    let after: string | undefined;
    for (let pages = 0; pages < 10; pages++) {
      const page = await store.list(namespace, { prefix: 'job:', limit: 7, ...(after === undefined ? {} : { after }) });
      expect(page.locks.length).toBeLessThanOrEqual(7);
      listed.push(...page.locks.map(({ name }) => name));
      after = page.after;
      if (after === undefined) break;
    }
    expect(listed).toEqual(names);
    const all = await store.list(namespace, { prefix: '', limit: 100 });
    expect(all.locks.map(({ name }) => name)).toEqual([...names, 'job', 'job.', 'joc', 'other'].sort());
    expect(all.locks[0]?.state.holders).toMatchObject([{ leaseId: 'lease-a-0000000000' }]);
  });

  it.each([1, 2, 3, 5])(
    'lists every name once in pages of %i, even if one name is the beginning of another',
    async (limit) => {
      const namespace = randomUUID();
      const stems = ['job', 'job+', 'job-1', 'job:a', 'z'];
      const names = stems.flatMap((stem) => [
        stem,
        ...['+', '-', '0', '1', '11', 'a', 'z', '~'].map((end) => stem + end),
      ]);
      const unique = [...new Set(names)].sort();
      await Promise.all(unique.map((name) => command({ namespace, name }, acquireOf('lease-a-0000000000'))));
      const listed: string[] = [];
      let after: string | undefined;
      do {
        const page = await store.list(namespace, { prefix: '', limit, ...(after === undefined ? {} : { after }) });
        expect(page.locks.length).toBeLessThanOrEqual(limit);
        listed.push(...page.locks.map(({ name }) => name));
        after = page.after;
      } while (after !== undefined && listed.length <= unique.length);
      expect(listed).toEqual(unique);
    },
  );

  it('goes on if one shard of the listing has exactly as many names as a page, and more follow', async () => {
    const namespace = randomUUID();
    const [first, ...others] = Array.from({ length: 200 }, (_, index) => `lock-${String(index).padStart(3, '0')}`);
    const shardOf = (name = '') => listingKeyOf({ namespace, name }).listingPartition;
    const names = [first as string, ...others.filter((name) => shardOf(name) === shardOf(first)).slice(0, 3)];
    await Promise.all(names.map((name) => command({ namespace, name }, acquireOf('lease-a-0000000000'))));
    const page = await store.list(namespace, { prefix: '', limit: 2 });
    const rest = await store.list(namespace, { prefix: '', limit: 2, after: page.after as string });
    expect([...page.locks, ...rest.locks].map(({ name }) => name)).toEqual(names);
  });
});
