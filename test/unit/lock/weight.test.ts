import { describe, expect, it } from 'vitest';
import type { Waiter } from '../../../src/lock/state.ts';
import { weightOf } from '../../../src/lock/state.ts';
import { startOfTime } from '../../support/lock-worlds.ts';

const waiterNamed = (owner: string): Waiter => ({
  leaseId: 'lease-a-0000000000',
  owner,
  permits: 1_024,
  leaseMs: 1_000,
  queuedAt: startOfTime,
  deadlineAt: startOfTime,
  aliveUntil: startOfTime,
});

describe('the weight of a waiter', () => {
  it('counts bytes, as the table does, and not characters', () => {
    const ascii = weightOf(waiterNamed('x'.repeat(100)));
    expect(weightOf(waiterNamed('é'.repeat(100))) - ascii).toBe(100);
    expect(weightOf(waiterNamed('🔒'.repeat(50))) - ascii).toBe(100);
  });

  it('stays the same while the waiter waits', () => {
    const waiter = waiterNamed('x');
    expect(weightOf({ ...waiter, aliveUntil: (waiter.aliveUntil * 100) as typeof startOfTime })).toBe(weightOf(waiter));
  });
});
