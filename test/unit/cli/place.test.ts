import { describe, expect, it } from 'vitest';
import { describePlace, Progress, placeOfView, placeOfWaiting } from '../../../src/cli/place.ts';
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

const wait = { beganMs: 0, endsMs: 60_000 };

describe('describePlace', () => {
  it('says how long is left of the wait before anything else is known', () => {
    expect(describePlace('job', undefined, wait, 1_200)).toBe('waiting for job · gives up in 58s');
  });

  it('says how long it has waited if the wait has no end', () => {
    const endless = { beganMs: 500, endsMs: undefined };
    expect(describePlace('job', undefined, endless, 1_700)).toBe('waiting for job · waited 1.2s');
  });

  it("counts the service's estimate down, and drops it when it was wrong", () => {
    const waiting = { position: 2, queueDepth: 3, holders: view.holders, etaMs: 30_000, waitRemainingMs: 60_000 };
    const place = placeOfWaiting(waiting, 1_000);
    expect(describePlace('job', place, wait, 11_000)).toBe(
      'waiting for job · place 2 of 3 · held by alice · about 20s to go · gives up in 49s',
    );
    expect(describePlace('job', place, wait, 99_000)).toBe(
      'waiting for job · place 2 of 3 · held by alice · gives up in 0ms',
    );
  });

  it('never counts down to the end of a lease, which its holder may renew', () => {
    const next = placeOfView({ ...view, queue: [waiter('me', 1)], queueDepth: 1 }, 'me');
    expect(describePlace('job', next, wait, 2_000)).toMatch(
      /place 1 of 1 · held by alice since Jan 01 \d\d:\d\d:\d\d · gives up in 58s$/,
    );
  });

  it('leaves out the day if the hold began today', () => {
    const [holder] = view.holders as [(typeof view.holders)[number]];
    const since = new Date();
    const today = { ...view, holders: [{ ...holder, acquiredAt: since.toISOString() }] };
    const time = since.toTimeString().slice(0, 8);
    expect(describePlace('job', placeOfView(today, 'me'), wait, 0)).toContain(`held by alice since ${time} ·`);
  });

  it('shows no place if the queue does not show our waiter', () => {
    expect(describePlace('job', placeOfView(view, 'nobody'), wait, 0)).not.toContain('place');
  });

  it('makes the name of a holder harmless', () => {
    const [holder] = view.holders;
    const hostile = { ...view, holders: [{ ...(holder as (typeof view.holders)[number]), owner: 'x\u001b[2J' }] };
    expect(describePlace('job', placeOfView(hostile, 'me'), wait, 0)).toContain('held by x\ufffd[2J');
  });
});

describe('Progress', () => {
  it('has no estimate while the queue does not move', () => {
    const progress = new Progress();
    for (const atMs of [0, 2_000, 60_000]) expect(progress.note(3, atMs)).toBeUndefined();
    expect(progress.note(undefined, 61_000)).toBeUndefined();
  });

  it('expects the queue to move on as fast as it did', () => {
    const progress = new Progress();
    progress.note(6, 0);
    expect(progress.note(4, 10_000)).toBe(10_000 + 4 * 5_000);
    expect(progress.note(4, 12_000), 'the same place later').toBe(30_000);
    expect(progress.note(1, 20_000)).toBe(24_000);
  });
});
