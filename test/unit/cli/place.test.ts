import { describe, expect, it } from 'vitest';
import { describePlace, placeOfView, placeOfWaiting } from '../../../src/cli/place.ts';
import type { LockView } from '../../../src/client/index.ts';

const waiter = (owner: string, position: number) => ({ owner, position, waitingMs: 5, permits: 1 });

const view: LockView = {
  lock: 'job',
  state: 'held',
  fence: 9,
  limit: 1,
  holders: [{ owner: 'alice', fence: 9, remainingMs: 12_000, permits: 1, acquiredAt: '2026-01-01T00:00:00.000Z' }],
  queue: [waiter('bob', 1), waiter('me', 2)],
  queueDepth: 2,
};

describe('describePlace', () => {
  it('says little before anything is known', () => {
    expect(describePlace('job', undefined, 1_200, 0)).toBe('waiting for job · 1.2s');
  });

  it("counts the service's estimate down", () => {
    const waiting = { position: 2, queueDepth: 3, holders: view.holders, etaMs: 30_000, waitRemainingMs: 60_000 };
    const place = placeOfWaiting(waiting, 1_000);
    expect(describePlace('job', place, 0, 11_000)).toBe(
      'waiting for job · place 2 of 3 · held by alice · ETA 20s · 0ms',
    );
    expect(describePlace('job', place, 0, 99_000)).toContain('ETA 0ms');
  });

  it('shows the end of the lease only to the next waiter', () => {
    const next = placeOfView({ ...view, queue: [waiter('me', 1)], queueDepth: 1 }, 'me', 0);
    expect(describePlace('job', next, 0, 2_000)).toContain('place 1 of 1 · held by alice · ETA 10s unless renewed');
    const later = describePlace('job', placeOfView(view, 'me', 0), 0, 0);
    expect(later).toContain('place 2 of 2');
    expect(later).not.toContain('ETA');
  });

  it('expects the lock when the first of several holders ends', () => {
    const [holder] = view.holders as [(typeof view.holders)[number]];
    const holders = [holder, { ...holder, remainingMs: 4_000 }, { ...holder, remainingMs: null }];
    const next = placeOfView({ ...view, holders, queue: [waiter('me', 1)] }, 'me', 0);
    expect(describePlace('job', next, 0, 0)).toContain('ETA 4s unless renewed');
  });

  it('shows no place if the queue does not show our waiter', () => {
    expect(describePlace('job', placeOfView(view, 'nobody', 0), 0, 0)).not.toContain('place');
  });

  it('makes the name of a holder harmless', () => {
    const [holder] = view.holders;
    const hostile = { ...view, holders: [{ ...(holder as (typeof view.holders)[number]), owner: 'x\u001b[2J' }] };
    expect(describePlace('job', placeOfView(hostile, 'me', 0), 0, 0)).toContain('held by x\ufffd[2J');
  });
});
