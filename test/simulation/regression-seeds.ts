import type { Conditions } from './conditions.ts';

export interface RegressionSeed {
  readonly seed: number;
  readonly showed: string;
  /** Where the world of the seed is made a little different to show it. */
  readonly conditions?: Partial<Conditions>;
}

/** Worlds that once broke a promise. They are run first, each time. The ledger in docs/guarantees.md tells their stories. */
export const regressionSeeds: readonly RegressionSeed[] = [
  {
    seed: 153,
    showed: 'a waiter behind a dead one was forgotten',
    conditions: { timers: 'none', waiting: 'polled', clients: 9 },
  },
  { seed: 20, showed: 'a task that had been told lost its lease because it was over' },
  { seed: 28, showed: 'a lease in use was given up because nobody was found to be told' },
];
