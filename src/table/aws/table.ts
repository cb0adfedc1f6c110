/** DynamoDB behind the port. */
import {
  BatchGetItemCommand,
  BatchWriteItemCommand,
  DynamoDBClient,
  type DynamoDBClientConfig,
  GetItemCommand,
  PutItemCommand,
  QueryCommand,
  TransactWriteItemsCommand,
  UpdateItemCommand,
} from '@aws-sdk/client-dynamodb';
import { defined } from '../../tools/collections.ts';
import { isThrottling, mayHaveTakenEffect } from '../failures.ts';
import type { TableAnswers, TableOperation, TablePort, TableRequests } from '../port.ts';
import { WireTable } from './wire.ts';

export interface StoreAddress {
  readonly region?: string | undefined;
  /** If undefined, DynamoDB itself. */
  readonly endpoint?: string | undefined;
  /** Keys, or a function that returns them. If undefined, the AWS SDK looks in its usual places. */
  readonly credentials?: DynamoDBClientConfig['credentials'] | undefined;
}

/** How long a call may take, and how many run at the same time. */
export interface Patience {
  readonly connectionMs: number;
  readonly requestMs: number;
  readonly socketsMax: number;
}

/**
 * DynamoDB answers within tens of milliseconds. Three tries of three seconds end before a caller gives up at ten. 64
 * connections carry more requests in a second than one process can make. If hundreds of callers arrive at once, the others
 * wait a moment for a connection. If each of them opened its own, a small function might not finish all handshakes within
 * the time for a connection.
 */
export const cloudPatience: Patience = { connectionMs: 1_000, requestMs: 3_000, socketsMax: 64 };

/**
 * A local engine on a busy laptop is slow, but it does answer. It gets more done with fewer requests at a time. Three
 * tries of five seconds end well before the gateway gives up at thirty, so a caller gets a 503 and not a cut connection.
 */
export const localPatience: Patience = { connectionMs: 3_000, requestMs: 5_000, socketsMax: 32 };

/** Every call of this client ends in bounded time. So if the store can't be reached, the caller gets a 503 in time. */
export function createDynamoDBClient(
  { region, endpoint, credentials }: StoreAddress,
  { connectionMs, requestMs, socketsMax }: Patience = cloudPatience,
): DynamoDBClient {
  return new DynamoDBClient({
    ...defined({ region, endpoint, credentials }),
    maxAttempts: 3,
    requestHandler: {
      connectionTimeout: connectionMs,
      requestTimeout: requestMs,
      throwOnRequestTimeout: true,
      httpAgent: { maxSockets: socketsMax },
      httpsAgent: { maxSockets: socketsMax },
    },
  });
}

const commands = {
  GetItem: GetItemCommand,
  PutItem: PutItemCommand,
  UpdateItem: UpdateItemCommand,
  Query: QueryCommand,
  BatchGetItem: BatchGetItemCommand,
  BatchWriteItem: BatchWriteItemCommand,
  TransactWriteItems: TransactWriteItemsCommand,
} as const;

/** Through the SDK alone. If the client is the caller's own, its middleware sees every call. */
export class SdkTable implements TablePort {
  readonly #client: DynamoDBClient;

  constructor(client: DynamoDBClient) {
    this.#client = client;
    client.middlewareStack.addRelativeTo(markUncertain, {
      relation: 'after',
      toMiddleware: 'retryMiddleware',
      name: 'holdfastUncertainTries',
      override: true,
    });
  }

  call<Operation extends TableOperation>(
    operation: Operation,
    request: TableRequests[Operation],
  ): Promise<TableAnswers[Operation]> {
    // Requests and answers have the same form here and in the SDK, which types each command separately.
    const Command = commands[operation] as new (input: unknown) => GetItemCommand;
    return this.#client.send(new Command(request)) as Promise<unknown> as Promise<TableAnswers[Operation]>;
  }
}

const uncertain = new WeakSet<object>();

/** Sees each try of a request. If one try had no answer, it may have written, even if a later try was throttled. */
const markUncertain = ((next: (args: object) => Promise<object>, context: object) => async (args: object) => {
  try {
    return await next(args);
  } catch (error) {
    const { name = '', $fault } = error as { name?: string; $fault?: string };
    if ($fault !== 'client' && !isThrottling(name)) uncertain.add(context);
    if (uncertain.has(context)) Object.assign(error as object, { [mayHaveTakenEffect]: true });
    throw error;
  }
}) as Parameters<DynamoDBClient['middlewareStack']['addRelativeTo']>[0];

/** DynamoDB, with the fast calls over the wire. The client is for what is not in the port, and to be closed. */
export function awsTable(
  address: StoreAddress,
  patience: Patience = cloudPatience,
): { readonly client: DynamoDBClient; readonly table: TablePort } {
  const client = createDynamoDBClient(address, patience);
  return { client, table: new WireTable(client, new SdkTable(client), patience.requestMs) };
}
