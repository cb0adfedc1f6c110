/** Evaluates update expressions: what an update makes of an item. */
import { invalid } from './errors.ts';
import type { Assignment, Operand, Path, Update } from './expressions.ts';
import { addNumbers } from './numbers.ts';
import { type Names, namedValue, resolved, type Scope, valueAt } from './paths.ts';
import { type Item, memberOf, membersOf, type SetValue, typeOf, type Value } from './values.ts';

const wrongType = () => invalid('An operand in the update expression has an incorrect data type');
const wrongPath = () => invalid('The document path provided in the update expression is invalid for update');

/** The value of an operand. Its attribute must exist. */
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
      throw wrongType();
    }
    case 'call':
      return called(operand.name, operand.operands, scope);
  }
}

function called(name: string, [first, second]: readonly Operand[], scope: Scope): Value {
  if (name === 'if_not_exists' && first?.kind === 'path' && second !== undefined) {
    // As in DynamoDB, the second operand must exist even if it is not needed.
    const instead = assigned(second, scope);
    return valueAt(first.path, scope) ?? instead;
  }
  if (name === 'list_append' && first !== undefined && second !== undefined) {
    const [left, right] = [assigned(first, scope), assigned(second, scope)];
    if ('L' in left && 'L' in right) return { L: [...left.L, ...right.L] };
    throw wrongType();
  }
  throw invalid(`Invalid expression: Invalid function name; function: ${name}`);
}

/**
 * True if one path is the other or inside it. Also if one goes into a map where the other goes into a list: then one of
 * them must be wrong.
 */
function conflict(one: Path, other: Path): boolean {
  for (let at = 0; at < one.length && at < other.length; at++)
    if (one[at] !== other[at]) return typeof one[at] !== typeof other[at];
  return true;
}

/** DynamoDB refuses an update that names a path twice, or a path and another one inside it. */
function checkPaths(paths: readonly Path[]): void {
  const byName = new Map<string | number, Path[]>();
  for (const path of paths) {
    const others = byName.get(path[0] as string);
    if (others === undefined) byName.set(path[0] as string, [path]);
    else if (others.some((earlier) => conflict(path, earlier)))
      throw invalid(
        'Invalid UpdateExpression: Two document paths overlap with each other; must remove or rewrite one of these paths',
      );
    else others.push(path);
  }
}

/** Refuses an update that is wrong for every item, before any item is read. */
export function checkUpdate({ paths }: Update, names: Names, keyNames: readonly string[]): void {
  const places = paths.map((path) => resolved(path, names));
  checkPaths(places);
  const keyName = places.find(([name]) => keyNames.includes(name as string))?.[0];
  if (keyName !== undefined)
    throw invalid(
      `One or more parameter values were invalid: Cannot update attribute ${keyName}. This attribute is part of the key`,
    );
}

/**
 * The item after an update. All operands are read from the item before the update, which is not changed: the two share
 * what is equal in both.
 */
export function updated({ assignments, removals }: Update, scope: Scope): Item {
  const after: Record<string, Value> = { ...scope.item };
  const change = (path: Path, value: Value | undefined) => changeAt(after, resolved(path, scope.names), value);
  for (const assignment of assignments) change(assignment.path, resultOf(assignment, scope));
  for (const path of removals) change(path, undefined);
  return after;
}

function resultOf(assignment: Assignment, scope: Scope): Value | undefined {
  if (assignment.kind === 'set') return assigned(assignment.operand, scope);
  return assignment.kind === 'add' ? added(assignment, scope) : without(assignment, scope);
}

/** Sets the value at a path of a new item, or removes it if there is none. */
function changeAt(item: Record<string, Value>, path: Path, value: Value | undefined): void {
  const name = path[0] as string;
  const member = path.length === 1 ? value : replaced(memberOf(item, name), path, 1, value);
  if (member === undefined) delete item[name];
  else define(item, name, member);
}

/** An assignment to `__proto__` would not add a member. */
function define(members: Record<string, Value>, name: string, value: Value): void {
  if (name === '__proto__')
    Object.defineProperty(members, name, { value, enumerable: true, writable: true, configurable: true });
  else members[name] = value;
}

/** The container with another value at the path from `at` on. Only the containers along the path are copied. */
function replaced(container: Value | undefined, path: Path, at: number, value: Value | undefined): Value {
  const step = path[at] as string | number;
  const isLast = at === path.length - 1;
  if (container !== undefined && typeof step === 'number' && 'L' in container) {
    const list = [...container.L];
    if (!isLast) list[step] = replaced(list[step], path, at + 1, value);
    else if (value === undefined) list.splice(step, 1);
    // An index after the end of a list appends to the list.
    else list[Math.min(step, list.length)] = value;
    return { L: list };
  }
  if (container !== undefined && typeof step === 'string' && 'M' in container) {
    const members = { ...container.M };
    if (!isLast) define(members, step, replaced(memberOf(members, step), path, at + 1, value));
    else if (value === undefined) delete members[step];
    else define(members, step, value);
    return { M: members };
  }
  throw wrongPath();
}

const setOf = (like: Value, members: readonly string[]): SetValue =>
  ({ [typeOf(like)]: members }) as unknown as SetValue;

function added({ path, operand }: Assignment, scope: Scope): Value {
  const [was, more] = [valueAt(path, scope), assigned(operand, scope)];
  if ('N' in more && (was === undefined || 'N' in was)) return { N: addNumbers(was?.N ?? '0', more.N, 1) };
  const members = membersOf(more);
  if (members === undefined || (was !== undefined && typeOf(was) !== typeOf(more))) throw wrongType();
  return setOf(more, [...new Set([...(was === undefined ? [] : (membersOf(was) ?? [])), ...members])]);
}

/** A set that loses its last member is removed. */
function without({ path, operand }: Assignment, scope: Scope): Value | undefined {
  const [was, less] = [valueAt(path, scope), assigned(operand, scope)];
  const members = membersOf(less);
  if (members === undefined || (was !== undefined && typeOf(was) !== typeOf(less))) throw wrongType();
  const left = (was === undefined ? [] : (membersOf(was) ?? [])).filter((member) => !members.includes(member));
  return left.length === 0 ? undefined : setOf(less, left);
}
