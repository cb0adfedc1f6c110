/** Paths into an item, and the meaning of the caller's aliases. */
import { invalid } from './errors.ts';
import type { Path } from './expressions.ts';
import { type Item, memberOf, type Value } from './values.ts';

export type Names = Readonly<Record<string, string>>;

/** An item, and the meaning of the caller's aliases. */
export interface Scope {
  readonly item: Item;
  readonly names: Names;
  readonly values: Readonly<Record<string, Value>>;
}

function nameOf(step: string, names: Names): string {
  if (!step.startsWith('#')) return step;
  const name = names[step];
  if (name === undefined)
    throw invalid(
      `Invalid expression: An expression attribute name used in the document path is not defined; attribute name: ${step}`,
    );
  return name;
}

/** The path with its aliases replaced. */
export const resolved = (path: Path, names: Names): Path =>
  path.map((step) => (typeof step === 'string' ? nameOf(step, names) : step));

/** The value at a path. Undefined if there is none. */
export function valueAt(path: Path, { item, names }: Pick<Scope, 'item' | 'names'>): Value | undefined {
  let value = memberOf(item, nameOf(path[0] as string, names));
  for (let at = 1; at < path.length && value !== undefined; at++) {
    const step = path[at] as string | number;
    value = typeof step === 'number' ? elementOf(value, step) : namedMemberOf(value, nameOf(step, names));
  }
  return value;
}

const elementOf = (value: Value, index: number): Value | undefined => ('L' in value ? value.L[index] : undefined);
const namedMemberOf = (value: Value, name: string): Value | undefined =>
  'M' in value ? memberOf(value.M, name) : undefined;

export function namedValue(name: string, { values }: Scope): Value {
  const value = values[name];
  if (value === undefined)
    throw invalid(
      `Invalid expression: An expression attribute value used in expression is not defined; attribute value: ${name}`,
    );
  return value;
}
