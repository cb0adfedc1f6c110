import { describe, expect, it } from 'vitest';
import { grantBody, renewalWithin, withinMaxima } from '../../../src/http/locks.ts';
import { type Holder, unusedLock } from '../../../src/lock/state.ts';
import type { LockContext } from '../../../src/service/context.ts';
import { epochMs } from '../../../src/time/clock.ts';

const deployment = { leaseMsMax: 10_000, waitMsMax: 60_000 } as LockContext;

describe('the maxima of a deployment', () => {
  it('refuse a value above them, by name', () => {
    expect(() => withinMaxima(deployment, { leaseMs: 10_001 })).toThrow(
      'leaseMs must be at most 10000 in this deployment, got 10001.',
    );
    expect(() => withinMaxima(deployment, { waitMs: 60_001 })).toThrow('waitMs must be at most 60000');
    expect(() => renewalWithin(deployment, { leaseMs: 10_001 })).toThrow('leaseMs');
  });

  it('accept a value within them', () => {
    expect(withinMaxima(deployment, { leaseMs: 10_000, waitMs: 60_000 })).toEqual({ leaseMs: 10_000, waitMs: 60_000 });
    expect(withinMaxima(deployment, { leaseMs: 5_000 })).toEqual({ leaseMs: 5_000 });
    expect(renewalWithin(deployment, { leaseMs: 10_000 })).toEqual({ leaseMs: 10_000 });
    expect(renewalWithin(deployment, {})).toEqual({});
  });

  it('do not limit a parked wait', () => {
    const parked = { leaseMs: 10_000, waitMs: 86_400_000, notify: { type: 'event', ref: 'order-7' } };
    expect(withinMaxima(deployment, parked)).toEqual(parked);
  });

  it('shorten a default lease, but not one under a session', () => {
    expect(withinMaxima(deployment, {})).toEqual({ leaseMs: 10_000 });
    expect(withinMaxima(deployment, { sessionId: 's' })).toEqual({ sessionId: 's' });
    expect(withinMaxima({} as LockContext, {})).toEqual({});
  });
});

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
    const waitedMs = (granted: Holder) =>
      grantBody({ namespace: 'test', name: 'a' }, 'lease-of-a-waiter', granted, { state: unusedLock, facts }).waitedMs;
    expect(waitedMs(holder)).toBe(0);
    const queuedAt = epochMs(acquiredAt - 1_500);
    expect(waitedMs({ ...holder, queuedAt })).toBe(1_500);
  });
});
