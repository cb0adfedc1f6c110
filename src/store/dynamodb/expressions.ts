/**
 * Expressions in words. Attributes have short names on disk, because every write is billed by the item's size; a reader should not need
 * a decoder for them. So expressions name attributes by words (`front[0].presentUntil > :now`), and a table gives each word its letters.
 */

/** The name on disk of each word. */
export type Words = Readonly<Record<string, string>>;

export interface Clauses {
  readonly set?: readonly string[];
  readonly remove?: readonly string[];
  /** Adds to a number or into a set. */
  readonly add?: string;
  /** Takes out of a set. */
  readonly take?: string;
  readonly when?: string;
}

export interface Condition {
  readonly ConditionExpression?: string;
  readonly ExpressionAttributeNames?: Record<string, string>;
  readonly ExpressionAttributeValues?: Record<string, unknown>;
}

export interface Update extends Condition {
  readonly UpdateExpression: string;
}

/** Functions are followed by a parenthesis and operators are in capitals; every other bare word is an attribute. */
const token = /(:\w+)|([A-Za-z_]\w*)(\s*\()?/g;
const operator = /^[A-Z]+$/;

/** Turns words into aliases and keeps account of what is used: DynamoDB refuses names and values that no expression uses. */
export class Translation {
  readonly #words: Words;
  readonly #values: Readonly<Record<string, unknown>>;
  readonly #names: Record<string, string> = {};
  readonly #used: Record<string, unknown> = {};

  constructor(words: Words, values: Readonly<Record<string, unknown>>) {
    this.#words = words;
    this.#values = values;
  }

  of(expression: string): string {
    return expression.replace(token, (whole, value?: string, word?: string, isFunction?: string) => {
      if (value !== undefined) return this.#value(value);
      if (word === undefined || isFunction !== undefined || operator.test(word)) return whole;
      return this.#name(word);
    });
  }

  /** Every word is an alias: `ttl`, `limit` and many others are reserved. */
  #name(word: string): string {
    const letters = this.#words[word];
    if (letters === undefined) throw new TypeError(`No attribute is called "${word}" here.`);
    this.#names[`#${word}`] = letters;
    return `#${word}`;
  }

  #value(alias: string): string {
    const value = this.#values[alias.slice(1)];
    if (value === undefined) throw new TypeError(`No value is given for ${alias}.`);
    this.#used[alias] = value;
    return alias;
  }

  /** What goes with the expressions. */
  get names(): {
    ExpressionAttributeNames?: Record<string, string>;
    ExpressionAttributeValues?: Record<string, unknown>;
  } {
    return {
      ...(Object.keys(this.#names).length === 0 ? {} : { ExpressionAttributeNames: this.#names }),
      ...(Object.keys(this.#used).length === 0 ? {} : { ExpressionAttributeValues: this.#used }),
    };
  }
}

const clause = (keyword: string, parts: readonly string[]): string =>
  parts.length === 0 ? '' : `${keyword} ${parts.join(', ')}`;

/** One update, conditional where `when` says so. */
export function update(clauses: Clauses, words: Words, values: Readonly<Record<string, unknown>> = {}): Update {
  const { set = [], remove = [], add, take, when } = clauses;
  const translation = new Translation(words, values);
  const expression = [
    clause('SET', set),
    clause('REMOVE', remove),
    clause('ADD', add === undefined ? [] : [add]),
    clause('DELETE', take === undefined ? [] : [take]),
  ].filter((part) => part !== '');
  const UpdateExpression = translation.of(expression.join(' '));
  const ConditionExpression = when === undefined ? undefined : translation.of(when);
  return {
    UpdateExpression,
    ...(ConditionExpression === undefined ? {} : { ConditionExpression }),
    ...translation.names,
  };
}

/** A condition alone, for a put. */
export function condition(when: string, words: Words, values: Readonly<Record<string, unknown>> = {}): Condition {
  const translation = new Translation(words, values);
  const ConditionExpression = translation.of(when);
  return { ConditionExpression, ...translation.names };
}
