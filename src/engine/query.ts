/** Finds items by a key condition, in order, page by page. */
import { holds } from './conditions.ts';
import { invalid } from './errors.ts';
import { type Condition, type Operand, readCondition } from './expressions.ts';
import { resolved } from './paths.ts';
import { type Query, scopeOf } from './requests.ts';
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

export function findItems(table: Table, input: Query): Found {
  const { ExclusiveStartKey: start, Limit: limit = Number.POSITIVE_INFINITY } = input;
  const key = input.KeyConditionExpression === undefined ? undefined : readCondition(input.KeyConditionExpression);
  const filter = input.FilterExpression === undefined ? undefined : readCondition(input.FilterExpression);
  const index = table.index(input.IndexName);
  const { candidates, partition } = candidatesOf(index, input, key);
  const looked: Item[] = [];
  let bytes = 0;
  let isMore = false;
  const isForward = input.ScanIndexForward !== false;
  for (const item of isForward ? candidates : [...candidates].reverse()) {
    if (start !== undefined && !isBehind(index, start, item, isForward)) continue;
    if (key !== undefined && !holds(key, scopeOf(input, item))) continue;
    isMore = looked.length >= limit || bytes >= pageBytesMax;
    if (isMore) break;
    looked.push(item);
    bytes += itemBytes(item);
  }
  // As in DynamoDB, a page that is exactly full says that there may be more.
  const last = isMore || looked.length === limit ? looked.at(-1) : undefined;
  const items = looked.filter((item) => filter === undefined || holds(filter, scopeOf(input, item)));
  return { items, looked, lastKey: last && index.keysOf(last), partition };
}

function candidatesOf(index: Index, input: Query, key: Condition | undefined) {
  if (key === undefined) return { candidates: index.all(), partition: {} };
  const name = index.keys.partition;
  const value = equalTo(key, name, input);
  if (value === undefined) throw invalid(`Query condition missed key schema element: ${name}`);
  return { candidates: index.of(value), partition: { [name]: value } };
}

/** The value that the condition requires for the partition key. */
function equalTo(condition: Condition, name: string, input: Query): Value | undefined {
  if (condition.kind === 'and') return equalTo(condition.left, name, input) ?? equalTo(condition.right, name, input);
  if (condition.kind !== 'compare' || condition.comparator !== '=') return undefined;
  const isKey = (operand: Operand) =>
    operand.kind === 'path' && resolved(operand.path, input.ExpressionAttributeNames ?? {})[0] === name;
  const { left, right } = condition;
  return isKey(left) && right.kind === 'value' ? input.ExpressionAttributeValues?.[right.name] : undefined;
}

function isBehind(index: Index, start: Item, item: Item, isForward: boolean): boolean {
  const order = index.compareItems(item, start);
  return isForward ? order > 0 : order < 0;
}
