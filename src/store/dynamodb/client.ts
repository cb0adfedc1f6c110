import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { DynamoDBDocumentClient } from '@aws-sdk/lib-dynamodb';

export interface StoreAddress {
  readonly tableName: string;
  readonly region?: string | undefined;
  /** Absent: DynamoDB itself. */
  readonly endpoint?: string | undefined;
  readonly credentials?: { readonly accessKeyId: string; readonly secretAccessKey: string } | undefined;
}

/** A client whose every call ends in bounded time: a store that is out of reach becomes 503 while the caller still waits. */
export function createDynamoDBClient({
  region,
  endpoint,
  credentials,
}: Omit<StoreAddress, 'tableName'>): DynamoDBClient {
  return new DynamoDBClient({
    ...(region === undefined ? {} : { region }),
    ...(endpoint === undefined ? {} : { endpoint }),
    ...(credentials === undefined ? {} : { credentials }),
    // Three tries of at most three seconds stay under a caller's ten. DynamoDB answers within tens of milliseconds.
    maxAttempts: 3,
    requestHandler: {
      connectionTimeout: 1_000,
      requestTimeout: 3_000,
      throwOnRequestTimeout: true,
      // One process may serve hundreds of callers; fewer sockets would queue their requests in memory.
      httpAgent: { maxSockets: 256 },
      httpsAgent: { maxSockets: 256 },
    },
  });
}

export const documentClient = (client: DynamoDBClient): DynamoDBDocumentClient =>
  DynamoDBDocumentClient.from(client, { marshallOptions: { removeUndefinedValues: true } });
