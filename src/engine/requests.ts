/** The JSON of the requests that the engine takes. */

import { holds } from './conditions.ts';
import { invalid } from './errors.ts';
import { aliasesIn, readCondition } from './expressions.ts';
import type { Names, Scope } from './paths.ts';
import { checkValue, type Item, type Value } from './values.ts';

interface Aliases {
  readonly ExpressionAttributeNames?: Names;
  readonly ExpressionAttributeValues?: Item;
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

interface Expressions extends Aliases {
  readonly ConditionExpression?: string;
  readonly UpdateExpression?: string;
  readonly KeyConditionExpression?: string;
  readonly FilterExpression?: string;
}

/** DynamoDB refuses aliases that no expression uses, and values that it can't store. */
export function checkAliases(request: Expressions): void {
  const { ExpressionAttributeNames: names, ExpressionAttributeValues: values } = request;
  if (names === undefined && values === undefined) return;
  for (const name in names)
    if (!isUsed(name, request))
      throw invalid(`Value provided in ExpressionAttributeNames unused in expressions: keys: {${name}}`);
  for (const name in values) {
    if (!isUsed(name, request))
      throw invalid(`Value provided in ExpressionAttributeValues unused in expressions: keys: {${name}}`);
    checkValue(values[name] as Value);
  }
}

const isUsed = (alias: string, request: Expressions): boolean =>
  isIn(alias, request.ConditionExpression) ||
  isIn(alias, request.UpdateExpression) ||
  isIn(alias, request.KeyConditionExpression) ||
  isIn(alias, request.FilterExpression);

const isIn = (alias: string, text: string | undefined): boolean => text !== undefined && aliasesIn(text).has(alias);

const nothing = {};

export const scopeOf = (request: Aliases, item: Item | undefined): Scope => ({
  item: item ?? nothing,
  names: request.ExpressionAttributeNames ?? nothing,
  values: request.ExpressionAttributeValues ?? nothing,
});

/** True if the condition of a write holds. */
export const isAllowed = (request: Write, item: Item | undefined): boolean =>
  request.ConditionExpression === undefined ||
  holds(readCondition(request.ConditionExpression), scopeOf(request, item));
