/** Worlds that once broke a promise. They are run first, each time. The ledger in docs/guarantees.md tells their stories. */
export const regressionSeeds: readonly { readonly seed: number; readonly showed: string }[] = [];
