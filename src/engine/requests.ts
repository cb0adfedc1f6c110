/** The JSON of the requests that the engine takes. */

import { invalid } from './errors.ts';
import type { Parsed } from './expressions.ts';
import type { Names, Scope } from './paths.ts';
import { type Item, storedItem } from './values.ts';

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

/** The names and values of a request, after they were checked. Values are spelled as they are stored. */
export interface Meaning {
  readonly names: Names;
  readonly values: Item;
}

const nothing = {};

/** DynamoDB refuses aliases that no expression uses, aliases without a meaning, and values that it can't store. */
export function meaningOf(request: Aliases, ...expressions: readonly (Parsed<unknown> | undefined)[]): Meaning {
  const { ExpressionAttributeNames: names = nothing as Names, ExpressionAttributeValues: given = nothing } = request;
  const isUsed = (alias: string) => expressions.some((expression) => expression?.aliases.has(alias));
  for (const name in names)
    if (!isUsed(name))
      throw invalid(`Value provided in ExpressionAttributeNames unused in expressions: keys: {${name}}`);
  for (const name in given)
    if (!isUsed(name))
      throw invalid(`Value provided in ExpressionAttributeValues unused in expressions: keys: {${name}}`);
  const values = given === nothing ? given : storedItem(given);
  for (const expression of expressions) if (expression !== undefined) checkExpression(expression, names, values);
  return { names, values };
}

function checkExpression({ aliases, checks }: Parsed<unknown>, names: Names, values: Item): void {
  for (const alias of aliases)
    if (names[alias] === undefined && values[alias] === undefined)
      throw invalid(
        `Invalid expression: An expression attribute ${alias.startsWith('#') ? 'name' : 'value'} used in expression is not defined; alias: ${alias}`,
      );
  for (const check of checks) check(names, values);
}

export const scopeOf = ({ names, values }: Meaning, item: Item | undefined): Scope => ({
  item: item ?? nothing,
  names,
  values,
});
