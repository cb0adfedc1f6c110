/** Parses DynamoDB's expressions into trees. `conditions.ts` and `updates.ts` evaluate them. */
import { BoundedMap } from '../tools/collections.ts';
import { invalid } from './errors.ts';
import { type Check, checksOfCondition, checksOfUpdate } from './expression-checks.ts';

/** The path to an attribute, or into a list or map inside it. Names keep their `#` if the caller used one. */
export type Path = readonly (string | number)[];

export type Operand =
  | { readonly kind: 'path'; readonly path: Path }
  | { readonly kind: 'value'; readonly name: string }
  | { readonly kind: 'call'; readonly name: string; readonly operands: readonly Operand[] }
  | { readonly kind: 'sum'; readonly left: Operand; readonly right: Operand; readonly sign: 1 | -1 };

export type Condition =
  | { readonly kind: 'and' | 'or'; readonly left: Condition; readonly right: Condition }
  | { readonly kind: 'not'; readonly condition: Condition }
  | { readonly kind: 'compare'; readonly comparator: string; readonly left: Operand; readonly right: Operand }
  | { readonly kind: 'between'; readonly operand: Operand; readonly from: Operand; readonly to: Operand }
  | { readonly kind: 'in'; readonly operand: Operand; readonly among: readonly Operand[] }
  | { readonly kind: 'test'; readonly name: string; readonly operands: readonly Operand[] };

/** A change of the value at a path: by assigning to it, adding to it, or deleting from it. */
export interface Assignment {
  readonly kind: 'set' | 'add' | 'delete';
  readonly path: Path;
  readonly operand: Operand;
}

export interface Update {
  /** In the order in which they are made. */
  readonly assignments: readonly Assignment[];
  readonly removals: readonly Path[];
  /** Every path that the update changes. */
  readonly paths: readonly Path[];
}

const tokenPattern = /\s*(?:([A-Za-z0-9_#:][A-Za-z0-9_#:-]*)|(<>|<=|>=|[=<>()[\].,+-]))/y;
/** Functions that are a condition by themselves. */
const tests = new Set(['attribute_exists', 'attribute_not_exists', 'attribute_type', 'begins_with', 'contains']);

function tokensOf(text: string): string[] {
  const tokens: string[] = [];
  tokenPattern.lastIndex = 0;
  while (tokenPattern.lastIndex < text.trimEnd().length) {
    const at = tokenPattern.lastIndex;
    const match = tokenPattern.exec(text);
    if (match === null) throw invalid(`Invalid expression: Syntax error; token: "${text.slice(at, at + 10).trim()}"`);
    tokens.push(match[1] ?? match[2] ?? '');
  }
  return tokens;
}

const placeOf = (path: Path): number => (typeof path.at(-1) === 'number' ? (path.at(-1) as number) : -1);

function laterFirst(one: Path, other: Path): number {
  for (let at = 0; at < one.length && at < other.length; at++) {
    const [left, right] = [one[at], other[at]];
    if (left === right) continue;
    return typeof left === 'number' && typeof right === 'number' ? right - left : String(left) < String(right) ? -1 : 1;
  }
  return 0;
}

/** Reads one expression from left to right. */
class Reader {
  readonly #tokens: readonly string[];
  #at = 0;

  constructor(text: string) {
    this.#tokens = tokensOf(text);
  }

  get #next(): string | undefined {
    return this.#tokens[this.#at];
  }

  isAt(word: string): boolean {
    return this.#next?.toUpperCase() === word;
  }

  take(word: string): boolean {
    if (!this.isAt(word)) return false;
    this.#at += 1;
    return true;
  }

  expect(word: string): void {
    if (!this.take(word)) throw this.#unexpected();
  }

  end(): void {
    if (this.#next !== undefined) throw this.#unexpected();
  }

  word(): string {
    const token = this.#next;
    if (token === undefined || !/^[A-Za-z0-9_#:]/.test(token)) throw this.#unexpected();
    this.#at += 1;
    return token;
  }

  listOf<T>(read: () => T): T[] {
    const list = [read()];
    while (this.take(',')) list.push(read());
    return list;
  }

  path(first = this.word()): Path {
    const path: (string | number)[] = [first];
    for (;;) {
      if (this.take('.')) path.push(this.word());
      else if (this.take('[')) {
        path.push(Number(this.word()));
        this.expect(']');
      } else return path;
    }
  }

  /** An operand of an update. Only there is arithmetic, of two operands. */
  #assigned(): Operand {
    const left = this.operand();
    if (this.take('+')) return { kind: 'sum', left, right: this.operand(), sign: 1 };
    if (this.take('-')) return { kind: 'sum', left, right: this.operand(), sign: -1 };
    return left;
  }

  operand(): Operand {
    if (this.take('(')) {
      const operand = this.#assigned();
      this.expect(')');
      return operand;
    }
    const word = this.word();
    if (word.startsWith(':')) return { kind: 'value', name: word };
    if (!this.take('(')) return { kind: 'path', path: this.path(word) };
    const operands = this.listOf(() => this.operand());
    this.expect(')');
    return { kind: 'call', name: word, operands };
  }

  condition(): Condition {
    let left = this.#conjunction();
    while (this.take('OR')) left = { kind: 'or', left, right: this.#conjunction() };
    return left;
  }

  #conjunction(): Condition {
    let left = this.#negation();
    while (this.take('AND')) left = { kind: 'and', left, right: this.#negation() };
    return left;
  }

  #negation(): Condition {
    return this.take('NOT') ? { kind: 'not', condition: this.#negation() } : this.#comparison();
  }

  #comparison(): Condition {
    // A parenthesis may open a condition or an operand. Only the tokens after it show which.
    const start = this.#at;
    if (this.take('(')) {
      try {
        const condition = this.condition();
        this.expect(')');
        return condition;
      } catch {
        this.#at = start;
      }
    }
    const operand = this.operand();
    if (operand.kind === 'call' && tests.has(operand.name)) return { ...operand, kind: 'test' };
    if (this.take('BETWEEN')) {
      const from = this.operand();
      this.expect('AND');
      return { kind: 'between', operand, from, to: this.operand() };
    }
    if (this.take('IN')) {
      this.expect('(');
      const among = this.listOf(() => this.operand());
      this.expect(')');
      return { kind: 'in', operand, among };
    }
    const comparator = this.#next ?? '';
    if (!['=', '<>', '<', '<=', '>', '>='].includes(comparator)) throw this.#unexpected();
    this.#at += 1;
    return { kind: 'compare', comparator, left: operand, right: this.operand() };
  }

  update(): Update {
    const assignments: Assignment[] = [];
    const removals: Path[] = [];
    while (this.#next !== undefined) {
      if (this.take('SET')) assignments.push(...this.listOf(() => this.#assignment('set')));
      else if (this.take('REMOVE')) removals.push(...this.listOf(() => this.path()));
      else if (this.take('ADD')) assignments.push(...this.listOf(() => this.#assignment('add')));
      else if (this.take('DELETE')) assignments.push(...this.listOf(() => this.#assignment('delete')));
      else throw this.#unexpected();
    }
    return {
      // Values for places after the end of a list are appended in the order of their places.
      assignments: assignments.sort((one, other) => placeOf(one.path) - placeOf(other.path)),
      // From the end, so that removing one element of a list does not move another one that is still to be removed.
      removals: removals.sort(laterFirst),
      paths: [...assignments.map(({ path }) => path), ...removals],
    };
  }

  #assignment(kind: Assignment['kind']): Assignment {
    const path = this.path();
    if (kind === 'set') this.expect('=');
    return { kind, path, operand: this.#assigned() };
  }

  #unexpected(): Error {
    const token = this.#next ?? '<EOF>';
    return invalid(`Invalid expression: Syntax error; token: "${token}"`);
  }
}

/** A parsed expression, and what must be true of the caller's names and values. */
export interface Parsed<Tree> {
  readonly tree: Tree;
  /** Every alias that the expression uses. */
  readonly aliases: ReadonlySet<string>;
  readonly checks: readonly Check[];
}

/** A lock service sends a few hundred texts again and again: places of the queue are part of them. */
const keptMax = 1_000;

/** Parses each text once. The oldest text is forgotten when there are too many. */
function parser<Tree>(read: (reader: Reader) => Tree, checksOf: (tree: Tree) => Check[]) {
  const kept = new BoundedMap<string, Parsed<Tree>>(keptMax);
  return (text: string): Parsed<Tree> => {
    const known = kept.get(text);
    if (known !== undefined) return known;
    const reader = new Reader(text);
    const tree = read(reader);
    reader.end();
    const aliases = new Set(text.match(/[#:][A-Za-z0-9_-]+/g));
    const parsed = { tree, aliases, checks: checksOf(tree) };
    kept.set(text, parsed);
    return parsed;
  };
}

export const parsedCondition = parser((reader) => reader.condition(), checksOfCondition);
export const parsedUpdate = parser((reader) => reader.update(), checksOfUpdate);

const operandPaths = (operand: Operand): readonly Path[] =>
  operand.kind === 'path' ? [operand.path] : operand.kind === 'call' ? operand.operands.flatMap(operandPaths) : [];

/** Every path that a condition reads. */
export function conditionPaths(condition: Condition): readonly Path[] {
  switch (condition.kind) {
    case 'and':
    case 'or':
      return [...conditionPaths(condition.left), ...conditionPaths(condition.right)];
    case 'not':
      return conditionPaths(condition.condition);
    case 'compare':
      return [condition.left, condition.right].flatMap(operandPaths);
    case 'between':
      return [condition.operand, condition.from, condition.to].flatMap(operandPaths);
    case 'in':
      return [condition.operand, ...condition.among].flatMap(operandPaths);
    case 'test':
      return condition.operands.flatMap(operandPaths);
  }
}
