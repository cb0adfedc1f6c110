import { randomUUID } from 'node:crypto';
import { GetCommand, PutCommand } from '@aws-sdk/lib-dynamodb';
import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import type { Acquire, Facts, LockCommand } from '../../src/lock/commands.ts';
import { decide } from '../../src/lock/decide.ts';
import { lockLimits } from '../../src/lock/limits.ts';
import { queueSizes } from '../../src/lock/pages.ts';
import { type LockKey, type LockState, permitsHeld, unusedLock, type Waiter } from '../../src/lock/state.ts';
import { lockItemKey, toLockItem } from '../../src/store/dynamodb/lock-item.ts';
import { DynamoDBLockStore, retentionMsDefault } from '../../src/store/dynamodb/lock-store.ts';
import { epochMs } from '../../src/time/clock.ts';
import { drawn, freshTable } from '../support/engine.ts';
import { expectSameItem } from '../support/lock-items.ts';
import { acquireOf, commands, startOfTime, steps, stepWorld, type World, worlds } from '../support/lock-worlds.ts';

let store: DynamoDBLockStore;
let put: (key: LockKey, state: LockState) => Promise<unknown>;
let rawItem: (key: LockKey) => Promise<Record<string, unknown>>;

beforeAll(async () => {
  const { access, own, tableName } = await freshTable();
  store = new DynamoDBLockStore(access);
  put = (key, state) =>
    own.send(new PutCommand({ TableName: tableName, Item: toLockItem(key, state, retentionMsDefault) }));
  rawItem = async (key) => {
    const input = { TableName: tableName, Key: lockItemKey(key), ConsistentRead: true };
    return (await own.send(new GetCommand(input))).Item ?? {};
  };
});

/** A new lock for each run, in the given state. */
async function lockIn({ state }: World): Promise<LockKey> {
  const key = { namespace: 'equivalence', name: randomUUID() };
  if (state.rev > 0) await put(key, state);
  return key;
}

/** The cases that must not need a second request. */
function isCommonCase(before: LockState, command: LockCommand, facts: Facts): boolean {
  const { answer, next } = decide(before, command, facts);
  if (before.holders.some(({ leaseMs }) => leaseMs === null)) return false;
  const head = before.queue[0];
  switch (command.kind) {
    case 'acquire':
      return (
        answer.kind === 'granted' &&
        next !== before &&
        head === undefined &&
        (permitsHeld(before) === 0 ||
          (before.limit === command.limit && permitsHeld(before) + command.permits <= before.limit))
      );
    case 'renew':
      return answer.kind === 'granted';
    case 'release': {
      const whole = before.holders.some((holder) => holder.permits === before.limit);
      const headIsServed =
        whole && head?.permits === before.limit && facts.now < head.presentUntil && head.sessionId === undefined;
      const isInTime = answer.kind === 'released' && answer.reason === 'ok' && answer.isExpired !== true;
      return isInTime && (head === undefined || headIsServed);
    }
    default:
      return false;
  }
}

const runs = { numRuns: drawn(400) };

/** Random leases rarely hold, so the holder is asked as often as all others together. */
const asked = fc.option(commands, { nil: 'the holder releases' as const, freq: 1 });
/** Random commands rarely make a lock that somebody waits for, so half of the worlds begin with one. */
const awaited: fc.Arbitrary<World> = fc.array(steps, { maxLength: 3 }).map((taken) =>
  [
    ...['a', 'b', 'c'].map((one) => ({
      afterMs: 1,
      command: acquireOf(`lease-${one}-0000000000`, { waitMs: 60_000, leaseMs: 60_000 }),
    })),
    ...taken,
  ].reduce<World>((world, step) => stepWorld(world, step), { state: unusedLock, now: startOfTime }),
);
const releaseOfHolder = ({ holders }: LockState): LockCommand => ({
  kind: 'release',
  leaseId: holders[0]?.leaseId ?? 'lease-a-0000000000',
});

describe('a direct write', () => {
  it('makes the same state as decide, and is refused only outside the common case', async () => {
    const seen = { applied: 0, refused: 0, handedOff: 0 };
    await fc.assert(
      fc.asyncProperty(
        fc.oneof(worlds, awaited),
        asked,
        fc.constantFrom(0, 1, 900, 1_100, 5_500),
        async (world, ask, afterMs) => {
          const command = ask === 'the holder releases' ? releaseOfHolder(world.state) : ask;
          const facts: Facts = { now: epochMs(world.now + afterMs), graceMs: lockLimits.graceMs };
          const expected = decide(world.state, command, facts);
          const key = await lockIn(world);

          const written = await store.attempt(key, command, facts);

          if (written.applied) {
            seen.applied += 1;
            if (command.kind === 'release' && expected.next.fence > world.state.fence) seen.handedOff += 1;
            expect(written.state).toEqual(expected.next);
            expect(await store.read(key)).toEqual(expected.next);
            expectSameItem(await rawItem(key), key, expected.next);
          } else {
            seen.refused += 1;
            expect(written.state).toEqual(world.state);
            expect(isCommonCase(world.state, command, facts), 'a common case was refused').toBe(false);
          }
        },
      ),
      runs,
    );
    // A generator that never reaches the interesting cases would prove nothing.
    expect(seen.applied).toBeGreaterThan(drawn(50));
    expect(seen.refused).toBeGreaterThan(drawn(50));
    expect(seen.handedOff).toBeGreaterThan(drawn(10));
  });
});

/** A holder with or without a session, and the next command. Random states rarely have these. */
const part = { limit: 3, permits: 1 };
const bySession = { leaseMs: null, sessionId: 'session-1' };
const plainPart = acquireOf('lease-a-0000000000', part);
const boundPart = acquireOf('lease-b-0000000000', { ...part, ...bySession });
const boundWhole = acquireOf('lease-b-0000000000', bySession);
const held: Record<string, readonly LockCommand[]> = {
  'nobody ever': [],
  nobody: [plainPart, { kind: 'release', leaseId: plainPart.leaseId }],
  'a lease': [plainPart],
  'a session': [boundPart],
  'a lease and a session': [plainPart, boundPart],
  'a session as a whole': [boundWhole],
};
const askedNext: Record<string, LockCommand> = {
  'a part for a lease': acquireOf('lease-c-0000000000', part),
  'a part for a session': acquireOf('lease-c-0000000000', { ...part, ...bySession }),
  'the whole for a lease': acquireOf('lease-c-0000000000'),
  'the whole for a session': acquireOf('lease-c-0000000000', bySession),
  'a renewal of the lease': { kind: 'renew', leaseId: plainPart.leaseId },
  'a renewal of the lease for longer': { kind: 'renew', leaseId: plainPart.leaseId, leaseMs: 60_000 },
  'a renewal under the session': { kind: 'renew', leaseId: boundPart.leaseId },
  'a release of the lease': { kind: 'release', leaseId: plainPart.leaseId },
  'a release under the session': { kind: 'release', leaseId: boundPart.leaseId },
};

describe.each(Object.keys(held))('if %s holds', (holders) => {
  it.each(Object.keys(askedNext))('%s makes the same state as decide, or is refused', async (ask) => {
    const taken = held[holders] as readonly LockCommand[];
    const world = taken
      .map((command) => ({ afterMs: 5, command }))
      .reduce<World>((before, step) => stepWorld(before, step), { state: unusedLock, now: startOfTime });
    const facts: Facts = { now: epochMs(world.now + 3_000), graceMs: lockLimits.graceMs };
    const key = await lockIn(world);
    const command = askedNext[ask] as LockCommand;
    const expected = decide(world.state, command, facts);
    const written = await store.attempt(key, command, facts);
    if (written.applied) expect(written.state).toEqual(expected.next);
    expectSameItem(await rawItem(key), key, written.applied ? expected.next : world.state);
  });
});

describe('enqueue', () => {
  it('makes the same state as decide whenever it is applied', async () => {
    let applied = 0;
    await fc.assert(
      fc.asyncProperty(worlds, commands, async (world, command) => {
        const facts: Facts = { now: world.now, graceMs: lockLimits.graceMs };
        const expected = decide(world.state, command, facts);
        const arrived =
          expected.answer.kind === 'waiting' && expected.next.queue.length === world.state.queue.length + 1;
        fc.pre(command.kind === 'acquire' && arrived && expected.next.fence === world.state.fence);
        if (command.kind !== 'acquire' || expected.answer.kind !== 'waiting') return;
        const key = await lockIn(world);

        const written = await store.enqueue(key, {
          waiter: expected.answer.waiter,
          limit: command.limit,
          sizes: queueSizes,
        });

        expect(written.applied).toBe(true);
        expect(written.state).toEqual(expected.next);
        expectSameItem(await rawItem(key), key, expected.next, world.state);
        applied += 1;
        const again = await store.enqueue(key, {
          waiter: expected.answer.waiter,
          limit: command.limit,
          sizes: queueSizes,
        });
        expect(again.applied, 'the same waiter queued twice').toBe(false);
      }),
      { numRuns: drawn(100) },
    );
    expect(applied).toBeGreaterThan(drawn(20));
  });

  it('keeps the place of a waiter that asks again', async () => {
    let attended = 0;
    await fc.assert(
      fc.asyncProperty(worlds, fc.nat(), async (world, pick) => {
        fc.pre(world.state.queue.length > 0);
        const index = pick % world.state.queue.length;
        const { leaseId, permits, leaseMs } = world.state.queue[index] as Waiter;
        const command: Acquire = {
          ...acquireOf(leaseId, { leaseMs, waitMs: 5_000, attendMs: 777 }),
          limit: world.state.limit,
          permits,
        };
        const facts: Facts = { now: world.now, graceMs: lockLimits.graceMs };
        const expected = decide(world.state, command, facts);
        if (expected.change.kind !== 'attend') return;
        const { waiter } = expected.change;
        const key = await lockIn(world);

        const written = await store.attend(key, index, waiter, facts.now);

        expect(written).toEqual({ applied: true, state: expected.next });
        expectSameItem(await rawItem(key), key, expected.next, world.state);
        attended += 1;
        expect((await store.attend(key, index + 1, waiter, facts.now)).applied, 'another place was taken').toBe(false);
      }),
      { numRuns: drawn(100) },
    );
    expect(attended).toBeGreaterThan(drawn(10));
  });

  it('is refused if the lock can be granted', async () => {
    const key = { namespace: 'equivalence', name: randomUUID() };
    const waiter = {
      leaseId: 'lease-a-0000000000',
      owner: 'a',
      permits: 1_024,
      leaseMs: 1_000,
      queuedAt: startOfTime,
      deadlineAt: startOfTime,
      presentUntil: startOfTime,
    };
    expect(await store.enqueue(key, { waiter, limit: 1_024, sizes: queueSizes })).toMatchObject({
      applied: false,
      state: { rev: 0 },
    });
  });
});
