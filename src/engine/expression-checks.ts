/**
 * What is wrong with an expression for every item: an alias without a meaning, a value of a type that an operator does
 * not take, an operand that is compared with itself. DynamoDB refuses these before it looks at an item.
 */
import { invalid } from './errors.ts';
import type { Condition, Operand, Path, Update } from './expressions.ts';
import { type Names, resolved } from './paths.ts';
import { compare, type Item, typeOf, type Value } from './values.ts';

/** Throws if the caller's names or values do not fit the expression. */
export type Check = (names: Names, values: Item) => void;

const ordered = ['S', 'N', 'B'];
const types = ['S', 'N', 'B', 'BOOL', 'NULL', 'L', 'M', 'SS', 'NS', 'BS'];
const sets = ['SS', 'NS', 'BS'];
const comparatorsOfOrder = new Set(['<', '<=', '>', '>=']);

/** Only values of the caller have a type before an item is read. */
function typed(operator: string, operand: Operand | undefined, allowed: readonly string[]): Check[] {
  if (operand?.kind === 'call' && operand.name === 'size' && !allowed.includes('N'))
    throw invalid(
      `Incorrect operand type for operator or function; operator or function: ${operator}, operand type: N`,
    );
  if (operand?.kind !== 'value') return [];
  const { name } = operand;
  return [
    (_, values) => {
      const type = typeOf(values[name] as Value);
      if (!allowed.includes(type))
        throw invalid(
          `Incorrect operand type for operator or function; operator or function: ${operator}, operand type: ${type}`,
        );
    },
  ];
}

const samePath = (one: Path, other: Path): boolean =>
  one.length === other.length && one.every((step, index) => step === other[index]);

/** `a = a` says nothing, so DynamoDB takes it for a mistake. */
const distinct = (operator: string, first: Operand, others: readonly Operand[]): Check[] =>
  others.flatMap((other) => {
    if (first.kind !== 'path' || other.kind !== 'path') return [];
    return [
      (names) => {
        if (samePath(resolved(first.path, names), resolved(other.path, names)))
          throw invalid(
            `The first operand must be distinct from the remaining operands for this operator; operator: ${operator}`,
          );
      },
    ];
  });

/** Two values of the caller must be in order, and of one type. */
function bounds(from: Operand, to: Operand): Check[] {
  if (from.kind !== 'value' || to.kind !== 'value') return [];
  return [
    (_, values) => {
      const order = compare(values[from.name] as Value, values[to.name] as Value);
      if (order === undefined) throw invalid('The BETWEEN operator requires same data type for lower and upper bounds');
      if (order > 0)
        throw invalid('The BETWEEN operator requires upper bound to be greater than or equal to lower bound');
    },
  ];
}

export function checksOfCondition(condition: Condition): Check[] {
  switch (condition.kind) {
    case 'and':
    case 'or':
      return [...checksOfCondition(condition.left), ...checksOfCondition(condition.right)];
    case 'not':
      return checksOfCondition(condition.condition);
    case 'compare': {
      const { comparator, left, right } = condition;
      const isOfOrder = comparatorsOfOrder.has(comparator);
      return [
        ...(isOfOrder ? [left, right].flatMap((operand) => typed(comparator, operand, ordered)) : []),
        ...distinct(comparator, left, [right]),
      ];
    }
    case 'between': {
      const { operand, from, to } = condition;
      return [
        ...[operand, from, to].flatMap((one) => typed('BETWEEN', one, ordered)),
        ...bounds(from, to),
        ...distinct('BETWEEN', operand, [from, to]),
      ];
    }
    case 'in':
      return distinct('IN', condition.operand, condition.among);
    case 'test':
      return checksOfTest(condition.name, condition.operands);
  }
}

function checksOfTest(name: string, operands: readonly Operand[]): Check[] {
  const [first, second] = operands;
  const count = name === 'attribute_exists' || name === 'attribute_not_exists' ? 1 : 2;
  if (operands.length !== count)
    throw invalid(`Incorrect number of operands for operator or function; operator or function: ${name}`);
  if (count === 1 && first?.kind !== 'path')
    throw invalid(`Operator or function requires a document path; operator or function: ${name}`);
  if (first === undefined || second === undefined) return [];
  if (name === 'attribute_type') return typeNames(second);
  const types = name === 'begins_with' ? [first, second].flatMap((one) => typed(name, one, ['S', 'B'])) : [];
  return [...types, ...distinct(name, first, [second])];
}

function typeNames(operand: Operand): Check[] {
  if (operand.kind !== 'value')
    throw invalid('Incorrect operand type for operator or function; operator or function: attribute_type');
  return [
    ...typed('attribute_type', operand, ['S']),
    (_, values) => {
      const named = values[operand.name] as { S: string };
      if (!types.includes(named.S)) throw invalid(`Invalid attribute type name found; type: ${named.S}`);
    },
  ];
}

export const checksOfUpdate = ({ assignments }: Update): Check[] =>
  assignments.flatMap(({ kind, operand }) => {
    if (kind === 'set') return checksOfOperand(operand);
    return typed(kind.toUpperCase(), operand, kind === 'add' ? ['N', ...sets] : sets);
  });

function checksOfOperand(operand: Operand): Check[] {
  if (operand.kind === 'sum') {
    const sides = [operand.left, operand.right];
    return sides.flatMap((side) => [...typed(operand.sign > 0 ? '+' : '-', side, ['N']), ...checksOfOperand(side)]);
  }
  if (operand.kind !== 'call') return [];
  const { name, operands } = operand;
  if (name !== 'if_not_exists' && name !== 'list_append') throw invalid(`Invalid function name; function: ${name}`);
  if (operands.length !== 2)
    throw invalid(`Incorrect number of operands for operator or function; operator or function: ${name}`);
  if (name === 'if_not_exists' && operands[0]?.kind !== 'path')
    throw invalid('Operator or function requires a document path; operator or function: if_not_exists');
  const [first, second] = operands as [Operand, Operand];
  const own =
    name === 'list_append' ? operands.flatMap((one) => typed(name, one, ['L'])) : distinct(name, first, [second]);
  return [...own, ...operands.flatMap(checksOfOperand)];
}
