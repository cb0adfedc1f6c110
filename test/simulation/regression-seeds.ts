import type { Conditions } from './conditions.ts';

export interface RegressionSeed {
  readonly seed: number;
  readonly showed: string;
  /** Conditions that must be changed in the world of the seed to show the fault. */
  readonly conditions?: Partial<Conditions>;
}

/** Worlds that once broke a promise. They are run first, each time. docs/guarantees.md has a table of the faults. */
export const regressionSeeds: readonly RegressionSeed[] = [
  {
    seed: 153,
    showed: 'a waiter behind a dead one was forgotten',
    conditions: { timers: 'none', waiting: 'polled', clients: 9 },
  },
  { seed: 20, showed: 'a task that had been told lost its lease because it was over' },
  { seed: 992446328, showed: 'a waiter had two places, and the grant of the first one went to nobody' },
  { seed: 28, showed: 'a lease in use was given up because nobody was found to be told' },
];
