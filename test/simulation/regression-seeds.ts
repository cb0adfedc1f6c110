/** Worlds that once broke a promise. They are run first, each time. The ledger in docs/guarantees.md tells their stories. */
export const regressionSeeds: readonly { readonly seed: number; readonly showed: string }[] = [
  { seed: 14, showed: 'a waiter behind a dead one was forgotten' },
  { seed: 109, showed: 'a lease that was shortened by a renewal whose answer was lost was still believed in' },
];
