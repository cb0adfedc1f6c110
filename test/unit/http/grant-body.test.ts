import { describe, expect, it } from 'vitest';
import { grantBody } from '../../../src/http/locks.ts';
import { type Holder, unusedLock } from '../../../src/lock/state.ts';
import { epochMs } from '../../../src/time/clock.ts';

describe('the answer to a grant', () => {
  it('never has a negative wait, even if the clocks of two hosts differ', () => {
    const acquiredAt = epochMs(1_800_000_000_000);
    const holder: Holder = {
      leaseId: 'lease-of-a-waiter',
      owner: 'me',
      permits: 1,
      leaseMs: 30_000,
      fence: 1,
      acquiredAt,
      expiresAt: epochMs(acquiredAt + 30_000),
      // By a clock that is ahead of the other one.
      queuedAt: epochMs(acquiredAt + 40),
    };
    const facts = { now: acquiredAt, graceMs: 250 };
    expect(grantBody({ namespace: 'test', name: 'a' }, holder, unusedLock, facts).waitedMs).toBe(0);
    const queuedAt = epochMs(acquiredAt - 1_500);
    expect(grantBody({ namespace: 'test', name: 'a' }, { ...holder, queuedAt }, unusedLock, facts).waitedMs).toBe(
      1_500,
    );
  });
});
