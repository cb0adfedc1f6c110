import { describe, expect, it } from 'vitest';
import { lockLimits } from '../../../src/lock/limits.ts';
import type { Applied } from '../../../src/service/apply.ts';
import { RefusalMemory } from '../../../src/service/refusal-memory.ts';
import { acquireOf } from '../../support/lock-worlds.ts';
import { alice, bob, carol } from '../lock/story.ts';
import { key, SeenLock } from './world.ts';

/** Callers of the efficiency tier on a lock that alice holds, and how often the store was asked for them. */
async function stampede(leaseMs = 30_000) {
  const lock = new SeenLock();
  const memory = new RefusalMemory(lock.time);
  lock.write(acquireOf(alice, { leaseMs }));
  const world = { lock, memory, asked: 0, answer: 'held' as 'held' | 'limit-mismatch', ask };
  async function ask(leaseId: string, name = key.name, permits = 1_024): Promise<Applied['answer']['kind']> {
    const facts = await lock.facts();
    const { limit } = acquireOf(leaseId);
    const applied = await memory.answer(
      { key: { ...key, name }, leaseId, limit, permits },
      () => facts,
      async () => {
        world.asked += 1;
        return { answer: { kind: world.answer }, state: lock.state, facts };
      },
    );
    return applied.answer.kind;
  }
  return world;
}

describe('a refusal that is remembered', () => {
  it('answers others for a fifth of a second, and no longer', async () => {
    const world = await stampede();
    await world.ask(bob);
    await world.lock.time.advance(199);
    expect(await world.ask(carol)).toBe('held');
    expect(world.asked).toBe(1);
    await world.lock.time.advance(1);
    await world.ask(carol);
    expect(world.asked).toBe(2);
  });

  it('is not kept past the instant at which the lock may be taken over', async () => {
    const world = await stampede(1_000);
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
    const world = await stampede();
    await world.ask(bob);
    world.memory.forget(key);
    await world.ask(carol);
    expect(world.asked).toBe(2);
  });

  it('does not answer a lease that the lock knows: a repeat must find its grant', async () => {
    const world = await stampede();
    await world.ask(bob);
    await world.ask(alice);
    expect(world.asked).toBe(2);
  });

  it('does not answer who asks for fewer permits', async () => {
    const world = await stampede();
    await world.ask(bob);
    await world.ask(carol, key.name, 1);
    expect(world.asked).toBe(2);
  });

  it('is no other answer than that the lock is held', async () => {
    const world = await stampede();
    world.answer = 'limit-mismatch';
    await world.ask(bob);
    await world.ask(carol);
    expect(world.asked).toBe(2);
  });

  it('comes once for callers that arrive together', async () => {
    const world = await stampede();
    const answers = await Promise.all(Array.from({ length: 200 }, (_, index) => world.ask(`lease-of-${index}-00000`)));
    expect(new Set(answers)).toEqual(new Set(['held']));
    expect(world.asked).toBe(1);
  });

  it('is kept for a thousand locks, and the oldest goes first', async () => {
    const world = await stampede();
    for (let index = 0; index <= 1_000; index++) await world.ask(bob, `lock-${index}`);
    world.asked = 0;
    await world.ask(carol, 'lock-1000');
    await world.ask(carol, 'lock-1');
    expect(world.asked).toBe(0);
    await world.ask(carol, 'lock-0');
    expect(world.asked).toBe(1);
  });
});

describe('a grant', () => {
  it('never comes from memory', async () => {
    const lock = new SeenLock();
    const memory = new RefusalMemory(lock.time);
    const facts = await lock.facts();
    const take = (leaseId: string) => {
      const { limit, permits } = acquireOf(leaseId);
      return memory.answer(
        { key, leaseId, limit, permits },
        () => facts,
        async () => {
          const state = lock.write(acquireOf(leaseId));
          const holder = state.holders.find((candidate) => candidate.leaseId === leaseId);
          return { answer: holder === undefined ? { kind: 'held' } : { kind: 'granted', holder }, state, facts };
        },
      );
    };
    const answers = await Promise.all([alice, bob, carol].map(take));
    expect(answers.map(({ answer }) => answer.kind)).toEqual(['granted', 'held', 'held']);
  });
});
