import type { Bounds } from './measure.ts';
import type { HandOffBounds } from './workloads/hand-off.ts';
import type { PushPlan } from './workloads/push.ts';

/** How much of everything is measured. */
export interface Plan {
  readonly cycle: Bounds & { readonly warmUp: Bounds };
  readonly throughput: { readonly clients: readonly number[]; readonly slices: number; readonly sliceMs: number };
  readonly waiters: readonly number[];
  /** Our own contestants are measured longer, because they have targets. */
  readonly ownHandOff: HandOffBounds;
  readonly handOff: HandOffBounds;
  readonly countedRunMs: number;
  readonly crashSamples: number;
  readonly renewalIntervals: number;
  readonly multiLock: { readonly sizes: readonly number[]; readonly bounds: Bounds };
  readonly increment: { readonly clients: readonly number[]; readonly sliceMs: number };
  readonly push: PushPlan;
  readonly memoryMs: number;
  readonly importRounds: number;
}

const waiters = [2, 10, 50, 200];
const pushWaiters = [1, 10, 50, 200];
const multiLockSizes = [2, 10, 50];
const incrementClients = [1, 2, 4, 8, 16, 32];

/** About five minutes with all contestants there, half of them in the hand-off. */
export const fullPlan: Plan = {
  cycle: { roundsMax: 60, budgetMs: 25_000, warmUp: { roundsMax: 300, budgetMs: 2_500 } },
  throughput: { clients: [1, 4, 16, 64], slices: 2, sliceMs: 150 },
  waiters,
  ownHandOff: { paced: { roundsMax: 250, budgetMs: 3_500 }, runMs: 1_200 },
  handOff: { paced: { roundsMax: 150, budgetMs: 1_200 }, runMs: 800 },
  countedRunMs: 1_000,
  crashSamples: 3,
  renewalIntervals: 3,
  multiLock: { sizes: multiLockSizes, bounds: { roundsMax: 50, budgetMs: 4_000 } },
  increment: { clients: incrementClients, sliceMs: 500 },
  push: {
    waiters: pushWaiters,
    turns: 3,
    paced: { roundsMax: 60, budgetMs: 1_500 },
    // In this time the SDK asks twice about a parked wait.
    idle: { waiters: 1_000, watchedMs: 50_000 },
    crowd: { locks: 200, perLock: 50 },
  },
  memoryMs: 10_000,
  importRounds: 5,
};

/** The same cells, each for a short time. It shows whether everything works, and its numbers mean nothing. */
export const quickPlan: Plan = {
  cycle: { roundsMax: 5, budgetMs: 3_000, warmUp: { roundsMax: 64, budgetMs: 300 } },
  throughput: { clients: [1, 16], slices: 1, sliceMs: 100 },
  waiters,
  ownHandOff: { paced: { roundsMax: 20, budgetMs: 500 }, runMs: 300 },
  handOff: { paced: { roundsMax: 10, budgetMs: 300 }, runMs: 300 },
  countedRunMs: 300,
  crashSamples: 1,
  renewalIntervals: 1,
  multiLock: { sizes: multiLockSizes, bounds: { roundsMax: 2, budgetMs: 1_000 } },
  increment: { clients: [1, 4, 16], sliceMs: 200 },
  push: {
    waiters: pushWaiters,
    turns: 1,
    paced: { roundsMax: 5, budgetMs: 500 },
    idle: { waiters: 50, watchedMs: 2_000 },
    crowd: { locks: 5, perLock: 10 },
  },
  memoryMs: 2_000,
  importRounds: 1,
};
