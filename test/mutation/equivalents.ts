/** Mutants that no test can notice, because they make no difference. */
export interface Equivalent {
  readonly file: string;
  /** What the tool replaces, and by what. */
  readonly text: string;
  readonly instead: string;
  readonly why: string;
}

export const equivalents: readonly Equivalent[] = [
  {
    file: 'src/multi/plan.ts',
    text: 'one.name < other.name',
    instead: 'one.name <= other.name',
    why: 'No name occurs twice: the contract refuses such a request.',
  },
  {
    file: 'src/lock/validity.ts',
    text: 'claim.sessionId === undefined',
    instead: 'false',
    why: 'A map of sessions has no entry for undefined.',
  },
  {
    file: 'src/lock/validity.ts',
    text: 'sessionId === undefined',
    instead: 'false',
    why: 'A map of sessions has no entry for undefined.',
  },
  {
    file: 'src/lock/validity.ts',
    text: 'head !== undefined',
    instead: 'true',
    why: 'If the front is empty and there is room, the branch before this one is taken.',
  },
];

export const isEquivalent = (mutant: Omit<Equivalent, 'why'>): boolean =>
  equivalents.some(
    ({ file, text, instead }) => file === mutant.file && text === mutant.text && instead === mutant.instead,
  );
