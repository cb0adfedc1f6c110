import { describe, expect, it } from 'vitest';
import { decide } from '../../../src/lock/decide.ts';
import { lockLimits } from '../../../src/lock/limits.ts';
import { LockCache } from '../../../src/queue/lock-cache.ts';
import type { Answered } from '../../../src/service/apply.ts';
import { Refusals } from '../../../src/service/refusals.ts';
import { acquireOf, type Kind } from '../../support/lock-worlds.ts';
import { alice, bob, carol, dave } from '../lock/story.ts';
import { key, SeenLock } from './world.ts';

/** Callers of the efficiency tier on a lock that alice holds, and how many requests the store got for them. */
function stampede(leaseMs = 30_000) {
  const lock = new SeenLock();
  const cache = new LockCache(lock.time);
  const refusals = new Refusals({ cache, clock: lock.time, graceMs: lockLimits.graceMs });
  lock.write(acquireOf(alice, { leaseMs }));
  const world = { lock, cache, asked: 0, ask };
  async function ask(leaseId: string, name = key.name, more: Kind = {}): Promise<Answered['answer']['kind']> {
    const command = acquireOf(leaseId, more);
    const named = { ...key, name };
    const applied = await refusals.answer(named, command, async () => {
      world.asked += 1;
      const facts = await lock.facts();
      const { answer, next } = decide(lock.state, command, facts);
      if (name === key.name) lock.state = next;
      cache.learn(named, lock.state);
      return { answer, state: lock.state, facts };
    });
    return applied.answer.kind;
  }
  return world;
}

describe('a refusal that is remembered', () => {
  it('answers others for a fifth of a second, and no longer', async () => {
    const world = stampede();
    await world.ask(bob);
    await world.lock.time.advance(199);
    expect(await world.ask(carol)).toBe('held');
    expect(world.asked).toBe(1);
    await world.lock.time.advance(1);
    await world.ask(carol);
    expect(world.asked).toBe(2);
  });

  it('is not kept past the instant at which the lock may be taken over', async () => {
    const world = stampede(1_000);
    await world.lock.time.advance(1_000 + lockLimits.graceMs - 50);
    await world.ask(bob);
    await world.lock.time.advance(49);
    await world.ask(carol);
    expect(world.asked).toBe(1);
    await world.lock.time.advance(1);
    await world.ask(carol);
    expect(world.asked).toBe(2);
  });

  it('is dropped when the lock has changed', async () => {
    const world = stampede();
    await world.ask(bob);
    world.cache.learn(key, world.lock.write({ kind: 'release', leaseId: alice }));
    expect(await world.ask(carol)).toBe('granted');
    expect(world.asked).toBe(2);
  });

  it('does not answer a lease that the lock knows: a repeat must find its grant', async () => {
    const world = stampede();
    await world.ask(bob);
    await world.ask(alice);
    expect(world.asked).toBe(2);
  });

  it('does not answer a reader that would fit beside another', async () => {
    const world = stampede();
    world.lock.write({ kind: 'release', leaseId: alice });
    await world.ask(dave, key.name, { mode: 'shared' });
    expect(await world.ask(bob)).toBe('held');
    expect(await world.ask(carol, key.name, { mode: 'shared' })).toBe('granted');
    expect(world.asked).toBe(2);
  });

  it('is only the answer that the lock is held', async () => {
    const world = stampede();
    await world.ask(bob, key.name, { limit: 3 });
    expect(await world.ask(carol, key.name, { limit: 3 })).toBe('limit-mismatch');
    expect(world.asked).toBe(2);
  });

  it('is made once for callers that arrive together', async () => {
    const world = stampede();
    const answers = await Promise.all(Array.from({ length: 200 }, (_, index) => world.ask(`lease-of-${index}-00000`)));
    expect(new Set(answers)).toEqual(new Set(['held']));
    expect(world.asked).toBe(1);
  });

  it('is made once for each crowd that arrives together', async () => {
    const world = stampede();
    for (let crowd = 1; crowd <= 3; crowd++) {
      await Promise.all(Array.from({ length: 20 }, (_, index) => world.ask(`lease-of-${index}-00000`)));
      expect(world.asked).toBe(crowd);
      await world.lock.time.advance(1_000);
    }
  });

  it('is kept for a thousand locks, and the oldest is dropped first', async () => {
    const world = stampede();
    for (let index = 0; index <= 1_000; index++) await world.ask(bob, `lock-${index}`);
    world.asked = 0;
    await world.ask(carol, 'lock-1000');
    await world.ask(carol, 'lock-1');
    expect(world.asked).toBe(0);
    await world.ask(carol, 'lock-0');
    expect(world.asked).toBe(1);
  });
});

describe('a request that is under way', () => {
  it.each([
    ['another lock', { ...key, name: 'other' }, {}],
    ['other permits of the same lock', key, { mode: 'shared' }],
  ] as const)('is not waited for by a request for %s', async (_, other, kind) => {
    const { lock, cache } = stampede();
    const refusals = new Refusals({ cache, clock: lock.time, graceMs: lockLimits.graceMs });
    void refusals.answer(key, acquireOf(bob), () => new Promise(() => {}));
    const facts = await lock.facts();
    const applied: Answered = { answer: { kind: 'done' }, state: lock.state, facts };
    expect(await refusals.answer(other, acquireOf(carol, kind), async () => applied)).toBe(applied);
  });
});

describe('a grant', () => {
  it('never comes from cache', async () => {
    const world = stampede();
    world.lock.write({ kind: 'release', leaseId: alice });
    const answers = await Promise.all([dave, bob, carol].map((leaseId) => world.ask(leaseId)));
    expect(answers).toEqual(['granted', 'held', 'held']);
  });
});
