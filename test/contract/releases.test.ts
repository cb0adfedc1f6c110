import { randomUUID } from 'node:crypto';
import { GetCommand, PutCommand, UpdateCommand } from '@aws-sdk/lib-dynamodb';
import { beforeAll, describe, expect, it } from 'vitest';
import type { LockKey } from '../../src/lock/state.ts';
import { apply } from '../../src/service/apply.ts';
import { type LockContext, systemLockContext } from '../../src/service/context.ts';
import { lockItemKey } from '../../src/queue/lock-item.ts';
import { LockStore } from '../../src/queue/lock-store.ts';
import { MemorySessionStore } from '../../src/store/memory/session-store.ts';
import { exactOnly, type FreshTable, freshTable } from '../support/engine.ts';
import { acquireOf } from '../support/lock-worlds.ts';
import { type OlderRelease, releaseOfLayout1, releaseOfLayout2, swapOfLayout1 } from '../support/older-releases.ts';

let table: FreshTable;
let context: LockContext;

beforeAll(async () => {
  table = await freshTable();
  const store = new LockStore(table.access);
  context = systemLockContext({ store, sessionStore: new MemorySessionStore(), alone: false });
});

const newKey = (): LockKey => ({ namespace: 'releases', name: randomUUID() });
const leaseOf = (name: string): string => `lease-of-${name.padEnd(12, '-')}`;

type Outcome = 'written' | 'refused' | 'failed';

/** What the table answers to a request of the older release. */
async function outcomeOf(sent: Promise<unknown>): Promise<Outcome> {
  try {
    await sent;
    return 'written';
  } catch (error) {
    const { name } = error as Error;
    // An update that computes with an attribute that is not there is a validation error: the older release answers 503.
    expect(['ConditionalCheckFailedException', 'ValidationException']).toContain(name);
    return name === 'ValidationException' ? 'failed' : 'refused';
  }
}

function olderOn(key: LockKey, release: OlderRelease) {
  const send = (kind: keyof OlderRelease) => (name: string) => {
    const request = { TableName: table.tableName, Key: lockItemKey(key), ...release[kind](leaseOf(name), Date.now()) };
    return outcomeOf(table.own.send(new UpdateCommand(request)));
  };
  return { grant: send('grant'), append: send('append'), release: send('release'), renew: send('renew') };
}

function thisReleaseOn(key: LockKey) {
  const answerTo = async (command: Parameters<typeof apply>[2]) => (await apply(context, key, command)).answer.kind;
  return {
    acquire: (name: string) => answerTo(acquireOf(leaseOf(name), { waitMs: 60_000, attendMs: 60_000 })),
    release: (name: string) => answerTo({ kind: 'release', leaseId: leaseOf(name) }),
    renew: (name: string) => answerTo({ kind: 'renew', leaseId: leaseOf(name) }),
    state: () => context.store.read(key),
  };
}

const itemOf = async (key: LockKey) =>
  (await table.own.send(new GetCommand({ TableName: table.tableName, Key: lockItemKey(key), ConsistentRead: true })))
    .Item;

describe(
  'a release of the same layout on the same table',
  exactOnly('older releases write beside the harsh table, which does not learn of it'),
  () => {
    it('and this one grant to one caller at a time, in the order of arrival, with rising fences', async () => {
      const key = newKey();
      const [older, newer] = [olderOn(key, releaseOfLayout2), thisReleaseOn(key)];
      expect(await older.grant('a')).toBe('written');
      expect(await newer.acquire('b')).toBe('waiting');
      expect(await older.append('c')).toBe('written');
      expect(await newer.acquire('d')).toBe('waiting');
      expect(await older.append('e')).toBe('written');
      expect(await newer.acquire('f')).toBe('waiting');
      expect([await older.grant('x'), await older.append('b')]).toEqual(['refused', 'refused']);

      const names = ['a', 'b', 'c', 'd', 'e', 'f'];
      const grants: { lease: string | undefined; fence: number }[] = [];
      // Each release hands over to waiters of its own and of the other.
      const ends = [older.release, newer.release, newer.release, older.release, older.release, newer.release];
      for (const [index, name] of names.entries()) {
        const { holders, fence } = await newer.state();
        expect(holders).toHaveLength(1);
        grants.push({ lease: holders[0]?.leaseId, fence });
        expect([await older.renew(name), await newer.renew(name)]).toEqual(['written', 'granted']);
        expect(['written', 'released']).toContain(await ends[index]?.(name));
      }
      expect(grants.map(({ lease }) => lease)).toEqual(names.map(leaseOf));
      const fences = grants.map(({ fence }) => fence);
      expect(fences).toEqual([...new Set(fences)].toSorted((one, other) => one - other));
      expect(await newer.state()).toMatchObject({ holders: [], queue: [], fence: fences.at(-1) });
      expect(await older.grant('g')).toBe('written');
      expect((await newer.state()).fence).toBe((fences.at(-1) as number) + 1);
    });

    it('and this one give a free lock to one of many that ask at once', async () => {
      const key = newKey();
      const [older, newer] = [olderOn(key, releaseOfLayout2), thisReleaseOn(key)];
      const names = Array.from({ length: 6 }, (_, index) => String(index));
      const asked = await Promise.all(
        names.flatMap((name) => [older.grant(`older-${name}`), newer.acquire(`newer-${name}`)]),
      );
      expect(asked.filter((outcome) => outcome === 'written' || outcome === 'granted')).toHaveLength(1);
      expect((await newer.state()).holders).toHaveLength(1);
    });

    it('leaves a queue with pages to the rules, which it asks after the refusal', async () => {
      const key = newKey();
      const [older, newer] = [olderOn(key, releaseOfLayout2), thisReleaseOn(key)];
      await older.grant('holder');
      for (let index = 0; index < 12; index++) await newer.acquire(String(index));
      expect([await older.append('late'), await older.grant('late')]).toEqual(['refused', 'refused']);
      for (const name of ['holder', ...Array.from({ length: 10 }, (_, index) => String(index))])
        await older.release(name);
      // The front is empty now. A write that does not know the page must not free the lock.
      expect((await newer.state()).holders).toMatchObject([{ leaseId: leaseOf('9') }]);
      expect(await older.release('9')).toBe('refused');
      expect(await newer.release('9')).toBe('released');
      expect((await newer.state()).holders).toMatchObject([{ leaseId: leaseOf('10') }]);
    });
  },
);

describe(
  'a release of layout 1 on the same table',
  exactOnly('older releases write beside the harsh table, which does not learn of it'),
  () => {
    it('hands its locks and their queues over to this one', async () => {
      const key = newKey();
      const [older, newer] = [olderOn(key, releaseOfLayout1), thisReleaseOn(key)];
      expect([await older.grant('a'), await older.append('b'), await older.append('c')]).toEqual(
        Array(3).fill('written'),
      );
      expect(await older.release('a')).toBe('written');
      const before = (await newer.state()).fence;
      expect(await newer.acquire('d')).toBe('waiting');
      for (const [index, name] of ['b', 'c', 'd'].entries()) {
        expect(await newer.state()).toMatchObject({ fence: before + index, holders: [{ leaseId: leaseOf(name) }] });
        await newer.release(name);
      }
      expect(await newer.state()).toMatchObject({ holders: [], queue: [] });
    });

    it.each([
      ['a free lock', ['mine'], true],
      ['a lock that is held', ['mine'], false],
      ['a lock with waiters', ['mine', 'next', 'last'], false],
    ])('fails closed on %s that this one wrote', async (_what, names, isReleased) => {
      const key = newKey();
      const [older, newer] = [olderOn(key, releaseOfLayout1), thisReleaseOn(key)];
      for (const name of names) await newer.acquire(name);
      if (isReleased) await newer.release('mine');
      const item = await itemOf(key);
      // It knows layout 1 and refuses to read a higher number.
      expect(item?.lv).toBe(2);
      const { rev } = await newer.state();
      const put = { TableName: table.tableName, ...swapOfLayout1(lockItemKey(key), leaseOf('other'), rev, Date.now()) };
      const outcomes = [
        await older.grant('other'),
        await older.append('other'),
        await older.release('mine'),
        await older.renew('mine'),
        await outcomeOf(table.own.send(new PutCommand(put))),
      ];
      expect(outcomes).not.toContain('written');
      expect(await itemOf(key)).toEqual(item);
    });
  },
);
