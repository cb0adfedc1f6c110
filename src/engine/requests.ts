/** The JSON of the requests that the engine takes. */

import { invalid } from './errors.ts';
import { holds } from './evaluation.ts';
import { aliasesIn, readCondition } from './expressions.ts';
import { checkValue, type Item, type Value } from './values.ts';

interface Aliases {
  readonly ExpressionAttributeNames?: Record<string, string>;
  readonly ExpressionAttributeValues?: Record<string, Value>;
}

export interface Write extends Aliases {
  readonly TableName: string;
  readonly ConditionExpression?: string;
  readonly ReturnValuesOnConditionCheckFailure?: string;
  readonly ReturnValues?: string;
}

export interface Put extends Write {
  readonly Item: Item;
}

export interface Keyed extends Write {
  readonly Key: Item;
}

export interface UpdateRequest extends Keyed {
  readonly UpdateExpression?: string;
}

export interface Get extends Aliases {
  readonly TableName: string;
  readonly Key: Item;
  readonly ConsistentRead?: boolean;
}

export interface Query extends Aliases {
  readonly TableName: string;
  readonly IndexName?: string;
  readonly KeyConditionExpression?: string;
  readonly FilterExpression?: string;
  readonly Limit?: number;
  readonly ExclusiveStartKey?: Item;
  readonly ScanIndexForward?: boolean;
  readonly ConsistentRead?: boolean;
}

/** One item of a transaction. Exactly one of the four operations is set. */
export interface TransactItem {
  readonly Put?: Put;
  readonly Update?: UpdateRequest;
  readonly Delete?: Keyed;
  readonly ConditionCheck?: Keyed;
}

export interface Transaction {
  readonly TransactItems: readonly TransactItem[];
  readonly ClientRequestToken?: string;
}

export interface BatchGet {
  readonly RequestItems: Record<string, { readonly Keys: Item[]; readonly ConsistentRead?: boolean }>;
}

export interface BatchWrite {
  readonly RequestItems: Record<
    string,
    { readonly PutRequest?: { Item: Item }; readonly DeleteRequest?: { Key: Item } }[]
  >;
}

const expressionNames = ['ConditionExpression', 'UpdateExpression', 'KeyConditionExpression', 'FilterExpression'];

/** DynamoDB refuses aliases that no expression uses, and values that it can't store. */
export function checkAliases(request: Aliases): void {
  const { ExpressionAttributeNames: names = {}, ExpressionAttributeValues: values = {} } = request;
  const texts = expressionNames
    .map((name) => (request as Record<string, unknown>)[name])
    .filter((text) => typeof text === 'string');
  const used = new Set(texts.flatMap((text) => [...aliasesIn(text)]));
  const unusedName = Object.keys(names).find((name) => !used.has(name));
  if (unusedName !== undefined)
    throw invalid(`Value provided in ExpressionAttributeNames unused in expressions: keys: {${unusedName}}`);
  const unusedValue = Object.keys(values).find((name) => !used.has(name));
  if (unusedValue !== undefined)
    throw invalid(`Value provided in ExpressionAttributeValues unused in expressions: keys: {${unusedValue}}`);
  Object.values(values).forEach(checkValue);
}

export const scopeOf = (request: Aliases, item: Item | undefined) => ({
  item: item ?? {},
  names: request.ExpressionAttributeNames ?? {},
  values: request.ExpressionAttributeValues ?? {},
});

/** True if the condition of a write holds. */
export const isAllowed = (request: Write, item: Item | undefined): boolean =>
  request.ConditionExpression === undefined ||
  holds(readCondition(request.ConditionExpression), scopeOf(request, item));
