/** Parses DynamoDB's expressions into trees. `conditions.ts` and `updates.ts` evaluate them. */
import { BoundedMap } from '../tools/collections.ts';
import { invalid } from './errors.ts';

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

export interface Assignment {
  readonly path: Path;
  readonly operand: Operand;
}

export interface Update {
  readonly set: readonly Assignment[];
  readonly remove: readonly Path[];
  readonly add: readonly Assignment[];
  readonly delete: readonly Assignment[];
  /** Every path that the update changes. */
  readonly paths: readonly Path[];
}

const tokenPattern = /\s*(?:([A-Za-z0-9_#:][A-Za-z0-9_#:-]*)|(<>|<=|>=|[=<>()[\].,+-]))/y;
/** Functions that are a condition by themselves. */
const tests = new Set(['attribute_exists', 'attribute_not_exists', 'begins_with', 'contains']);

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

  operand(): Operand {
    let left = this.#term();
    for (;;) {
      if (this.take('+')) left = { kind: 'sum', left, right: this.#term(), sign: 1 };
      else if (this.take('-')) left = { kind: 'sum', left, right: this.#term(), sign: -1 };
      else return left;
    }
  }

  #term(): Operand {
    if (this.take('(')) {
      const operand = this.operand();
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
    const update = {
      set: [] as Assignment[],
      remove: [] as Path[],
      add: [] as Assignment[],
      delete: [] as Assignment[],
    };
    while (this.#next !== undefined) {
      if (this.take('SET')) update.set.push(...this.listOf(() => this.#assignment('=')));
      else if (this.take('REMOVE')) update.remove.push(...this.listOf(() => this.path()));
      else if (this.take('ADD')) update.add.push(...this.listOf(() => this.#assignment()));
      else if (this.take('DELETE')) update.delete.push(...this.listOf(() => this.#assignment()));
      else throw this.#unexpected();
    }
    const assignments = [...update.set, ...update.add, ...update.delete];
    return { ...update, paths: [...assignments.map(({ path }) => path), ...update.remove] };
  }

  #assignment(sign?: string): Assignment {
    const path = this.path();
    if (sign !== undefined) this.expect(sign);
    return { path, operand: this.operand() };
  }

  #unexpected(): Error {
    const token = this.#next ?? '<EOF>';
    return invalid(`Invalid expression: Syntax error; token: "${token}"`);
  }
}

function readWhole<T>(text: string, read: (reader: Reader) => T): T {
  const reader = new Reader(text);
  const tree = read(reader);
  reader.end();
  return tree;
}

/** A lock service sends a few hundred texts again and again: places of the queue are part of them. */
const keptMax = 1_000;

/** Parses each text once. The oldest text is forgotten when there are too many. */
function cached<T>(read: (text: string) => T): (text: string) => T {
  const kept = new BoundedMap<string, T>(keptMax);
  return (text) => {
    const known = kept.get(text);
    if (known !== undefined) return known;
    const tree = read(text);
    kept.set(text, tree);
    return tree;
  };
}

export const readCondition = cached((text) => readWhole(text, (reader) => reader.condition()));
export const readUpdate = cached((text) => readWhole(text, (reader) => reader.update()));

/** Every alias that an expression uses. DynamoDB refuses names and values that no expression uses. */
export const aliasesIn: (text: string) => ReadonlySet<string> = cached(
  (text) => new Set(text.match(/[#:][A-Za-z0-9_-]+/g)),
);
