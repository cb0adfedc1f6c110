import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Facts } from '../../src/lock/commands.ts';
import { decide } from '../../src/lock/decide.ts';
import { type LockState, unusedLock } from '../../src/lock/state.ts';
import { cycleThrough, stuckSessions, youngest } from '../../src/session/deadlock.ts';
import { epochMs } from '../../src/time/clock.ts';
import { acquireOf, startOfTime } from '../support/lock-worlds.ts';

type Locks = Map<string, LockState>;

const facts: Facts = { now: startOfTime, graceMs: 0 };
const sessionCount = 6;
const lockNames = ['l0', 'l1', 'l2', 'l3', 'l4'];
const limits = [1, 1, 1, 2, 3];

interface Ask {
  readonly session: number;
  readonly lock: number;
  readonly permits: number;
}

/**
 * Random acquires and waits. A session that waits asks for nothing more, like one thread of work. A few hold plain
 * leases.
 */
const worlds = fc
  .array(
    fc.record({
      session: fc.nat({ max: sessionCount }),
      lock: fc.nat({ max: lockNames.length - 1 }),
      permits: fc.integer({ min: 1, max: 3 }),
    }),
    { minLength: 1, maxLength: 24 },
  )
  .map(build);

function build(asks: readonly Ask[]): Locks {
  const locks: Locks = new Map(lockNames.map((name) => [name, unusedLock]));
  const waiting = new Set<number>();
  for (const [index, { session, lock, permits }] of asks.entries()) {
    const name = lockNames[lock] as string;
    const state = locks.get(name) as LockState;
    const sessionId = session === sessionCount ? undefined : `session-${session}`;
    const own = [...state.holders, ...state.queue].some(
      (claim) => claim.sessionId !== undefined && claim.sessionId === sessionId,
    );
    if (waiting.has(session) || own) continue;
    const limit = limits[lock] as number;
    const { next, answer } = decide(
      state,
      acquireOf(`lease-${index}-00000000000000`, {
        waitMs: 1_000_000,
        attendMs: null,
        limit,
        ...(limit > 1 ? { permits: Math.min(permits, limit) } : {}),
        ...(sessionId === undefined ? {} : { sessionId, leaseMs: null }),
      }),
      { ...facts, now: epochMs(startOfTime + index) },
    );
    locks.set(name, next);
    if (answer.kind === 'waiting' && sessionId !== undefined) waiting.add(session);
  }
  return locks;
}

/**
 * By brute force: every session that does not wait ends and releases all, until nothing changes. A session that still
 * waits then is stuck.
 */
function stuckByPlay(start: Locks): Set<string> {
  const locks: Locks = new Map(start);
  const waitingSessions = () =>
    new Set(
      [...locks.values()]
        .flatMap(({ queue }) => queue.map(({ sessionId }) => sessionId))
        .filter((id) => id !== undefined),
    );
  for (let moved = true; moved; ) {
    moved = false;
    const waiting = waitingSessions();
    for (const [name, state] of locks) {
      const free = state.holders.find(({ sessionId }) => sessionId === undefined || !waiting.has(sessionId));
      if (free === undefined) continue;
      locks.set(
        name,
        decide(state, { kind: 'release', leaseId: free.leaseId }, { ...facts, now: epochMs(startOfTime + 100) }).next,
      );
      moved = true;
    }
  }
  return waitingSessions();
}

const now: Facts = { now: epochMs(startOfTime + 100), graceMs: 0 };

describe('stuck sessions', () => {
  it('are those that would never be granted, even if all others release', () => {
    let deadlocks = 0;
    fc.assert(
      fc.property(worlds, (locks) => {
        const stuck = stuckSessions(locks, now);
        if (stuck.size > 0) deadlocks += 1;
        expect(stuck).toEqual(stuckByPlay(locks));
      }),
      { numRuns: 5_000 },
    );
    // A generator without deadlocks, or with nothing else, would prove nothing.
    expect(deadlocks).toBeGreaterThan(50);
    expect(deadlocks).toBeLessThan(4_900);
  });

  it('contain a cycle, and ending its youngest wait removes one reason to be stuck', () => {
    let broken = 0;
    fc.assert(
      fc.property(worlds, (locks) => {
        const stuck = stuckSessions(locks, now);
        const cycles = [...stuck]
          .map((sessionId) => cycleThrough(sessionId, locks, now))
          .filter((cycle) => cycle !== undefined);
        expect(cycles.length > 0, 'stuck without a cycle').toBe(stuck.size > 0);
        for (const cycle of cycles) {
          expect(new Set(cycle.map(({ sessionId }) => sessionId)).size).toBe(cycle.length);
          // Each session waits for a lock that the next one holds, or for which the next one is ahead in the queue.
          for (const [index, step] of cycle.entries()) {
            const next = cycle[(index + 1) % cycle.length];
            const state = locks.get(step.waitsFor) as LockState;
            const place = state.queue.findIndex(({ leaseId }) => leaseId === step.leaseId);
            const ahead = [...state.holders, ...state.queue.slice(0, place)].map(({ sessionId }) => sessionId);
            expect(ahead).toContain(next?.sessionId);
          }
          const victim = youngest(cycle);
          expect(Math.max(...cycle.map(({ queuedAt }) => queuedAt))).toBe(victim.queuedAt);
        }
        const [cycle] = cycles;
        if (cycle === undefined) return;
        const victim = youngest(cycle);
        const state = locks.get(victim.waitsFor) as LockState;
        const after = new Map(locks).set(
          victim.waitsFor,
          decide(state, { kind: 'give-up', leaseId: victim.leaseId, deadlock: '[]' }, now).next,
        );
        expect(stuckSessions(after, now).size).toBeLessThan(stuck.size);
        broken += 1;
      }),
      { numRuns: 5_000 },
    );
    expect(broken).toBeGreaterThan(30);
  });
});
