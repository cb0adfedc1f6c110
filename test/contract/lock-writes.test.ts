import { randomUUID } from 'node:crypto';
import { GetCommand, PutCommand } from '@aws-sdk/lib-dynamodb';
import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import type { Acquire, Facts, LockCommand } from '../../src/lock/commands.ts';
import { decide } from '../../src/lock/decide.ts';
import { lockLimits } from '../../src/lock/limits.ts';
import { type LockKey, type LockState, unusedLock, type Waiter } from '../../src/lock/state.ts';
import { lockItemKey, toLockItem } from '../../src/queue/lock-item.ts';
import { LockStore, retentionMsDefault } from '../../src/queue/lock-store.ts';
import { queueSizes } from '../../src/queue/pages.ts';
import { epochMs } from '../../src/time/clock.ts';
import { drawn, freshTable } from '../support/engine.ts';
import { expectSameItem } from '../support/lock-items.ts';
import { acquireOf, commands, startOfTime, steps, stepWorld, type World, worlds } from '../support/lock-worlds.ts';

let store: LockStore;
let put: (key: LockKey, state: LockState) => Promise<unknown>;
let rawItem: (key: LockKey) => Promise<Record<string, unknown>>;

beforeAll(async () => {
  const { access, own, tableName } = await freshTable();
  store = new LockStore(access);
  put = (key, state) =>
    own.send(new PutCommand({ TableName: tableName, Item: toLockItem(key, state, retentionMsDefault) }));
  rawItem = async (key) => {
    const input = { TableName: tableName, Key: lockItemKey(key), ConsistentRead: true };
    return (await own.send(new GetCommand(input))).Item ?? {};
  };
});

const arrivalOf = (waiter: Waiter, limit: number) =>
  ({ kind: 'arrive', waiter, limit, frontLengthMax: queueSizes.front }) as const;

/** What no rule depends on. */
const ruled = ({ usual: _, ...state }: LockState) => state;

/** A new lock for each run, in the given state. */
async function lockIn({ state }: World): Promise<LockKey> {
  const key = { namespace: 'equivalence', name: randomUUID() };
  if (state.rev > 0) await put(key, state);
  return key;
}

const runs = { numRuns: drawn(600) };

/** Random leases rarely hold, so the holder is asked as often as all others together. */
const asked = fc.oneof(
  { weight: 2, arbitrary: commands },
  { weight: 1, arbitrary: fc.constant('release' as const) },
  { weight: 1, arbitrary: fc.constant('renew' as const) },
);
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
const ofHolder = (kind: 'release' | 'renew', { holders }: LockState): LockCommand => ({
  kind,
  leaseId: holders[0]?.leaseId ?? 'lease-a-0000000000',
});

describe('a direct write', () => {
  it('makes the same state as decide, or is refused and shows the state', async () => {
    const seen = { acquire: 0, renew: 0, release: 0, refused: 0, handedOff: 0 };
    await fc.assert(
      fc.asyncProperty(
        fc.oneof(worlds, awaited),
        asked,
        fc.constantFrom(0, 1, 900, 1_100, 5_500),
        fc.boolean(),
        async (world, ask, afterMs, isKnown) => {
          const command = typeof ask === 'string' ? ofHolder(ask, world.state) : ask;
          const facts: Facts = { now: epochMs(world.now + afterMs), graceMs: lockLimits.graceMs };
          const expected = decide(world.state, command, facts);
          const key = await lockIn(world);

          const written = await store.attempt(key, command, facts, isKnown ? await store.read(key) : undefined);

          if (written.applied) {
            seen[command.kind as 'acquire'] += 1;
            if (command.kind === 'release' && expected.next.fence > world.state.fence) seen.handedOff += 1;
            expect(ruled(written.state)).toEqual(ruled(expected.next));
            expect(ruled(await store.read(key))).toEqual(ruled(expected.next));
            expectSameItem(await rawItem(key), key, expected.next);
          } else {
            seen.refused += 1;
            expect(ruled(written.state)).toEqual(ruled(world.state));
          }
        },
      ),
      runs,
    );
    // A generator that never reaches the interesting cases would prove nothing.
    expect(seen.acquire).toBeGreaterThan(drawn(4));
    expect(seen.renew).toBeGreaterThan(drawn(10));
    expect(seen.release).toBeGreaterThan(drawn(20));
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
    if (written.applied) expect(ruled(written.state)).toEqual(ruled(expected.next));
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

        const written = await store.write(key, arrivalOf(expected.answer.waiter, command.limit));

        expect(written.applied).toBe(true);
        expect(ruled(written.state)).toEqual(ruled(expected.next));
        expectSameItem(await rawItem(key), key, expected.next, world.state);
        applied += 1;
        const again = await store.write(key, arrivalOf(expected.answer.waiter, command.limit));
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

        const written = await store.write(key, { kind: 'attend', index: index, waiter: waiter, now: facts.now });

        expect({ ...written, state: ruled(written.state) }).toEqual({ applied: true, state: ruled(expected.next) });
        expectSameItem(await rawItem(key), key, expected.next, world.state);
        attended += 1;
        expect(
          (await store.write(key, { kind: 'attend', index: index + 1, waiter: waiter, now: facts.now })).applied,
          'another place was taken',
        ).toBe(false);
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
    expect(await store.write(key, arrivalOf(waiter, 1_024))).toMatchObject({
      applied: false,
      state: { rev: 0 },
    });
  });
});
