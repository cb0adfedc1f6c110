import { DynamoDBClient, type DynamoDBClientConfig } from '@aws-sdk/client-dynamodb';
import { DynamoDBDocumentClient } from '@aws-sdk/lib-dynamodb';
import { sdkCalls, type TableCalls, wireCalls } from './table-calls.ts';

export interface StoreAddress {
  readonly tableName: string;
  readonly region?: string | undefined;
  /** Absent: DynamoDB itself. */
  readonly endpoint?: string | undefined;
  /** Keys, or a function that gives them. Absent: where the AWS SDK usually finds them. */
  readonly credentials?: DynamoDBClientConfig['credentials'] | undefined;
}

/** How long a call may take, and how many go on at once. */
export interface Patience {
  readonly connectionMs: number;
  readonly requestMs: number;
  readonly socketsMax: number;
}

/** DynamoDB answers within tens of milliseconds: three tries of three seconds stay under a caller's ten. One process may serve hundreds of callers. */
const cloudPatience: Patience = { connectionMs: 1_000, requestMs: 3_000, socketsMax: 256 };

/**
 * An engine on a busy laptop is slow, not away; and it gets more done when it is asked a few things at a time. Three tries of five
 * seconds end well before the gateway gives up at thirty: a caller is told 503, not cut off.
 */
export const localPatience: Patience = { connectionMs: 3_000, requestMs: 5_000, socketsMax: 32 };

/** A client whose every call ends in bounded time: a store that is out of reach becomes 503 while the caller still waits. */
export function createDynamoDBClient(
  { region, endpoint, credentials }: Omit<StoreAddress, 'tableName'>,
  { connectionMs, requestMs, socketsMax }: Patience = cloudPatience,
): DynamoDBClient {
  return new DynamoDBClient({
    ...(region === undefined ? {} : { region }),
    ...(endpoint === undefined ? {} : { endpoint }),
    ...(credentials === undefined ? {} : { credentials }),
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

export const documentClient = (client: DynamoDBClient): DynamoDBDocumentClient =>
  DynamoDBDocumentClient.from(client, { marshallOptions: { removeUndefinedValues: true } });

/** A table's documents over a client of our own, with the short way to them. */
export function tableClients(
  address: Omit<StoreAddress, 'tableName'>,
  patience: Patience = cloudPatience,
): { client: DynamoDBClient; documents: DynamoDBDocumentClient; calls: TableCalls } {
  const client = createDynamoDBClient(address, patience);
  const documents = documentClient(client);
  return { client, documents, calls: wireCalls(client, sdkCalls(documents), patience.requestMs) };
}
