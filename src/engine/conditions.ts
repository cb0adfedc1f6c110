/** Evaluates conditions on an item. */
import type { Condition, Operand } from './expressions.ts';
import { namedValue, type Scope, valueAt } from './paths.ts';
import { compare, equals, membersOf, typeOf, type Value } from './values.ts';

/** The value of an operand; undefined if its attribute does not exist. */
function found(operand: Operand, scope: Scope): Value | undefined {
  switch (operand.kind) {
    case 'path':
      return valueAt(operand.path, scope);
    case 'value':
      return namedValue(operand.name, scope);
    case 'call':
      return sizeOf(found(operand.operands[0] as Operand, scope));
    case 'sum':
      return undefined;
  }
}

function sizeOf(value: Value | undefined): Value | undefined {
  if (value === undefined) return undefined;
  const size = lengthOf(value);
  return size === undefined ? undefined : { N: String(size) };
}

function lengthOf(value: Value): number | undefined {
  if ('S' in value) return value.S.length;
  if ('B' in value) return Buffer.byteLength(value.B, 'base64');
  if ('L' in value) return value.L.length;
  if ('M' in value) return Object.keys(value.M).length;
  return membersOf(value)?.length;
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
  const first = found(operands[0] as Operand, scope);
  if (name === 'attribute_exists') return first !== undefined;
  if (name === 'attribute_not_exists') return first === undefined;
  const second = operands[1] === undefined ? undefined : found(operands[1], scope);
  if (first === undefined || second === undefined) return false;
  if (name === 'begins_with') return 'S' in first && 'S' in second && first.S.startsWith(second.S);
  if (name === 'attribute_type') return 'S' in second && typeOf(first) === second.S;
  return contains(first, second);
}

function contains(value: Value, member: Value): boolean {
  if ('S' in value) return 'S' in member && value.S.includes(member.S);
  if ('L' in value) return value.L.some((one) => equals(one, member));
  return membersOf(value)?.includes(String(Object.values(member)[0])) ?? false;
}
