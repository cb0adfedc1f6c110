/**
 * Checked reads. What comes out of the table is not what the compiler says it is: another release, a repair by hand or a damaged item may
 * have written it. A value of the wrong kind ends in an error that names the attribute, never in a wrong decision.
 */
import { type EpochMs, epochMs } from '../../time/clock.ts';
import { StoreError } from '../store-error.ts';

export type Item = Record<string, unknown>;

/** Fails closed. The message names the attribute and the kind of value, never the value: that may be a secret. */
export const unreadable = (what: string): StoreError =>
  new StoreError('unreadable', `A stored item can't be used: ${what}.`);

const kindOf = (value: unknown): string =>
  value === null ? 'null' : Array.isArray(value) ? 'a list' : value === undefined ? 'missing' : `a ${typeof value}`;

const expected = (kind: string, name: string, value: unknown): StoreError =>
  // A name may end in a lease id after its "#".
  unreadable(`"${name.replace(/#.*/, '#…')}" should be ${kind} and is ${kindOf(value)}`);

export function text(item: Item, name: string): string {
  const value = item[name];
  if (typeof value !== 'string') throw expected('a text', name, value);
  return value;
}

export function integer(item: Item, name: string): number {
  const value = item[name];
  if (!Number.isSafeInteger(value)) throw expected('a whole number', name, value);
  return value as number;
}

export const instant = (item: Item, name: string): EpochMs => epochMs(integer(item, name));

export function list(item: Item, name: string): readonly unknown[] {
  const value = item[name];
  if (!Array.isArray(value)) throw expected('a list', name, value);
  return value;
}

export function map(item: Item, name: string): Item {
  return asMap(item[name], name);
}

export function asMap(value: unknown, name: string): Item {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw expected('a map', name, value);
  return value as Item;
}

export function asText(value: unknown, name: string): string {
  if (typeof value !== 'string') throw expected('a text', name, value);
  return value;
}

export function oneOf<Choice extends string>(item: Item, name: string, choices: readonly Choice[]): Choice {
  const value = text(item, name);
  const choice = choices.find((candidate) => candidate === value);
  if (choice === undefined) throw unreadable(`"${name}" is none of ${choices.join(', ')}`);
  return choice;
}

/** Undefined if the attribute is absent; checked where it is there. */
export const optional = <Value>(
  read: (item: Item, name: string) => Value,
  item: Item,
  name: string,
): Value | undefined => (item[name] === undefined ? undefined : read(item, name));
