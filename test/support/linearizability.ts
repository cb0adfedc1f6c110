/**
 * A small checker of linearizability, after Wing, Gong and Lowe. It asks: is there one order of all operations, each
 * between its call and its return, in which a sequential specification gives every answer that was really given?
 *
 * An operation whose answer was lost has no return: it may have happened at any time after its call, or never.
 * Histories of different keys are checked separately, because linearizability is local: a history is linearizable if
 * and only if the history of each object is.
 *
 * Three rules keep the search short. First, a place in the search is identified by the answered operations that were
 * placed and by the state, reduced to what later operations can observe. Second, if two ways lead to the same place,
 * only the one that used fewer lost operations is followed, because it can do everything that the other can. Third, an
 * operation that changes nothing is placed as soon as possible.
 */

export interface Operation<Input, Output> {
  /** The caller. One process has one call open at a time, but nothing here depends on that. */
  readonly process: string;
  readonly input: Input;
  readonly calledAt: number;
  /** Undefined if the answer was lost. */
  readonly answer?: { readonly output: Output; readonly returnedAt: number };
}

export interface Specification<State, Input, Output> {
  readonly initial: State;
  /**
   * The states in which this operation may leave the object, given its real answer. The list is empty if that answer is
   * impossible here. Without an answer, these are the states after the operation took effect, whatever it would have
   * answered. The case that it never happened is tried separately.
   */
  step(state: State, operation: Operation<Input, Output>): readonly State[];
  /** Equal for equal states: if one was tried, the other need not be. */
  keyOf(state: State): string;
  /** The same state without everything that later operations can't observe. */
  reduce(state: State, ahead: Ahead): State;
  /** The group of an operation. `Ahead` is asked by group. */
  groupOf(operation: Operation<Input, Output>): string;
  /** True if an operation without an answer can still explain a later answer. If it can't, it never will. */
  mayExplain(state: State, operation: Operation<Input, Output>, ahead: Ahead): boolean;
  /** A number that no operation lowers, such as a fence or a version. */
  rankOf(state: State): number;
  /** The highest rank at which this answer is possible. */
  rankMaxOf(operation: Operation<Input, Output>): number;
}

/** The operations that are not placed yet. */
export interface Ahead {
  /** No operation that is not placed yet has returned before this instant. */
  readonly firstReturn: number;
  /** True if an answer of this group is not placed yet. */
  isAwaited(group: string): boolean;
  /** True if an operation of this group may still happen, with or without an answer. */
  mayHappen(group: string): boolean;
}

export type Verdict<Input, Output> =
  | { readonly kind: 'linearizable' }
  /** The longest order that could be explained, and the operations that came next in time. */
  | {
      readonly kind: 'violated';
      readonly explained: readonly Operation<Input, Output>[];
      readonly stuckAt: readonly Operation<Input, Output>[];
    }
  /** There are too many orders to try, so nothing is proved. */
  | { readonly kind: 'undecided' };

/**
 * How many places one check visits at most. A history of ten thousand operations with hundreds of lost answers needs
 * fewer.
 */
const visitsMax = 1_000_000;

type Answered<Input, Output> = Required<Operation<Input, Output>>;

/** A place in the search. */
interface Place<State> {
  readonly state: State;
  /** All answered operations before this one are placed. */
  readonly from: number;
  /** The later operations that are placed. Bit 0 is `from` itself. */
  readonly beyond: bigint;
  /** The operations without an answer that are placed. */
  readonly lost: bigint;
}

interface Frame<State, Input, Output> {
  readonly place: Place<State>;
  readonly choices: Iterator<Choice<State, Input, Output>>;
  readonly by: Operation<Input, Output> | undefined;
}

interface Choice<State, Input, Output> {
  readonly place: Place<State>;
  readonly by: Operation<Input, Output>;
}

export function checkLinearizable<State, Input, Output>(
  specification: Specification<State, Input, Output>,
  history: readonly Operation<Input, Output>[],
): Verdict<Input, Output> {
  const search = new Search(specification, history);
  const tried = new Map<string, bigint[]>();
  const open = (place: Place<State>, by?: Operation<Input, Output>): Frame<State, Input, Output> => ({
    place,
    by,
    choices: search.choicesAt(place),
  });
  const stack = [open({ state: specification.initial, from: 0, beyond: 0n, lost: 0n })];
  let longest: Frame<State, Input, Output>[] = [];
  for (let visits = 0; stack.length > 0; visits++) {
    if (visits > visitsMax) return { kind: 'undecided' };
    const frame = stack[stack.length - 1] as Frame<State, Input, Output>;
    if (search.isComplete(frame.place)) return { kind: 'linearizable' };
    const choice = frame.choices.next();
    if (choice.done) {
      if (stack.length > longest.length) longest = [...stack];
      stack.pop();
      continue;
    }
    const { place, by } = choice.value;
    if (!search.isDead(place) && isNew(tried, search.signOf(place))) stack.push(open(place, by));
  }
  return {
    kind: 'violated',
    explained: longest.flatMap(({ by }) => (by === undefined ? [] : [by])),
    stuckAt: search.missingAt((longest.at(-1) as Frame<State, Input, Output>).place),
  };
}

/**
 * True if the search has not been at this place with the same lost operations or fewer. If it has, it has already tried
 * more than is possible from here.
 */
function isNew(tried: Map<string, bigint[]>, { key, lost }: { readonly key: string; readonly lost: bigint }): boolean {
  const before = tried.get(key) ?? [];
  if (before.some((fewer) => (fewer & ~lost) === 0n)) return false;
  tried.set(key, [...before.filter((more) => (lost & ~more) !== 0n), lost]);
  return true;
}

class Search<State, Input, Output> {
  readonly #specification: Specification<State, Input, Output>;
  /** In the order of their calls. */
  readonly #answered: readonly Answered<Input, Output>[];
  readonly #lost: readonly Operation<Input, Output>[];
  /** The lowest maximum rank of this operation and of all operations called after it. */
  readonly #rankMaxFrom: readonly number[];
  /** The answered operations of each group, as positions in the order of calls. */
  readonly #answeredOf = new Map<string, number[]>();
  readonly #lostOf = new Map<string, bigint>();
  /** For each operation without an answer, the earlier one that requests exactly the same. */
  readonly #twins: readonly number[];

  constructor(specification: Specification<State, Input, Output>, history: readonly Operation<Input, Output>[]) {
    this.#specification = specification;
    const sorted = [...history].sort((one, other) => one.calledAt - other.calledAt);
    this.#answered = sorted.filter((operation): operation is Answered<Input, Output> => operation.answer !== undefined);
    this.#lost = sorted.filter(({ answer }) => answer === undefined);
    const rankMax = this.#answered.map((operation) => specification.rankMaxOf(operation));
    for (let index = rankMax.length - 2; index >= 0; index--)
      rankMax[index] = Math.min(rankMax[index] as number, rankMax[index + 1] as number);
    this.#rankMaxFrom = rankMax;
    for (const [index, operation] of this.#answered.entries()) {
      const group = specification.groupOf(operation);
      this.#answeredOf.set(group, [...(this.#answeredOf.get(group) ?? []), index]);
    }
    const inputs = this.#lost.map(({ input }) => JSON.stringify(input));
    this.#twins = inputs.map((input, index) => inputs.slice(0, index).lastIndexOf(input));
    for (const [index, operation] of this.#lost.entries()) {
      const group = specification.groupOf(operation);
      this.#lostOf.set(group, (this.#lostOf.get(group) ?? 0n) | (1n << BigInt(index)));
    }
  }

  isComplete({ from }: Place<State>): boolean {
    return from === this.#answered.length;
  }

  /** True if an operation that is not placed yet has become impossible. Then nothing is left to try from here. */
  isDead({ state, from, beyond }: Place<State>): boolean {
    const { rankOf, rankMaxOf } = this.#specification;
    const rank = rankOf(state);
    let index = from;
    for (let placed = beyond; placed > 0n; placed >>= 1n, index++)
      if (!(placed & 1n) && rankMaxOf(this.#answered[index] as Answered<Input, Output>) < rank) return true;
    return (this.#rankMaxFrom[index] ?? Number.POSITIVE_INFINITY) < rank;
  }

  /** The key of this place, and the lost operations that still matter and were used to get here. */
  signOf(place: Place<State>): { readonly key: string; readonly lost: bigint } {
    const { reduce, keyOf, mayExplain } = this.#specification;
    const { state, from, beyond } = place;
    const ahead = this.#aheadOf(place);
    let lost = place.lost;
    for (const [index, operation] of this.#lost.entries()) {
      if (operation.calledAt > ahead.firstReturn) break;
      const bit = 1n << BigInt(index);
      if ((lost & bit) !== 0n && !mayExplain(state, operation, ahead)) lost ^= bit;
    }
    return { key: `${from} ${beyond.toString(36)} ${keyOf(reduce(state, ahead))}`, lost };
  }

  /**
   * The operations that may come next: those that were called before every missing operation returned. Answered
   * operations are tried first, in the order of their returns, because that order is usually right.
   */
  *choicesAt(place: Place<State>): Generator<Choice<State, Input, Output>> {
    const { step, mayExplain } = this.#specification;
    const { state } = place;
    const minimal = [...this.#minimalAt(place)].sort(
      ([one], [other]) => one.answer.returnedAt - other.answer.returnedAt,
    );
    const steps = minimal.map(([operation, offset]) => ({ operation, offset, next: step(state, operation) }));
    // If an operation may come now and changes nothing, it comes now: no other order explains more.
    const idle = steps.find(({ next }) => next.length === 1 && next[0] === state);
    if (idle !== undefined) {
      yield { place: advanced(place, idle.offset, state), by: idle.operation };
      return;
    }
    for (const { operation, offset, next: states } of steps)
      for (const next of states) yield { place: advanced(place, offset, next), by: operation };

    const ahead = this.#aheadOf(place);
    for (const [index, operation] of this.#lost.entries()) {
      if (operation.calledAt > ahead.firstReturn) return;
      const bit = 1n << BigInt(index);
      if ((place.lost & bit) !== 0n || !mayExplain(state, operation, ahead)) continue;
      // If two operations request the same, the earlier call can do everything that the later one can.
      const twin = this.#twins[index] as number;
      if (twin >= 0 && (place.lost & (1n << BigInt(twin))) === 0n) continue;
      for (const next of step(state, operation))
        yield { place: { ...place, state: next, lost: place.lost | bit }, by: operation };
    }
  }

  /** The operations that came next in time at a place from which no order goes on. */
  missingAt(place: Place<State>): Operation<Input, Output>[] {
    return [...this.#minimalAt(place)].map(([operation]) => operation);
  }

  *#minimalAt({ from, beyond }: Place<State>): Generator<readonly [Answered<Input, Output>, offset: number]> {
    let firstReturn = Number.POSITIVE_INFINITY;
    for (let offset = 0; from + offset < this.#answered.length; offset++) {
      const operation = this.#answered[from + offset] as Answered<Input, Output>;
      if (operation.calledAt > firstReturn) return;
      if ((beyond >> BigInt(offset)) & 1n) continue;
      firstReturn = Math.min(firstReturn, operation.answer.returnedAt);
      yield [operation, offset];
    }
  }

  #aheadOf(place: Place<State>): Ahead {
    const { from, beyond, lost } = place;
    const returns = [...this.#minimalAt(place)].map(([operation]) => operation.answer.returnedAt);
    const isMissing = (index: number) => index >= from && !((beyond >> BigInt(index - from)) & 1n);
    const isAwaited = (group: string) => this.#answeredOf.get(group)?.some(isMissing) ?? false;
    return {
      firstReturn: Math.min(...returns),
      isAwaited,
      mayHappen: (group) => isAwaited(group) || ((this.#lostOf.get(group) ?? 0n) & ~lost) !== 0n,
    };
  }
}

function advanced<State>(place: Place<State>, offset: number, state: State): Place<State> {
  let { from, beyond } = place;
  beyond |= 1n << BigInt(offset);
  for (; beyond & 1n; beyond >>= 1n) from += 1;
  return { ...place, state, from, beyond };
}

/**
 * Checks the history of each key separately. Returns the keys that are not linearizable, and those that are undecided.
 */
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

/** A verdict as text for people. */
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
