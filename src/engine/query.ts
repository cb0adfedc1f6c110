/** Finds items by a key condition, in order, page by page. */
import { invalid } from './errors.ts';
import { holds, projected, resolved } from './evaluation.ts';
import { type Condition, type Operand, readCondition, readPaths } from './expressions.ts';
import { type Query, scopeOf } from './requests.ts';
import type { Table } from './table.ts';
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

export function findItems(table: Table, input: Query): Found {
  const { IndexName, ExclusiveStartKey: start, Limit: limit = Number.POSITIVE_INFINITY } = input;
  const key = input.KeyConditionExpression === undefined ? undefined : readCondition(input.KeyConditionExpression);
  const { candidates, partition } = candidatesOf(table, input, key);
  const looked: Item[] = [];
  let bytes = 0;
  let lastKey: Item | undefined;
  const isForward = input.ScanIndexForward !== false;
  for (const item of isForward ? candidates : [...candidates].reverse()) {
    if (start !== undefined && !isBehind(table, IndexName, start, item, isForward)) continue;
    if (key !== undefined && !holds(key, scopeOf(input, item))) continue;
    if (looked.length >= limit || bytes >= pageBytesMax) {
      lastKey = lastKeyOf(table, IndexName, looked.at(-1) as Item);
      break;
    }
    looked.push(shown(table, IndexName, item));
    bytes += itemBytes(item);
  }
  // As in DynamoDB, a page that is exactly full says that there may be more.
  if (lastKey === undefined && looked.length === limit) lastKey = lastKeyOf(table, IndexName, looked.at(-1) as Item);
  const filter = input.FilterExpression === undefined ? undefined : readCondition(input.FilterExpression);
  const passed = looked.filter((item) => filter === undefined || holds(filter, scopeOf(input, item)));
  const paths = input.ProjectionExpression === undefined ? undefined : readPaths(input.ProjectionExpression);
  const items = paths === undefined ? passed : passed.map((item) => projected(paths, scopeOf(input, item)));
  return { items, looked, lastKey, partition };
}

function candidatesOf(table: Table, input: Query, key: Condition | undefined) {
  if (key === undefined) {
    const all = [...table.all()];
    return {
      candidates: input.IndexName === undefined ? all : all.filter((item) => isIn(table, input.IndexName, item)),
      partition: {},
    };
  }
  const keys = input.IndexName === undefined ? table.shape.keys : table.indexNamed(input.IndexName).shape;
  const value = equalTo(key, keys.partition, input);
  if (value === undefined) throw invalid(`Query condition missed key schema element: ${keys.partition}`);
  return { candidates: table.partition(value, input.IndexName).items, partition: { [keys.partition]: value } };
}

/** The value that the condition requires for the partition key. */
function equalTo(condition: Condition, name: string, input: Query): Value | undefined {
  if (condition.kind === 'and') return equalTo(condition.left, name, input) ?? equalTo(condition.right, name, input);
  if (condition.kind !== 'compare' || condition.comparator !== '=') return undefined;
  const isKey = (operand: Operand) =>
    operand.kind === 'path' && resolved(operand.path, { names: input.ExpressionAttributeNames ?? {} })[0] === name;
  const { left, right } = condition;
  return isKey(left) && right.kind === 'value' ? input.ExpressionAttributeValues?.[right.name] : undefined;
}

const isIn = (table: Table, indexName: string | undefined, item: Item): boolean =>
  indexName === undefined || table.shownIn(table.indexNamed(indexName), item) !== undefined;

const shown = (table: Table, indexName: string | undefined, item: Item): Item =>
  indexName === undefined ? item : (table.shownIn(table.indexNamed(indexName), item) ?? item);

function isBehind(table: Table, indexName: string | undefined, start: Item, item: Item, isForward: boolean): boolean {
  const order = table.compareIn(indexName, item, start);
  return isForward ? order > 0 : order < 0;
}

function lastKeyOf(table: Table, indexName: string | undefined, item: Item): Item {
  const index = indexName === undefined ? undefined : table.indexNamed(indexName).shape;
  const names = new Set([...table.keyNames, index?.partition, index?.sort]);
  return Object.fromEntries(Object.entries(item).filter(([name]) => names.has(name)));
}
