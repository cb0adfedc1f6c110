/** Evaluates expressions on an item: whether a condition is true, and what an update makes of the item. */
import { invalid } from './errors.ts';
import type { Assignment, Condition, Operand, Path, Update } from './expressions.ts';
import {
  addNumbers,
  compare,
  copyOf,
  equals,
  type Item,
  membersOf,
  type SetValue,
  typeOf,
  type Value,
} from './values.ts';

/** An item, and the meaning of the caller's aliases. */
export interface Scope {
  readonly item: Readonly<Item>;
  readonly names: Readonly<Record<string, string>>;
  readonly values: Readonly<Record<string, Value>>;
}

const nameOf = (step: string, { names }: Pick<Scope, 'names'>): string => {
  if (!step.startsWith('#')) return step;
  const name = names[step];
  if (name === undefined)
    throw invalid(
      `Invalid expression: An expression attribute name used in the document path is not defined; attribute name: ${step}`,
    );
  return name;
};

/** The path with its aliases replaced. */
export const resolved = (path: Path, scope: Pick<Scope, 'names'>): Path =>
  path.map((step) => (typeof step === 'string' ? nameOf(step, scope) : step));

function memberOf(value: Value | undefined, step: string | number): Value | undefined {
  if (value === undefined) return undefined;
  if (typeof step === 'number') return 'L' in value ? value.L[step] : undefined;
  return 'M' in value && Object.hasOwn(value.M, step) ? value.M[step] : undefined;
}

/** The value at a path. Undefined if there is none. */
const valueAt = (path: Path, scope: Pick<Scope, 'item' | 'names'>): Value | undefined =>
  resolved(path, scope).reduce<Value | undefined>(memberOf, { M: scope.item });

function namedValue(name: string, { values }: Scope): Value {
  const value = values[name];
  if (value === undefined)
    throw invalid(
      `Invalid expression: An expression attribute value used in expression is not defined; attribute value: ${name}`,
    );
  return value;
}

/** The value of an operand in a condition; undefined if its attribute does not exist. */
function found(operand: Operand, scope: Scope): Value | undefined {
  switch (operand.kind) {
    case 'path':
      return valueAt(operand.path, scope);
    case 'value':
      return namedValue(operand.name, scope);
    case 'call':
      if (operand.name === 'size') return sizeOf(found(operand.operands[0] as Operand, scope));
      return assigned(operand, scope);
    case 'sum':
      return assigned(operand, scope);
  }
}

function sizeOf(value: Value | undefined): Value | undefined {
  if (value === undefined) return undefined;
  if ('S' in value) return { N: String(Buffer.byteLength(value.S)) };
  if ('B' in value) return { N: String(Buffer.from(value.B, 'base64').length) };
  if ('L' in value) return { N: String(value.L.length) };
  if ('M' in value) return { N: String(Object.keys(value.M).length) };
  const members = membersOf(value);
  return members === undefined ? undefined : { N: String(members.length) };
}

export function holds(condition: Condition, scope: Scope): boolean {
  switch (condition.kind) {
    case 'and':
      return holds(condition.left, scope) && holds(condition.right, scope);
    case 'or':
      return holds(condition.left, scope) || holds(condition.right, scope);
    case 'not':
      return !holds(condition.condition, scope);
    case 'compare':
      return compares(condition.comparator, found(condition.left, scope), found(condition.right, scope));
    case 'between': {
      const operand = found(condition.operand, scope);
      return (
        compares('>=', operand, found(condition.from, scope)) && compares('<=', operand, found(condition.to, scope))
      );
    }
    case 'in': {
      const operand = found(condition.operand, scope);
      return condition.among.some((member) => compares('=', operand, found(member, scope)));
    }
    case 'test':
      return passes(condition.name, condition.operands, scope);
  }
}

/** A missing attribute equals no value: only "not equal" is true for it. */
function compares(comparator: string, left: Value | undefined, right: Value | undefined): boolean {
  if (left === undefined || right === undefined) return comparator === '<>';
  if (comparator === '=') return equals(left, right);
  if (comparator === '<>') return !equals(left, right);
  const order = compare(left, right);
  if (order === undefined) return false;
  if (comparator === '<') return order < 0;
  if (comparator === '<=') return order <= 0;
  return comparator === '>' ? order > 0 : order >= 0;
}

function passes(name: string, operands: readonly Operand[], scope: Scope): boolean {
  const [first, second] = operands.map((operand) => found(operand, scope));
  switch (name) {
    case 'attribute_exists':
      return first !== undefined;
    case 'attribute_not_exists':
      return first === undefined;
    case 'begins_with':
      return (
        first !== undefined && second !== undefined && 'S' in first && 'S' in second && first.S.startsWith(second.S)
      );
    default:
      return first !== undefined && second !== undefined && contains(first, second);
  }
}

function contains(value: Value, member: Value): boolean {
  if ('S' in value) return 'S' in member && value.S.includes(member.S);
  if ('L' in value) return value.L.some((one) => equals(one, member));
  return membersOf(value)?.includes(String(Object.values(member)[0])) ?? false;
}

/** The value of an operand in an update. There, the attribute must exist. */
function assigned(operand: Operand, scope: Scope): Value {
  switch (operand.kind) {
    case 'value':
      return namedValue(operand.name, scope);
    case 'path': {
      const value = valueAt(operand.path, scope);
      if (value === undefined)
        throw invalid('The provided expression refers to an attribute that does not exist in the item');
      return value;
    }
    case 'sum': {
      const left = assigned(operand.left, scope);
      const right = assigned(operand.right, scope);
      if ('N' in left && 'N' in right) return { N: addNumbers(left.N, right.N, operand.sign) };
      throw invalid('An operand in the update expression has an incorrect data type');
    }
    case 'call':
      return called(operand.name, operand.operands, scope);
  }
}

function called(name: string, [first, second]: readonly Operand[], scope: Scope): Value {
  if (name === 'if_not_exists' && first?.kind === 'path' && second !== undefined)
    return valueAt(first.path, scope) ?? assigned(second, scope);
  if (name === 'list_append' && first !== undefined && second !== undefined) {
    const [left, right] = [assigned(first, scope), assigned(second, scope)];
    if ('L' in left && 'L' in right) return { L: [...left.L, ...right.L] };
    throw invalid('An operand in the update expression has an incorrect data type');
  }
  throw invalid(`Invalid expression: Invalid function name; function: ${name}`);
}

const overlap = (one: Path, other: Path): boolean =>
  one.slice(0, other.length).every((step, index) => step === other[index]);

/** DynamoDB refuses an update that names a path twice, or a path and another one inside it. */
function checkPaths(paths: readonly Path[]): void {
  paths.forEach((path, index) => {
    if (paths.slice(0, index).some((earlier) => overlap(path, earlier) || overlap(earlier, path)))
      throw invalid(
        'Invalid UpdateExpression: Two document paths overlap with each other; must remove or rewrite one of these paths',
      );
  });
}

/** Refuses an update that is wrong for every item, before any item is read. */
export function checkUpdate(update: Update, names: Scope['names'], keyNames: readonly string[]): void {
  const paths = placesOf(update, { names });
  checkPaths(paths);
  const keyName = paths.find(([name]) => keyNames.includes(name as string))?.[0];
  if (keyName !== undefined)
    throw invalid(
      `One or more parameter values were invalid: Cannot update attribute ${keyName}. This attribute is part of the key`,
    );
}

const placesOf = ({ set, remove, add, delete: taken }: Update, scope: Pick<Scope, 'names'>): Path[] =>
  [...[...set, ...add, ...taken].map(({ path }) => path), ...remove].map((path) => resolved(path, scope));

/** The item after an update. All operands are read from the item before the update. */
export function updated(update: Update, scope: Scope): Item {
  const { set, remove, add, delete: taken } = update;
  const assignments: (readonly [Path, Value | undefined])[] = [
    ...set.map(({ path, operand }) => [resolved(path, scope), assigned(operand, scope)] as const),
    ...add.map((change) => [resolved(change.path, scope), added(change, scope)] as const),
    ...taken.map((change) => [resolved(change.path, scope), without(change, scope)] as const),
  ];
  const removed = remove.map((path) => resolved(path, scope));
  const item = copyForChange(scope.item, placesOf(update, scope));
  for (const [path, value] of assignments) {
    if (value === undefined) removeAt(item, path);
    else putAt(item, path, copyOf(value));
  }
  // From the end, so that removing one element of a list does not move another one that is still to be removed.
  for (const path of [...removed].sort((one, other) => indexOf(other) - indexOf(one))) removeAt(item, path);
  return item;
}

const indexOf = (path: Path): number => (typeof path.at(-1) === 'number' ? (path.at(-1) as number) : 0);

/** Shares unchanged parts with the old item. The old item is not changed, because the stream needs it. */
function copyForChange(item: Readonly<Item>, paths: readonly Path[]): Item {
  const copy: Item = { ...item };
  for (const [name] of paths) {
    const value = copy[name as string];
    if (value !== undefined) copy[name as string] = copyOf(value);
  }
  return copy;
}

function parentAt(item: Item, path: Path): Value {
  const parent = path.slice(0, -1).reduce<Value | undefined>(memberOf, { M: item });
  if (parent === undefined) throw invalid('The document path provided in the update expression is invalid for update');
  return parent;
}

function putAt(item: Item, path: Path, value: Value): void {
  const parent = parentAt(item, path);
  const last = path.at(-1) as string | number;
  if (typeof last === 'string' && 'M' in parent) parent.M[last] = value;
  // An index after the end of a list appends to the list.
  else if (typeof last === 'number' && 'L' in parent) parent.L[Math.min(last, parent.L.length)] = value;
  else throw invalid('The document path provided in the update expression is invalid for update');
}

function removeAt(item: Item, path: Path): void {
  const parent = parentAt(item, path);
  const last = path.at(-1) as string | number;
  if (typeof last === 'string' && 'M' in parent) delete parent.M[last];
  else if (typeof last === 'number' && 'L' in parent) parent.L.splice(last, 1);
  else throw invalid('The document path provided in the update expression is invalid for update');
}

const setOf = (like: Value, members: readonly string[]): SetValue =>
  ({ [typeOf(like)]: members }) as unknown as SetValue;

function added({ path, operand }: Assignment, scope: Scope): Value {
  const [was, more] = [valueAt(path, scope), assigned(operand, scope)];
  if ('N' in more && (was === undefined || 'N' in was)) return { N: addNumbers(was?.N ?? '0', more.N, 1) };
  const members = membersOf(more);
  if (members === undefined || (was !== undefined && typeOf(was) !== typeOf(more)))
    throw invalid('An operand in the update expression has an incorrect data type');
  return setOf(more, [...new Set([...(was === undefined ? [] : (membersOf(was) ?? [])), ...members])]);
}

/** A set that loses its last member is removed. */
function without({ path, operand }: Assignment, scope: Scope): Value | undefined {
  const [was, less] = [valueAt(path, scope), assigned(operand, scope)];
  const members = membersOf(less);
  if (members === undefined || (was !== undefined && typeOf(was) !== typeOf(less)))
    throw invalid('An operand in the update expression has an incorrect data type');
  const left = (was === undefined ? [] : (membersOf(was) ?? [])).filter((member) => !members.includes(member));
  return left.length === 0 ? undefined : setOf(less, left);
}
