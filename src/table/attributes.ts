/**
 * The attributes of items: named by words in expressions, and checked when they are read.
 *
 * On disk attributes have short names, because every write is billed by the item's size. A reader should not need a
 * decoder for them. So expressions name attributes by words (`front[0].presentUntil > :now`), and a table has the name
 * on disk of each word.
 *
 * A stored value may not be what the compiler says: another release, a repair by hand or a damaged item may have
 * written it. A value of the wrong kind ends in an error that names the attribute, and never in a wrong decision.
 */
import { type EpochMs, epochMs } from '../time/clock.ts';
import { StoreError } from './store-error.ts';

export type Item = Record<string, unknown>;

export interface ItemKey {
  readonly pk: string;
  readonly sk: string;
}

/** What each word means on disk: the name of an attribute, or a place in a list. */
export type Words = Readonly<Record<string, string | number>>;

export interface Clauses {
  readonly set?: readonly string[];
  readonly remove?: readonly string[];
  /** Adds to a number or into a set. */
  readonly add?: string;
  /** Removes from a set. */
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

/** A word before a parenthesis is a function, and a word in capitals is an operator. Every other word is an attribute. */
const token = /(:\w+)|(\.?)([A-Za-z_]\w*)(\s*\()?/g;
const operator = /^[A-Z]+$/;

/** Turns words into aliases. It notes which are used, because DynamoDB refuses names and values that no expression uses. */
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
    return expression.replace(token, (whole, value: string | undefined, dot: string, word: string, call?: string) => {
      if (value !== undefined) return this.#value(value);
      if (call !== undefined || operator.test(word)) return whole;
      return this.#path(dot, word);
    });
  }

  /** Every word gets an alias, because `ttl`, `limit` and many others are reserved. */
  #path(dot: string, word: string): string {
    const meaning = this.#words[word];
    if (meaning === undefined) throw new TypeError(`No attribute is called "${word}" here.`);
    if (typeof meaning === 'number') {
      if (dot === '') throw new TypeError(`"${word}" is a place in a list, so it needs the list before it.`);
      return `[${meaning}]`;
    }
    this.#names[`#${word}`] = meaning;
    return `${dot}#${word}`;
  }

  #value(alias: string): string {
    const value = this.#values[alias.slice(1)];
    if (value === undefined) throw new TypeError(`No value is given for ${alias}.`);
    this.#used[alias] = value;
    return alias;
  }

  /** The names and values that are sent with the expressions. */
  get names(): Omit<Condition, 'ConditionExpression'> {
    return {
      ...(Object.keys(this.#names).length === 0 ? {} : { ExpressionAttributeNames: this.#names }),
      ...(Object.keys(this.#used).length === 0 ? {} : { ExpressionAttributeValues: this.#used }),
    };
  }
}

const clause = (keyword: string, parts: readonly string[]): string =>
  parts.length === 0 ? '' : `${keyword} ${parts.join(', ')}`;

/** An update. It is conditional if there is a `when`. */
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
  const conditional = when === undefined ? {} : { ConditionExpression: translation.of(when) };
  return { UpdateExpression, ...conditional, ...translation.names };
}

/** Only a condition, for a put. */
export function condition(when: string, words: Words, values: Readonly<Record<string, unknown>> = {}): Condition {
  const translation = new Translation(words, values);
  const ConditionExpression = translation.of(when);
  return { ConditionExpression, ...translation.names };
}

/** Fails closed. The message names the attribute and the kind of value, but never the value, which may be secret. */
export const unreadable = (what: string): StoreError =>
  new StoreError('unreadable', `A stored item can't be used: ${what}.`);

const kindOf = (value: unknown): string =>
  value === null ? 'null' : Array.isArray(value) ? 'a list' : value === undefined ? 'missing' : `a ${typeof value}`;

const expected = (kind: string, name: string, value: unknown): StoreError =>
  unreadable(`"${name}" should be ${kind} and is ${kindOf(value)}`);

export const text = (item: Item, name: string): string => asText(item[name], name);

export function integer(item: Item, name: string): number {
  const value = item[name];
  if (!Number.isSafeInteger(value)) throw expected('a whole number', name, value);
  return value as number;
}

export const instant = (item: Item, name: string): EpochMs => epochMs(integer(item, name));

export const list = (item: Item, name: string): readonly unknown[] => asList(item[name], name);

export function asList(value: unknown, name: string): readonly unknown[] {
  if (!Array.isArray(value)) throw expected('a list', name, value);
  return value;
}

export const map = (item: Item, name: string): Item => asMap(item[name], name);

export function asMap(value: unknown, name: string): Item {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw expected('a map', name, value);
  return value as Item;
}

export function asText(value: unknown, name: string): string {
  if (typeof value !== 'string') throw expected('a string', name, value);
  return value;
}

export function oneOf<Choice extends string>(item: Item, name: string, choices: readonly Choice[]): Choice {
  const value = text(item, name);
  const choice = choices.find((candidate) => candidate === value);
  if (choice === undefined) throw unreadable(`"${name}" is none of ${choices.join(', ')}`);
  return choice;
}

/** Undefined if the attribute is absent, and otherwise checked. */
export const optional = <Value>(
  read: (item: Item, name: string) => Value,
  item: Item,
  name: string,
): Value | undefined => (item[name] === undefined ? undefined : read(item, name));
