import type { Context, SQSEvent } from 'aws-lambda';
import { describe, expect, it } from 'vitest';
import { lockLimits } from '../../../src/lock/limits.ts';
import { createReaperHandler, type ReaperEvent } from '../../../src/notify/aws/reaper-handler.ts';
import type { LockTimers } from '../../../src/notify/ports.ts';
import { createReaper } from '../../../src/notify/reaper.ts';
import { epochMs } from '../../../src/time/clock.ts';
import { lockIn } from '../../support/memory-table.ts';
import { createWorld, lockKey } from './world.ts';

const holder = 'lease-holder-00001';
const event = (ref: string) => ({ type: 'event', ref }) as const;

describe('the reaper', () => {
  it('grants to a parked waiter as soon as a dead holder may be taken over, even if nobody asks', async () => {
    const world = createWorld();
    await world.acquire(holder, { leaseMs: 5_000 });
    await world.park('lease-waiter-00001', event('first'));
    await world.drain();
    await world.clock.advance(5_000 + lockLimits.graceMs - 1);
    expect(world.records()).toHaveLength(2);
    await world.clock.advance(1);
    await world.drain();
    expect(world.toldRefs()).toEqual(['first']);
  });

  it('goes on while there is a queue: each holder that never answers is taken over in turn', async () => {
    const world = createWorld();
    await world.acquire(holder, { leaseMs: 1_000 });
    for (let index = 1; index <= 5; index++) {
      await world.park(`lease-waiter-0000${index}`, event(`${index}`), { leaseMs: 1_000 });
    }
    await world.drain();
    for (let turn = 1; turn <= 5; turn++) {
      await world.clock.advance(1_000 + lockLimits.graceMs);
      await world.drain();
      expect(world.toldRefs()).toHaveLength(turn);
    }
    expect([world.toldRefs(), world.timers.size]).toEqual([['1', '2', '3', '4', '5'], 0]);
  });

  it('waits for a holder that renews, with one timer and one look for each lease', async () => {
    const world = createWorld();
    await world.acquire(holder, { leaseMs: 5_000 });
    await world.park('lease-waiter-00001', event('first'));
    for (let renewal = 0; renewal < 40; renewal++) {
      await world.drain();
      expect(world.timers.size).toBe(1);
      await world.clock.advance(1_000);
      await world.do({ kind: 'renew', leaseId: holder });
    }
    expect(world.toldRefs()).toEqual([]);
    await world.clock.advance(5_000 + lockLimits.graceMs);
    await world.drain();
    expect(world.toldRefs()).toEqual(['first']);
  });

  it('looks at the time of the last of several changes in one batch, and not of the first', async () => {
    const world = createWorld();
    await world.acquire(holder, { leaseMs: 60_000 });
    await world.park('lease-waiter-00001', event('first'));
    await world.do({ kind: 'renew', leaseId: holder, leaseMs: 2_000 });
    await world.drain();
    await world.clock.advance(2_000 + lockLimits.graceMs);
    await world.drain();
    expect(world.toldRefs()).toEqual(['first']);
  });

  it('ends the wait of a parked waiter at its deadline', async () => {
    const world = createWorld();
    await world.acquire(holder, { leaseMs: 60_000 });
    await world.park('lease-waiter-00001', { type: 'task-token', token: 'token-1' }, { waitMs: 3_000 });
    await world.drain();
    await world.clock.advance(3_000);
    await world.drain();
    expect(world.tasks).toEqual([{ token: 'token-1', error: 'Holdfast.WaitTimeout' }]);
    expect(await world.historyTypes()).toEqual(['granted', 'queued', 'wait-timeout']);
  });

  it('ends the wait of a waiter in a page at its deadline, whether it joined parked or parked later', async () => {
    const world = createWorld({ sizes: { front: 1, page: 2 } });
    await world.acquire(holder, { leaseMs: 60_000 });
    await world.acquire('lease-waiter-00001', { waitMs: 50_000, attendMs: 50_000 });
    await world.park('lease-waiter-00002', { type: 'task-token', token: 'token-2' }, { waitMs: 20_000 });
    // As the SDK does: it polls for a while, and then parks in the place that it has.
    const socket = { type: 'websocket', connectionId: 'connection-1' } as const;
    await world.acquire('lease-waiter-00003', { waitMs: 10_000, attendMs: 20_000 });
    await world.drain();
    await world.park('lease-waiter-00003', socket, { waitMs: 10_000 });
    await world.drain();
    await world.clock.advance(10_000);
    await world.drain();
    expect(world.posted.map(({ text }) => JSON.parse(text))).toMatchObject([
      { type: 'wait-ended', leaseId: 'lease-waiter-00003' },
    ]);
    await world.clock.advance(10_000);
    await world.drain();
    expect(world.tasks).toEqual([{ token: 'token-2', error: 'Holdfast.WaitTimeout' }]);
  });

  it('finds locks of lost timers by its schedule, and removes locks without waiters from its list', async () => {
    const world = createWorld();
    const idle = { namespace: 'test', name: 'idle' };
    await world.acquire(holder, { leaseMs: 1_000 });
    await world.park('lease-waiter-00001', event('first'));
    await world.park('lease-waiter-00002', event('second'));
    await world.strand(idle);
    expect((await world.awaitedNames()).sort()).toEqual(['idle', 'wallet']);
    // No function has read the stream, so no timer is set.
    await world.clock.advance(10_000);
    const swept = await world.reaper.sweepAwaited(epochMs(world.clock.now() + 1_000));
    expect(swept).toEqual({ looked: 2, failed: 0, complete: true });
    expect([await world.awaitedNames(), world.timers.size]).toEqual([['wallet'], 1]);
    await world.drain();
    expect(world.toldRefs()).toEqual(['first']);
  });

  it('keeps a lock in its list whose waiters are all in pages', async () => {
    const world = createWorld({ sizes: { front: 1, page: 2 } });
    await world.acquire(holder, { leaseMs: 60_000 });
    await world.park('lease-waiter-00001', event('first'));
    await world.park('lease-waiter-00002', event('second'));
    await world.release('lease-waiter-00001');
    expect(await world.store.read(lockKey)).toMatchObject({ queue: [], behind: {} });
    await world.reaper.sweepAwaited(epochMs(world.clock.now() + 1_000));
    expect(await world.awaitedNames()).toEqual(['wallet']);
  });

  it('does not rely on the timer that has just fired', async () => {
    const world = createWorld();
    await world.acquire(holder, { leaseMs: 60_000 });
    await world.park('lease-waiter-00001', event('first'));
    const armed: (number | undefined)[] = [];
    const timers: LockTimers = { arm: async (_key, _at, fired) => void armed.push(fired) };
    const { locks, awaited, ports } = world;
    const reaper = createReaper({ locks, timers, awaited, log: ports.log });
    const fired = world.clock.now();
    await reaper.look(lockKey, fired);
    expect(armed).toEqual([fired]);
  });

  it('goes on with the other locks if one fails, and counts it', async () => {
    const world = createWorld();
    const broken = { namespace: 'test', name: 'broken' };
    await world.acquire(holder, { leaseMs: 1_000 });
    await world.park('lease-waiter-00001', event('first'));
    await world.strand(broken);
    world.table.before = (operation, request) => {
      if (operation !== 'Query' && lockIn(request) === 'broken') throw new Error('out of reach');
    };
    await world.clock.advance(10_000);
    const swept = await world.reaper.sweepAwaited(epochMs(world.clock.now() + 1_000));
    expect(swept).toEqual({ looked: 2, failed: 1, complete: true });
    expect((await world.store.read(lockKey)).holders).toMatchObject([{ leaseId: 'lease-waiter-00001' }]);
    expect(await world.awaitedNames(), 'a lock that could not be read may still be awaited').toContain('broken');
    expect(world.logged).toMatchObject([{ fields: { namespace: 'test', error: expect.stringContaining('reach') } }]);
  });

  it('does not even try to forget a lock that is awaited', async () => {
    const world = createWorld();
    await world.acquire(holder, { leaseMs: 60_000 });
    await world.park('lease-waiter-00001', event('first'));
    world.table.take();
    await world.reaper.sweepAwaited(epochMs(world.clock.now() + 1_000));
    expect(world.table.take()).not.toContain('forget awaited');
  });

  it('has swept everything if nothing is awaited', async () => {
    const world = createWorld();
    expect(await world.reaper.sweepAwaited(world.clock.now())).toEqual({ looked: 0, failed: 0, complete: true });
  });

  it('stops sweeping when its time is up, and says so', async () => {
    const world = createWorld();
    await world.strand(lockKey);
    expect(await world.reaper.sweepAwaited(world.clock.now())).toEqual({ looked: 0, failed: 0, complete: false });
  });
});

describe('the reaper as a function', () => {
  const context = { getRemainingTimeInMillis: () => 60_000 } as Context;
  const messages = (...bodies: string[]) =>
    ({ Records: bodies.map((body, index) => ({ messageId: `message-${index}`, body })) }) as SQSEvent;

  it('looks at the lock of each timer, and reports only the message that it could not read', async () => {
    const world = createWorld();
    const handler = createReaperHandler(world.reaper, { clock: world.clock, log: world.ports.log });
    await world.acquire(holder, { leaseMs: 1_000 });
    await world.park('lease-waiter-00001', event('first'));
    await world.clock.advance(2_000);
    const timer = JSON.stringify({ namespace: 'test', lock: 'wallet', firesAt: world.clock.now() });
    expect(await handler(messages('{"lock":7}', timer, 'no json'), context)).toEqual({
      batchItemFailures: [{ itemIdentifier: 'message-0' }, { itemIdentifier: 'message-2' }],
    });
    expect(world.logged).toMatchObject([
      { message: 'A timer failed. SQS delivers it again.', fields: { messageId: 'message-0' } },
      { message: 'A timer failed. SQS delivers it again.', fields: { messageId: 'message-2' } },
    ]);
    expect((await world.store.read(lockKey)).holders[0]?.leaseId).toBe('lease-waiter-00001');
  });

  it('sweeps locks with waiters when the schedule calls', async () => {
    const world = createWorld();
    const handler = createReaperHandler(world.reaper, { clock: world.clock, log: world.ports.log });
    await world.acquire(holder, { leaseMs: 1_000 });
    await world.park('lease-waiter-00001', event('first'));
    await world.clock.advance(2_000);
    const scheduled = { source: 'aws.events', 'detail-type': 'Scheduled Event', detail: {} } as ReaperEvent;
    expect(await handler(scheduled, context)).toEqual({ batchItemFailures: [] });
    expect((await world.store.read(lockKey)).holders[0]?.leaseId).toBe('lease-waiter-00001');
  });

  it('stops five seconds before its time is up, so that it can still answer', async () => {
    const world = createWorld();
    const handler = createReaperHandler(world.reaper, { clock: world.clock, log: world.ports.log });
    await world.strand(lockKey);
    const scheduled = { source: 'aws.events', 'detail-type': 'Scheduled Event', detail: {} } as ReaperEvent;
    for (const leftMs of [5_000, 5_001])
      await handler(scheduled, { getRemainingTimeInMillis: () => leftMs } as Context);
    expect(world.logged.map(({ fields }) => (fields as { looked: number }).looked)).toEqual([0, 1]);
    expect(world.logged[0]?.message).toBe('Awaited locks were swept.');
  });

  it('sets the next timer if one fires too early', async () => {
    const world = createWorld();
    const handler = createReaperHandler(world.reaper, { clock: world.clock, log: world.ports.log });
    await world.acquire(holder, { leaseMs: 60_000 });
    await world.park('lease-waiter-00001', event('first'));
    expect(world.timers.size).toBe(0);
    const timer = JSON.stringify({ namespace: 'test', lock: 'wallet', firesAt: world.clock.now() });
    await handler(messages(timer), context);
    expect(world.timers.size).toBe(1);
  });
});
