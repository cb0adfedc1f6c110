/**
 * A small checker of linearizability, after Wing, Gong and Lowe: is there one order of all operations, each somewhere between its
 * call and its return, in which a sequential specification gives every answer that was really given?
 *
 * An operation whose answer was lost has no return: it may have happened at any time after its call, or never. Histories of
 * different keys are checked apart, since linearizability is local: a history is linearizable if and only if each object's is.
 *
 * What keeps the search short: a place in it is known by the answered operations that have been placed and by the state, as far as
 * anything still to come can tell states apart; of two ways to the same place, the one that took fewer of the lost operations can
 * do all that the other can, so that only it is followed; and what changes nothing is placed as soon as it can be.
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
  /** The same state without what nothing still to come can tell. */
  reduce(state: State, ahead: Ahead): State;
  /** Which operations belong together: what `Ahead` is asked about. */
  groupOf(operation: Operation<Input, Output>): string;
  /** Whether an operation without an answer can explain anything still to come, from here on. Once it can't, it never will. */
  mayExplain(state: State, operation: Operation<Input, Output>, ahead: Ahead): boolean;
  /** A number that no operation lowers, such as a fence or a version. */
  rankOf(state: State): number;
  /** The rank beyond which this answer is impossible. */
  rankMaxOf(operation: Operation<Input, Output>): number;
}

/** What is still to come. */
export interface Ahead {
  /** Nothing that is missing has returned before this instant. */
  readonly firstReturn: number;
  /** Whether an answer of this group is still missing. */
  isAwaited(group: string): boolean;
  /** Whether anything of this group may still happen: with or without an answer. */
  mayHappen(group: string): boolean;
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

/** Places that one check visits at most. A history of ten thousand operations with hundreds of lost answers needs fewer. */
const visitsMax = 1_000_000;

type Answered<Input, Output> = Required<Operation<Input, Output>>;

/** How far an order has come. */
interface Place<State> {
  readonly state: State;
  /** Every answered operation before this one has been placed. */
  readonly from: number;
  /** Of those after it, the ones that have been placed: bit 0 is `from` itself. */
  readonly beyond: bigint;
  /** Which of those without an answer have been placed. */
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

/** Whether the search has not been here with the same operations or fewer left. If it has, it has tried more than it could try from here. */
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
  /** The lowest rank beyond which this operation or one called after it is impossible. */
  readonly #rankMaxFrom: readonly number[];
  /** The answered operations of each group, by their place in the order of calls. */
  readonly #answeredOf = new Map<string, number[]>();
  readonly #lostOf = new Map<string, bigint>();
  /** Of each operation without an answer, the one before it that asks for the very same. */
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

  /** Whether something that is missing has become impossible, so that nothing is left to try from here. */
  isDead({ state, from, beyond }: Place<State>): boolean {
    const { rankOf, rankMaxOf } = this.#specification;
    const rank = rankOf(state);
    let index = from;
    for (let placed = beyond; placed > 0n; placed >>= 1n, index++)
      if (!(placed & 1n) && rankMaxOf(this.#answered[index] as Answered<Input, Output>) < rank) return true;
    return (this.#rankMaxFrom[index] ?? Number.POSITIVE_INFINITY) < rank;
  }

  /** By what this place is known, and which of the lost operations that still matter have been taken to get here. */
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
   * What may come next: whatever was called before everything that is still missing has returned. Those with an answer are tried
   * first, in the order of their returns, which is most often the right one.
   */
  *choicesAt(place: Place<State>): Generator<Choice<State, Input, Output>> {
    const { step, mayExplain } = this.#specification;
    const { state } = place;
    const minimal = [...this.#minimalAt(place)].sort(
      ([one], [other]) => one.answer.returnedAt - other.answer.returnedAt,
    );
    const steps = minimal.map(([operation, offset]) => ({ operation, offset, next: step(state, operation) }));
    // What may come now and changes nothing may as well come now: no other order explains more.
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
      // Of two that ask for the same, the earlier call can do what the later can.
      const twin = this.#twins[index] as number;
      if (twin >= 0 && (place.lost & (1n << BigInt(twin))) === 0n) continue;
      for (const next of step(state, operation))
        yield { place: { ...place, state: next, lost: place.lost | bit }, by: operation };
    }
  }

  /** What came next in time where nothing could come next in any order. */
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
