import type { DynamoDBDocumentClient } from '@aws-sdk/lib-dynamodb';
import type { TableAccess } from '../../src/table/item-table.ts';
import { fromStored, toStored, type WireValue } from '../../src/table/wire.ts';
import type { ModelledTable } from './modelled-table.ts';

type Plain = Record<string, unknown>;
type Wired = Record<string, WireValue>;

const operationOf = (command: object): string =>
  command.constructor.name
    .replace(/^(Get|Put|Update|Delete)Command$/, '$1Item')
    .replace(/^Batch(Get|Write)Command$/, 'Batch$1Item')
    .replace(/^TransactWriteCommand$/, 'TransactWriteItems')
    .replace(/Command$/, '');

/** Converts keys, items and values of a request into DynamoDB's own form, at any depth. */
function toWired(input: unknown): unknown {
  if (Array.isArray(input)) return input.map(toWired);
  if (typeof input !== 'object' || input === null) return input;
  return Object.fromEntries(
    Object.entries(input).map(([name, value]) => {
      if (['Key', 'Item', 'ExpressionAttributeValues', 'ExclusiveStartKey'].includes(name) && value !== undefined)
        return [name, toStored(value as Plain)];
      if (name === 'Keys') return [name, (value as Plain[]).map(toStored)];
      return [name, toWired(value)];
    }),
  );
}

function fromWired(answer: Plain): Plain {
  const { Item, Attributes, Items, Responses, LastEvaluatedKey } = answer as {
    Item?: Wired;
    Attributes?: Wired;
    Items?: Wired[];
    Responses?: Record<string, Wired[]>;
    LastEvaluatedKey?: Wired;
  };
  return {
    ...answer,
    ...(Item === undefined ? {} : { Item: fromStored(Item) }),
    ...(Attributes === undefined ? {} : { Attributes: fromStored(Attributes) }),
    ...(Items === undefined ? {} : { Items: Items.map(fromStored) }),
    ...(LastEvaluatedKey === undefined ? {} : { LastEvaluatedKey: fromStored(LastEvaluatedKey) }),
    ...(Responses === undefined
      ? {}
      : {
          Responses: Object.fromEntries(
            Object.entries(Responses).map(([name, items]) => [name, items.map(fromStored)]),
          ),
        }),
  };
}

/** Access to the modelled table for the stores. They are the deployed stores, with another client. */
export function accessTo(table: ModelledTable, tableName: string, random: () => number): TableAccess {
  const send = async (command: { readonly input: Plain }): Promise<Plain> =>
    fromWired(await table.call(operationOf(command), toWired(command.input) as Plain));
  const client = { send } as unknown as DynamoDBDocumentClient;
  return { client, tableName, random };
}
