import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decide } from '../../src/lock/decide.ts';
import { lockLimits } from '../../src/lock/limits.ts';
import { type LockState, permitsHeld, unusedLock } from '../../src/lock/state.ts';
import { type Step, startOfTime, steps, stepWorld, type World } from '../support/lock-worlds.ts';

const histories = fc.array(steps, { maxLength: 60 });
const runs = { numRuns: 2_000 };

/** Runs a history and shows each step with the states around it. */
function replay(
  history: readonly Step[],
  look: (before: World, step: Step, after: ReturnType<typeof stepWorld>) => void,
): void {
  let world: World = { state: unusedLock, now: startOfTime };
  for (const step of history) {
    const after = stepWorld(world, step);
    look(world, step, after);
    world = after;
  }
}

const leasesOf = (entries: readonly { readonly leaseId: string }[]) => entries.map(({ leaseId }) => leaseId);

describe('any history of commands', () => {
  it('never grants more permits than the limit', () => {
    fc.assert(
      fc.property(histories, (history) => {
        replay(history, (_before, _step, { state }) => {
          expect(permitsHeld(state)).toBeLessThanOrEqual(state.limit);
        });
      }),
      runs,
    );
  });

  it('gives each grant a fence above every earlier one', () => {
    fc.assert(
      fc.property(histories, (history) => {
        let highest = 0;
        replay(history, (before, _step, { state }) => {
          const known = new Set(leasesOf(before.state.holders));
          for (const holder of state.holders) {
            if (known.has(holder.leaseId)) continue;
            expect(holder.fence).toBeGreaterThan(highest);
            highest = holder.fence;
          }
          expect(state.fence).toBeGreaterThanOrEqual(before.state.fence);
        });
      }),
      runs,
    );
  });

  it('takes a lease away from a live holder only by its own release', () => {
    fc.assert(
      fc.property(histories, (history) => {
        replay(history, (before, { command }, { state, now }) => {
          const left = new Set(leasesOf(state.holders));
          for (const holder of before.state.holders) {
            if (left.has(holder.leaseId)) continue;
            const ownRelease = command.kind === 'release' && command.leaseId === holder.leaseId;
            const ranOut =
              holder.expiresAt !== null && now >= holder.expiresAt + lockLimits.graceMs + (holder.lockDelayMs ?? 0);
            expect(ownRelease || ranOut, `${holder.owner} lost its lease to ${command.kind}`).toBe(true);
          }
        });
      }),
      runs,
    );
  });

  it('lets only a live holder extend its lease', () => {
    fc.assert(
      fc.property(histories, (history) => {
        replay(history, (before, { command }, { state, now }) => {
          for (const holder of state.holders) {
            const earlier = before.state.holders.find(({ leaseId }) => leaseId === holder.leaseId);
            if (earlier === undefined || earlier.expiresAt === holder.expiresAt) continue;
            expect(command).toMatchObject({ kind: 'renew', leaseId: holder.leaseId });
            expect(now).toBeLessThan(earlier.expiresAt as number);
            expect(holder.fence).toBe(earlier.fence);
          }
        });
      }),
      runs,
    );
  });

  it('grants to present waiters in the order in which they queued, and to no absent one', () => {
    fc.assert(
      fc.property(histories, (history) => {
        replay(history, (before, _step, { state, now }) => {
          const granted = state.holders.filter(
            ({ leaseId, queuedAt }) => queuedAt !== undefined && leasesOf(before.state.queue).includes(leaseId),
          );
          for (const holder of granted) {
            const place = before.state.queue.findIndex(({ leaseId }) => leaseId === holder.leaseId);
            expect(before.state.queue[place]?.presentUntil).toBeGreaterThan(now);
            const stillAhead = before.state.queue
              .slice(0, place)
              .filter(({ leaseId, presentUntil }) => presentUntil > now && leasesOf(state.queue).includes(leaseId));
            expect(stillAhead, 'somebody was overtaken').toEqual([]);
          }
          // A waiter that was absent for too long and asks again queues again, at the end. All others keep their order.
          const order = leasesOf(before.state.queue.filter(({ presentUntil }) => presentUntil > now)).filter(
            (leaseId) => leasesOf(state.queue).includes(leaseId),
          );
          expect(leasesOf(state.queue).filter((leaseId) => order.includes(leaseId))).toEqual(order);
        });
      }),
      runs,
    );
  });

  it('lets no new caller overtake the waiters that are present', () => {
    fc.assert(
      fc.property(histories, (history) => {
        replay(history, (before, { command }, { state, now }) => {
          if (command.kind !== 'acquire') return;
          const known = [...before.state.holders, ...before.state.queue].some(
            ({ leaseId }) => leaseId === command.leaseId,
          );
          const granted = state.holders.some(({ leaseId }) => leaseId === command.leaseId);
          if (known || !granted) return;
          const waiting = before.state.queue.filter(({ presentUntil }) => presentUntil > now);
          for (const waiter of waiting) {
            expect(leasesOf(state.queue), 'a newcomer was served before a waiter').not.toContain(waiter.leaseId);
          }
        });
      }),
      runs,
    );
  });

  it('answers a repeated acquire, renew or release as it did before, with one effect', () => {
    fc.assert(
      fc.property(histories, (history) => {
        replay(history, (_before, { command }, after) => {
          const again = decide(after.state, command, { now: after.now, graceMs: lockLimits.graceMs });
          if (command.kind === 'acquire' && after.answer.kind === 'granted') {
            expect(again.answer).toEqual(after.answer);
            expect(again.next).toBe(after.state);
          }
          if (command.kind === 'release' && after.answer.kind === 'released') {
            expect(again.answer).toEqual({ kind: 'released', reason: 'already_released' });
            expect(again.next).toBe(after.state);
          }
          if (command.kind === 'renew' && after.answer.kind === 'granted') {
            expect(again.answer).toEqual(after.answer);
            expect(again.next.fence).toBe(after.state.fence);
          }
        });
      }),
      runs,
    );
  });

  it('does not let a remembered lease take the lock again', () => {
    fc.assert(
      fc.property(histories, (history) => {
        replay(history, (before, { command }, { state, answer }) => {
          if (command.kind !== 'acquire' || !leasesOf(before.state.ended).includes(command.leaseId)) return;
          if (
            leasesOf(before.state.holders).includes(command.leaseId) ||
            leasesOf(before.state.queue).includes(command.leaseId)
          )
            return;
          expect(answer.kind).toBe('lost');
          expect(state).toBe(before.state);
        });
      }),
      runs,
    );
  });

  it('leaves nobody waiting for a free lock', () => {
    fc.assert(
      fc.property(histories, (history) => {
        let last: { state: LockState; now: number } = { state: unusedLock, now: startOfTime };
        replay(history, (_before, _step, after) => {
          last = after;
        });
        const { next } = decide(last.state, { kind: 'sweep' }, { now: last.now as never, graceMs: lockLimits.graceMs });
        const [head] = next.queue;
        if (head === undefined) return;
        const standing = next.holders.filter(
          ({ expiresAt, lockDelayMs }) =>
            expiresAt === null || last.now < expiresAt + lockLimits.graceMs + (lockDelayMs ?? 0),
        );
        const used = standing.reduce((sum, { permits }) => sum + permits, 0);
        expect(used + head.permits).toBeGreaterThan(next.limit);
      }),
      runs,
    );
  });

  it('remembers, queues and holds within limits', () => {
    fc.assert(
      fc.property(histories, (history) => {
        replay(history, (before, _step, { state }) => {
          expect(state.ended.length).toBeLessThanOrEqual(lockLimits.endedRemembered);
          expect(state.rev - before.state.rev).toBeLessThanOrEqual(1);
          const ids = [...leasesOf(state.holders), ...leasesOf(state.queue)];
          expect(new Set(ids).size, 'a lease stands in two places').toBe(ids.length);
        });
      }),
      runs,
    );
  });
});
