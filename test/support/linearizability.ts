/**
 * A small checker of linearizability, after Wing and Gong: is there one order of all operations, each somewhere between its
 * call and its return, in which a sequential specification gives every answer that was really given?
 *
 * An operation whose answer was lost has no return: it may have happened at any time after its call, or never. Histories of
 * different keys are checked apart, since linearizability is local: a history is linearizable if and only if each object's is.
 */

export interface Operation<Input, Output> {
  /** Who called; one process has one call open at a time, but nothing here depends on it. */
  readonly process: string;
  readonly input: Input;
  readonly calledAt: number;
  /** Undefined: the answer was lost. */
  readonly answer?: { readonly output: Output; readonly returnedAt: number };
}

export interface Specification<State, Input, Output> {
  readonly initial: State;
  /**
   * The states in which this operation may leave the object, given the answer that it really got; none where that answer is
   * impossible here. Without an answer: the states that it may leave behind whatever it would have answered, its own
   * doing only, since not having happened at all is tried as well.
   */
  step(state: State, operation: Operation<Input, Output>): readonly State[];
  /** Equal for equal states: what has been tried from one needs not be tried from the other. */
  keyOf(state: State): string;
}

export type Verdict<Input, Output> =
  | { readonly kind: 'linearizable' }
  /** The longest order that could be explained, and what came next in time. */
  | {
      readonly kind: 'violated';
      readonly explained: readonly Operation<Input, Output>[];
      readonly stuckAt: readonly Operation<Input, Output>[];
    }
  /** Too many orders to try: neither proved nor disproved. */
  | { readonly kind: 'undecided' };

/** States that one check visits at most. A history of a thousand operations that is in order needs a few thousand. */
const visitsMax = 400_000;

interface Entry<Input, Output> {
  readonly operation: Operation<Input, Output>;
  readonly index: number;
  readonly returnedAt: number;
}

interface Frame<State, Input, Output> {
  readonly state: State;
  /** Which operations have been placed. */
  readonly placed: bigint;
  readonly choices: Iterator<{ entry: Entry<Input, Output>; next: State }>;
  readonly by: Entry<Input, Output> | undefined;
}

export function checkLinearizable<State, Input, Output>(
  specification: Specification<State, Input, Output>,
  history: readonly Operation<Input, Output>[],
): Verdict<Input, Output> {
  const entries = [...history]
    .sort((one, other) => one.calledAt - other.calledAt)
    .map((operation, index) => ({
      operation,
      index,
      returnedAt: operation.answer?.returnedAt ?? Number.POSITIVE_INFINITY,
    }));
  const answered = entries.reduce(
    (mask, { operation, index }) => (operation.answer === undefined ? mask : mask | (1n << BigInt(index))),
    0n,
  );
  const tried = new Set<string>();
  const open = (state: State, placed: bigint, by?: Entry<Input, Output>): Frame<State, Input, Output> => ({
    state,
    placed,
    by,
    choices: choicesOf(specification, entries, state, placed),
  });
  const stack = [open(specification.initial, 0n)];
  let longest: Frame<State, Input, Output>[] = [];
  for (let visits = 0; stack.length > 0; visits++) {
    if (visits > visitsMax) return { kind: 'undecided' };
    const frame = stack[stack.length - 1] as Frame<State, Input, Output>;
    if ((frame.placed & answered) === answered) return { kind: 'linearizable' };
    const choice = frame.choices.next();
    if (choice.done) {
      if (stack.length > longest.length) longest = [...stack];
      stack.pop();
      continue;
    }
    const { entry, next } = choice.value;
    const placed = frame.placed | (1n << BigInt(entry.index));
    const key = `${placed.toString(36)} ${specification.keyOf(next)}`;
    if (tried.has(key)) continue;
    tried.add(key);
    stack.push(open(next, placed, entry));
  }
  return violation(entries, longest);
}

/** What may come next: whatever was called before everything that is still missing has returned. Answered ones are tried first. */
function* choicesOf<State, Input, Output>(
  specification: Specification<State, Input, Output>,
  entries: readonly Entry<Input, Output>[],
  state: State,
  placed: bigint,
): Generator<{ entry: Entry<Input, Output>; next: State }> {
  const minimal: Entry<Input, Output>[] = [];
  let firstReturn = Number.POSITIVE_INFINITY;
  for (const entry of entries) {
    if (entry.operation.calledAt > firstReturn) break;
    if ((placed >> BigInt(entry.index)) & 1n) continue;
    minimal.push(entry);
    firstReturn = Math.min(firstReturn, entry.returnedAt);
  }
  const isAnswered = (entry: Entry<Input, Output>) => entry.operation.answer !== undefined;
  const order = [
    ...minimal.filter(isAnswered).sort((one, other) => one.returnedAt - other.returnedAt),
    ...minimal.filter((entry) => !isAnswered(entry)),
  ];
  for (const entry of order) for (const next of specification.step(state, entry.operation)) yield { entry, next };
}

function violation<State, Input, Output>(
  entries: readonly Entry<Input, Output>[],
  longest: readonly Frame<State, Input, Output>[],
): Verdict<Input, Output> {
  const placed = longest.at(-1)?.placed ?? 0n;
  const left = entries.filter(
    ({ index, operation }) => operation.answer !== undefined && !((placed >> BigInt(index)) & 1n),
  );
  const firstReturn = Math.min(...left.map(({ returnedAt }) => returnedAt));
  return {
    kind: 'violated',
    explained: longest.flatMap(({ by }) => (by === undefined ? [] : [by.operation])),
    stuckAt: left.filter(({ operation }) => operation.calledAt <= firstReturn).map(({ operation }) => operation),
  };
}

/** Checks each key's history by itself; comes back with the keys that are not in order, and those that could not be told. */
export function checkByKey<State, Input, Output>(
  specification: Specification<State, Input, Output>,
  histories: ReadonlyMap<string, readonly Operation<Input, Output>[]>,
): { readonly violated: ReadonlyMap<string, Verdict<Input, Output>>; readonly undecided: readonly string[] } {
  const violated = new Map<string, Verdict<Input, Output>>();
  const undecided: string[] = [];
  for (const [key, history] of histories) {
    const verdict = checkLinearizable(specification, history);
    if (verdict.kind === 'violated') violated.set(key, verdict);
    if (verdict.kind === 'undecided') undecided.push(key);
  }
  return { violated, undecided };
}

/** A verdict as people read it. */
export function describeVerdict<Input, Output>(key: string, verdict: Verdict<Input, Output>): string {
  if (verdict.kind !== 'violated') return `${key}: ${verdict.kind}`;
  const line = ({ process, input, answer, calledAt }: Operation<Input, Output>) =>
    `  [${calledAt}, ${answer?.returnedAt ?? '∞'}] ${process} ${JSON.stringify(input)} → ${JSON.stringify(answer?.output)}`;
  return [
    `${key} is not linearizable. Explained so far, in this order:`,
    ...verdict.explained.slice(-12).map(line),
    'None of these can come next:',
    ...verdict.stuckAt.map(line),
  ].join('\n');
}
