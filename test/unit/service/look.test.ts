import { describe, expect, it } from 'vitest';
import { lockLimits } from '../../../src/lock/limits.ts';
import { presentWaiters } from '../../../src/lock/view.ts';
import { apply } from '../../../src/service/apply.ts';
import { list } from '../../../src/service/look.ts';
import { memoryService } from '../../../src/testing/memory-service.ts';
import { seededRandom, VirtualTime } from '../../../src/testing/virtual-time.ts';
import { acquireOf } from '../../support/lock-worlds.ts';

const namespace = 'test';

function world() {
  const { locks } = memoryService(new VirtualTime(), seededRandom(1), () => {}).service;
  const take = (name: string, leaseId: string, more = {}) =>
    apply(locks, { namespace, name }, acquireOf(leaseId, more));
  const free = (name: string, leaseId: string) => apply(locks, { namespace, name }, { kind: 'release', leaseId });
  return { locks, take, free };
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
});
