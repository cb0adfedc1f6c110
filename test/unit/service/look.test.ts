import { describe, expect, it } from 'vitest';
import { lockLimits } from '../../../src/lock/limits.ts';
import { presentWaiters } from '../../../src/lock/view.ts';
import { apply } from '../../../src/service/apply.ts';
import { historyPage, inspect, list } from '../../../src/service/look.ts';
import { memoryService } from '../../../src/testing/memory-service.ts';
import { seededRandom, VirtualTime } from '../../../src/testing/virtual-time.ts';
import { acquireOf } from '../../support/lock-worlds.ts';

const namespace = 'test';

function world() {
  const time = new VirtualTime();
  const { locks, history } = memoryService(time, seededRandom(1), () => {}).service;
  const take = (name: string, leaseId: string, more = {}) =>
    apply(locks, { namespace, name }, acquireOf(leaseId, more));
  const free = (name: string, leaseId: string) => apply(locks, { namespace, name }, { kind: 'release', leaseId });
  return { time, locks, history, take, free };
}

describe('a list of locks', () => {
  it('has no page longer than asked for, and misses none, if only some of the locks match', async () => {
    const { locks, take, free } = world();
    const names = Array.from({ length: 12 }, (_, index) => `lock-${String(index).padStart(2, '0')}`);
    for (const [index, name] of names.entries()) {
      await take(name, 'lease-a-0000000000');
      if (index % 3 === 0) await free(name, 'lease-a-0000000000');
    }
    const found: string[] = [];
    let after: string | undefined;
    do {
      const page = await list(locks, namespace, { prefix: '', state: 'held', limit: 3, after });
      expect(page.locks.length).toBeLessThanOrEqual(3);
      found.push(...page.locks.map(({ name }) => name));
      after = page.after;
    } while (after !== undefined);
    expect(found).toEqual(names.filter((_, index) => index % 3 !== 0));
  });

  it('counts the waiters behind the front too', async () => {
    const { locks, take } = world();
    const waiting = { waitMs: 60_000, attendMs: null };
    const many = lockLimits.frontLengthMax + 3;
    await take('long', 'lease-holder-00000');
    for (let index = 0; index < many; index++) await take('long', `lease-waiter-${index}-0000`, waiting);
    const { locks: found } = await list(locks, namespace, { prefix: '', limit: 10 });
    expect(found.map(({ state, facts }) => presentWaiters(state, facts).length)).toEqual([many]);
  });

  it('has only the free ones, or all of them, as asked', async () => {
    const { locks, take, free } = world();
    for (const name of ['a', 'b', 'c']) await take(name, 'lease-a-0000000000');
    await free('b', 'lease-a-0000000000');
    const namesOf = async (state?: 'held' | 'free') =>
      (await list(locks, namespace, { prefix: '', state, limit: 10 })).locks.map(({ name }) => name);
    expect([await namesOf('free'), await namesOf('held'), await namesOf()]).toEqual([
      ['b'],
      ['a', 'c'],
      ['a', 'b', 'c'],
    ]);
  });

  it('reads at most ten pages of the store for one page of few matches, and then gives a cursor', async () => {
    const { locks, take, free } = world();
    for (let index = 0; index < 24; index++) {
      const name = `lock-${String(index).padStart(2, '0')}`;
      await take(name, 'lease-a-0000000000');
      await free(name, 'lease-a-0000000000');
    }
    let reads = 0;
    const { store } = locks;
    const read = store.list.bind(store);
    store.list = (...asked) => {
      reads += 1;
      return read(...asked);
    };
    const page = await list(locks, namespace, { prefix: '', state: 'held', limit: 1 });
    expect([reads, page.locks]).toEqual([10, []]);
    // The next page goes on there.
    const rest = await list(locks, namespace, { prefix: '', limit: 100, after: page.after });
    expect(rest.locks.map(({ name }) => name).at(0)).toBe('lock-10');
  });

  it('reads one page if that is full', async () => {
    const { locks, take } = world();
    for (const name of ['a', 'b', 'c']) await take(name, 'lease-a-0000000000');
    let reads = 0;
    const { store } = locks;
    const read = store.list.bind(store);
    store.list = (...asked) => {
      reads += 1;
      return read(...asked);
    };
    const page = await list(locks, namespace, { prefix: '', limit: 2 });
    expect([reads, page.locks.length, page.after !== undefined]).toEqual([1, 2, true]);
  });

  it('tells whether the session of a holder lives, so that its lock counts as free after it', async () => {
    const { time, locks, take } = world();
    await take('a', 'lease-a-0000000000', { leaseMs: null, sessionId: 'gone' });
    const [found] = (await list(locks, namespace, { prefix: '', limit: 10 })).locks;
    expect(found?.facts).toMatchObject({ now: time.now(), graceMs: lockLimits.graceMs });
    expect(found?.facts.sessions?.get('gone')).toMatchObject({ alive: false });
    expect((await list(locks, namespace, { prefix: '', state: 'held', limit: 10 })).locks).toEqual([]);
  });
});

describe('a look at one lock', () => {
  it('shows its whole queue, and the facts to judge it by', async () => {
    const { time, locks, take } = world();
    const many = lockLimits.frontLengthMax + 2;
    await take('long', 'lease-holder-00000');
    for (let index = 0; index < many; index++)
      await take('long', `lease-waiter-${index}-0000`, { waitMs: 60_000, attendMs: null });
    const { state, facts } = await inspect(locks, { namespace, name: 'long' });
    expect([state.holders.length, state.queue.length]).toEqual([1, many]);
    expect(facts).toMatchObject({ now: time.now(), graceMs: lockLimits.graceMs });
  });
});

describe('the history of a lock', () => {
  it('is one page of its events, newest first, and knows which holds stand', async () => {
    const { locks, history, take, free } = world();
    const key = { namespace, name: 'a' };
    await take('a', 'lease-a-0000000000');
    await free('a', 'lease-a-0000000000');
    const held = await take('a', 'lease-b-0000000000');
    const asked: unknown[] = [];
    const page = history.page.bind(history);
    history.page = (lock, wanted) => {
      asked.push([lock, wanted]);
      return page(lock, wanted);
    };
    const { events } = await historyPage({ locks, history }, key, { limit: 2 });
    expect(events.map(({ type }) => type)).toEqual(['granted', 'released']);
    expect(asked).toEqual([[key, { limit: 2, standing: [expect.objectContaining({ fence: held.state.fence })] }]]);
  });
});
