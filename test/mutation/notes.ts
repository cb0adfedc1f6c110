/** What the process that runs the tests writes down, line by line, so that nothing is lost if a mutant hangs it. */
export type Note =
  /** A test fails without a mutant. Nothing that it says counts. */
  | { readonly kind: 'broken'; readonly test: string }
  /** A test can't run twice in one process. */
  | { readonly kind: 'once-only'; readonly test: string }
  /** A test ended without a mutant. It shows that the process goes on. */
  | { readonly kind: 'ran'; readonly test: string }
  /** These mutants are in code that ran outside of all tests, such as while modules and suites were loaded. */
  | { readonly kind: 'loaded'; readonly mutants: readonly string[] }
  | { readonly kind: 'planted'; readonly mutant: string }
  | { readonly kind: 'noticed'; readonly mutant: string; readonly test: string }
  /** The test fails with the mutant, and afterwards without it too. Or it passes, and an error is left unhandled. */
  | { readonly kind: 'damaging'; readonly mutant: string }
  /** A test that was damaged for good could not judge these. */
  | { readonly kind: 'unjudged'; readonly mutants: readonly string[] };

export const notesIn = (text: string): Note[] =>
  text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Note);
