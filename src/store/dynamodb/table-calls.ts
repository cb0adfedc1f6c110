import type { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import {
  type DynamoDBDocumentClient,
  GetCommand,
  type GetCommandInput,
  PutCommand,
  type PutCommandInput,
  UpdateCommand,
  type UpdateCommandInput,
} from '@aws-sdk/lib-dynamodb';
import type { Item } from './item-table.ts';
import { fromWireMap, toWireMap, type WireValue } from './values.ts';
import { NoTemplateError, Wire } from './wire.ts';

/** The calls that a grant, a renewal and a release are made of, in plain values. */
export interface TableCalls {
  get(input: GetCommandInput): Promise<Item | undefined>;
  put(input: PutCommandInput): Promise<void>;
  /** The item as it is after the update, where `ReturnValues` asks for it. */
  update(input: UpdateCommandInput): Promise<Item>;
}

/** By the SDK alone, with whatever a client of the caller's own brings along: its middleware sees every call. */
export const sdkCalls = (client: DynamoDBDocumentClient): TableCalls => ({
  get: async (input) => (await client.send(new GetCommand(input))).Item,
  put: async (input) => {
    await client.send(new PutCommand(input));
  },
  update: async (input) => (await client.send(new UpdateCommand(input))).Attributes ?? {},
});

/** What DynamoDB says of a signature whose time, or whose credentials, are not right any more. */
const untimely = new Set([
  'InvalidSignatureException',
  'RequestExpired',
  'RequestTimeTooSkewed',
  'ExpiredTokenException',
  'UnrecognizedClientException',
]);

/**
 * Through the wire. If a signature is refused, through the SDK: it corrects this machine's clock and fetches new credentials. Also
 * through the SDK if no request of it could be captured.
 */
export function wireCalls(client: DynamoDBClient, sdk: TableCalls, bodyMsMax: number): TableCalls {
  const wire = new Wire(client, bodyMsMax);
  const orBySdk = async <T>(byWire: Promise<T>, bySdk: () => Promise<T>): Promise<T> => {
    try {
      return await byWire;
    } catch (error) {
      if (error instanceof NoTemplateError) return bySdk();
      if (error instanceof Error && untimely.has(error.name)) return bySdk();
      throw error;
    }
  };
  return {
    get: (input) =>
      orBySdk(
        wire
          .call('GetItem', { ...input, Key: toWireMap(input.Key ?? {}) })
          .then(({ Item }) => (Item === undefined ? undefined : fromWireMap(Item as Record<string, WireValue>))),
        () => sdk.get(input),
      ),
    put: (input) =>
      orBySdk(
        wire.call('PutItem', { ...input, ...valuesOf(input), Item: toWireMap(input.Item ?? {}) }).then(() => {}),
        () => sdk.put(input),
      ),
    update: (input) =>
      orBySdk(
        wire
          .call('UpdateItem', { ...input, ...valuesOf(input), Key: toWireMap(input.Key ?? {}) })
          .then(({ Attributes }) => fromWireMap((Attributes ?? {}) as Record<string, WireValue>)),
        () => sdk.update(input),
      ),
  };
}

const valuesOf = ({ ExpressionAttributeValues: values }: { ExpressionAttributeValues?: Item | undefined }) =>
  values === undefined ? {} : { ExpressionAttributeValues: toWireMap(values) };
