import fc from 'fast-check';
import type { Acquire, LockCommand } from '../../src/lock/commands.ts';
import { decide } from '../../src/lock/decide.ts';
import { lockLimits } from '../../src/lock/limits.ts';
import { demandOf, type LockMode, type LockState, unusedLock } from '../../src/lock/state.ts';
import { type EpochMs, epochMs } from '../../src/time/clock.ts';

/** Few names, so that commands conflict often. */
const leaseIds = [
  'lease-a-0000000000',
  'lease-b-0000000000',
  'lease-c-0000000000',
  'lease-d-0000000000',
  'lease-e-0000000000',
];

export interface Step {
  readonly afterMs: number;
  readonly command: LockCommand;
}

export interface Kind {
  readonly limit?: number;
  readonly permits?: number;
  readonly mode?: LockMode;
}

export const acquireOf = (leaseId: string, more: Partial<Acquire> & Kind = {}): Acquire => {
  const { limit, permits, mode, ...rest } = more;
  return {
    kind: 'acquire',
    leaseId,
    owner: `owner of ${leaseId}`,
    leaseMs: 10_000,
    waitMs: 0,
    attendMs: 25_000,
    ...(mode === undefined ? {} : { mode }),
    ...demandOf({ limit, permits, mode }),
    ...rest,
  };
};

const kinds = fc.constantFrom<Kind>(
  {},
  {},
  {},
  { mode: 'exclusive' },
  { mode: 'shared' },
  { limit: 3, permits: 1 },
  { limit: 3, permits: 2 },
  { limit: 3, permits: 3 },
);

const leaseId = fc.constantFrom(...leaseIds);
const leaseMs = fc.constantFrom(1_000, 5_000, 60_000);

export const acquires: fc.Arbitrary<Acquire> = fc
  .record({
    leaseId,
    kind: kinds,
    leaseMs,
    waitMs: fc.constantFrom(0, 0, 2_000, 60_000),
    attendMs: fc.constantFrom(1_000, 25_000, null),
    lockDelayMs: fc.constantFrom(undefined, undefined, 3_000),
    metadata: fc.constantFrom(undefined, { job: 'nightly' }),
    sessionId: fc.constantFrom(undefined, undefined, undefined, undefined, 'session-1'),
  })
  .map(({ leaseId, kind, leaseMs, waitMs, attendMs, lockDelayMs, metadata, sessionId }) =>
    acquireOf(leaseId, {
      ...kind,
      waitMs,
      attendMs,
      leaseMs: sessionId === undefined ? leaseMs : null,
      ...(lockDelayMs === undefined ? {} : { lockDelayMs }),
      ...(metadata === undefined ? {} : { metadata }),
      ...(sessionId === undefined ? {} : { sessionId }),
    }),
  );

export const commands: fc.Arbitrary<LockCommand> = fc.oneof(
  { weight: 6, arbitrary: acquires },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('release' as const), leaseId }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('renew' as const), leaseId }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('renew' as const), leaseId, leaseMs }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('give-up' as const), leaseId }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('step-away' as const), leaseId }) },
  { weight: 1, arbitrary: fc.constant({ kind: 'sweep' as const }) },
);

export const steps: fc.Arbitrary<Step> = fc.record({
  afterMs: fc.constantFrom(0, 1, 10, 400, 1_000, 6_000, 70_000),
  command: commands,
});

export const startOfTime = epochMs(1_800_000_000_000);

export interface World {
  readonly state: LockState;
  readonly now: EpochMs;
}

export function stepWorld({ state, now }: World, { afterMs, command }: Step) {
  const later = epochMs(now + afterMs);
  const decision = decide(state, command, { now: later, graceMs: lockLimits.graceMs });
  return { ...decision, state: decision.next, now: later };
}

/** States that a lock can really reach: the results of random commands on an unused lock. */
export const worlds: fc.Arbitrary<World> = fc
  .array(steps, { maxLength: 14 })
  .map((taken) =>
    taken.reduce<World>((world, step) => stepWorld(world, step), { state: unusedLock, now: startOfTime }),
  );
