/** Finds items by a key condition, in order, page by page. */
import { holds } from './conditions.ts';
import { invalid } from './errors.ts';
import { type Condition, conditionPaths, type Operand, parsedCondition } from './expressions.ts';
import { resolved, type Scope } from './paths.ts';
import { type Meaning, meaningOf, type Query, scopeOf } from './requests.ts';
import type { Index, Table } from './table.ts';
import { type Item, itemBytes, type Value } from './values.ts';

/** DynamoDB reads one megabyte at a time. */
const pageBytesMax = 1024 * 1024;

export interface Found {
  readonly items: readonly Item[];
  /** All items that were read, even if the filter rejected them: DynamoDB charges for all of them. */
  readonly looked: readonly Item[];
  readonly lastKey: Item | undefined;
  readonly partition: Item;
}

const parsed = (text: string | undefined) => (text === undefined ? undefined : parsedCondition(text));

export function findItems(table: Table, input: Query): Found {
  const { ExclusiveStartKey: start, Limit: limit = Number.POSITIVE_INFINITY } = input;
  const key = parsed(input.KeyConditionExpression);
  const filter = parsed(input.FilterExpression);
  const meaning = meaningOf(input, key, filter);
  const index = table.index(input.IndexName);
  if (filter !== undefined) checkFilter(filter.tree, meaning, index, key !== undefined);
  const range = key && rangeOf(key.tree, meaning, index, table);
  const candidates = range === undefined ? index.all() : index.of(range.partition);
  const looked: Item[] = [];
  let bytes = 0;
  let isMore = false;
  const isForward = input.ScanIndexForward !== false;
  for (const item of isForward ? candidates : [...candidates].reverse()) {
    if (start !== undefined && !isBehind(index, start, item, isForward)) continue;
    if (key !== undefined && !holds(key.tree, scopeOf(meaning, item))) continue;
    isMore = looked.length >= limit || bytes >= pageBytesMax;
    if (isMore) break;
    looked.push(item);
    bytes += itemBytes(item);
  }
  // As in DynamoDB, a page that is exactly full says that there may be more.
  const last = isMore || looked.length === limit ? looked.at(-1) : undefined;
  const items = filter === undefined ? looked : looked.filter((item) => holds(filter.tree, scopeOf(meaning, item)));
  return {
    items,
    looked,
    lastKey: last && index.keysOf(last),
    partition: range === undefined ? {} : { [index.keys.partition]: range.partition },
  };
}

/** A filter is for what the key condition can't say, and an index without an attribute can't filter by it. */
function checkFilter(filter: Condition, { names }: Meaning, index: Index, isQuery: boolean): void {
  for (const path of conditionPaths(filter)) {
    const name = resolved(path, names)[0] as string;
    const { partition, sort } = index.keys;
    if (isQuery && (name === partition || name === sort))
      throw invalid(`Filter Expression can only contain non-primary key attributes: Primary key attribute: ${name}`);
    if (!index.has(name))
      throw invalid(
        `One or more parameter values were invalid: Secondary index does not project one or more filter attributes: [${name}]`,
      );
  }
}

const wrongKeyCondition = (why: string) => invalid(`Query condition missed key schema element: ${why}`);
const sortComparators = new Set(['=', '<', '<=', '>', '>=']);

/** One comparison of a key with values of the caller. */
interface KeyTest {
  readonly key: Operand;
  readonly isEqual: boolean;
  readonly values: readonly Operand[];
}

function keyTest(condition: Condition): KeyTest | undefined {
  if (condition.kind === 'compare' && sortComparators.has(condition.comparator))
    return { key: condition.left, isEqual: condition.comparator === '=', values: [condition.right] };
  if (condition.kind === 'between')
    return { key: condition.operand, isEqual: false, values: [condition.from, condition.to] };
  if (condition.kind === 'test' && condition.name === 'begins_with')
    return { key: condition.operands[0] as Operand, isEqual: false, values: condition.operands.slice(1) };
  return undefined;
}

/** The partition that a key condition names. The condition may also limit the sort key, and nothing else. */
function rangeOf(condition: Condition, meaning: Meaning, index: Index, table: Table) {
  const parts = condition.kind === 'and' ? [condition.left, condition.right] : [condition];
  let partition: Value | undefined;
  for (const part of parts) {
    const test = keyTest(part);
    if (test === undefined || test.key.kind !== 'path') throw invalid('Invalid KeyConditionExpression');
    const [name, ...inside] = resolved(test.key.path, meaning.names) as [string];
    const values = test.values.map((value) => givenValue(value, meaning));
    for (const value of values) table.checkKeyValue(name, value);
    if (inside.length > 0 || (name !== index.keys.partition && name !== index.keys.sort)) throw wrongKeyCondition(name);
    if (name !== index.keys.partition) continue;
    if (!test.isEqual) throw invalid('Query key condition not supported');
    partition = values[0];
  }
  if (partition === undefined) throw wrongKeyCondition(index.keys.partition);
  return { partition };
}

function givenValue(operand: Operand, { values }: Pick<Scope, 'values'>): Value {
  const value = operand.kind === 'value' ? values[operand.name] : undefined;
  if (value === undefined) throw invalid('Invalid KeyConditionExpression: a key is compared with a value');
  return value;
}

function isBehind(index: Index, start: Item, item: Item, isForward: boolean): boolean {
  const order = index.compareItems(item, start);
  return isForward ? order > 0 : order < 0;
}
