import { tableShape } from '../../../src/table/shape.ts';
import type { WireItem, WireValue } from './item-size.ts';

// biome-ignore lint/suspicious/noExplicitAny: requests are read by the fields of each operation.
export type Input = any;

/** One item that a request writes. */
export interface Touched {
  readonly table: string;
  readonly key: WireItem;
  /** The item after the request: known, absent, unchanged, or known only to the engine. */
  readonly next: WireItem | 'absent' | 'unknown' | 'unchanged';
}

const { partitionKey, sortKey } = tableShape;

export const keyOf = (item: WireItem): WireItem => ({
  [partitionKey]: item[partitionKey] as WireValue,
  [sortKey]: item[sortKey] as WireValue,
});

export const itemIdOf = (table: string, item: WireItem): string =>
  `${table} ${item[partitionKey]?.S} ${item[sortKey]?.S}`;

const plainWrites = new Set(['PutItem', 'UpdateItem', 'DeleteItem']);

export const isPlainWrite = (operation: string): boolean => plainWrites.has(operation);
export const isWrite = (operation: string): boolean =>
  isPlainWrite(operation) || operation === 'TransactWriteItems' || operation === 'BatchWriteItem';
export const isRead = (operation: string): boolean => ['GetItem', 'BatchGetItem', 'Query'].includes(operation);

/** The items that a request writes. */
export function touchedBy(operation: string, input: Input): Touched[] {
  switch (operation) {
    case 'PutItem':
      return [{ table: input.TableName, key: keyOf(input.Item), next: input.Item }];
    case 'UpdateItem':
      return [{ table: input.TableName, key: input.Key, next: 'unknown' }];
    case 'DeleteItem':
      return [{ table: input.TableName, key: input.Key, next: 'absent' }];
    case 'TransactWriteItems':
      return input.TransactItems.map(({ Put, Update, Delete, ConditionCheck }: Input): Touched => {
        if (Put !== undefined) return { table: Put.TableName, key: keyOf(Put.Item), next: Put.Item };
        if (Delete !== undefined) return { table: Delete.TableName, key: Delete.Key, next: 'absent' };
        if (Update !== undefined) return { table: Update.TableName, key: Update.Key, next: 'unknown' };
        return { table: ConditionCheck.TableName, key: ConditionCheck.Key, next: 'unchanged' };
      });
    case 'BatchWriteItem':
      return Object.entries(input.RequestItems as Record<string, Input[]>).flatMap(([table, requests]) =>
        requests.map(
          ({ PutRequest, DeleteRequest }): Touched =>
            PutRequest === undefined
              ? { table, key: DeleteRequest.Key, next: 'absent' }
              : { table, key: keyOf(PutRequest.Item), next: PutRequest.Item },
        ),
      );
    default:
      return [];
  }
}

type IndexShape = (typeof tableShape.indexes)[keyof typeof tableShape.indexes];

/**
 * For a query: which items it would show. It understands the few forms that our stores use. For others the engine
 * decides.
 */
export function indexFilter(input: Input): ((item: WireItem) => boolean) | undefined {
  const index = indexOf(input);
  const form = /^(#\w+) = (:\w+)(?: AND (#\w+) BETWEEN (:\w+) AND (:\w+))?$/.exec(input.KeyConditionExpression ?? '');
  if (index === undefined || form === null) return undefined;
  const [, , partition = '', sort, from = '', to = ''] = form;
  const named = (name: string): string => String(textOf(input.ExpressionAttributeValues[name]));
  return (item) => {
    const [inPartition, inSort] = [textOf(item[index.partitionKey]), textOf(item[index.sortKey])];
    if (inPartition !== named(partition) || inSort === undefined) return false;
    return sort === undefined || (named(from) <= inSort && inSort <= named(to));
  };
}

const indexOf = ({ IndexName }: Input): IndexShape | undefined =>
  Object.values(tableShape.indexes).find(({ name }) => name === IndexName);

const textOf = (value: WireValue | undefined): string | undefined => value?.S ?? value?.N;

/** An index with keys only shows these attributes, in the order of its sort key. */
export function indexView(input: Input, items: readonly WireItem[]): WireItem[] {
  const index = indexOf(input) as IndexShape;
  const names = new Set<string>([partitionKey, sortKey, index.partitionKey, index.sortKey]);
  const inOrder = (one: WireItem, other: WireItem): number => {
    const [first, second] = [one[index.sortKey], other[index.sortKey]];
    if (first?.N !== undefined) return Number(first.N) - Number(second?.N);
    return (first?.S ?? '') < (second?.S ?? '') ? -1 : 1;
  };
  return items
    .map((item) => Object.fromEntries(Object.entries(item).filter(([name]) => names.has(name))))
    .sort(inOrder);
}
