import { DynamoDBClient, type DynamoDBClientConfig } from '@aws-sdk/client-dynamodb';
import { DynamoDBDocumentClient } from '@aws-sdk/lib-dynamodb';
import { isThrottling, mayHaveTakenEffect } from './failures.ts';
import { sdkCalls, type TableCalls, wireCalls } from './wire.ts';

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

export function documentClient(client: DynamoDBClient): DynamoDBDocumentClient {
  const documents = DynamoDBDocumentClient.from(client, { marshallOptions: { removeUndefinedValues: true } });
  documents.middlewareStack.addRelativeTo(markUncertain, {
    relation: 'after',
    toMiddleware: 'retryMiddleware',
    name: 'holdfastUncertainTries',
    override: true,
  });
  return documents;
}

const uncertain = new WeakSet<object>();

/** Sees each try of a request. If one had no answer, a later refusal for traffic does not mean that nothing was written. */
const markUncertain = ((next: (args: object) => Promise<object>, context: object) => async (args: object) => {
  try {
    return await next(args);
  } catch (error) {
    const { name = '', $fault } = error as { name?: string; $fault?: string };
    if ($fault !== 'client' && !isThrottling(name)) uncertain.add(context);
    if (uncertain.has(context)) Object.assign(error as object, { [mayHaveTakenEffect]: true });
    throw error;
  }
}) as Parameters<DynamoDBDocumentClient['middlewareStack']['addRelativeTo']>[0];

/** A table's documents over a client of our own, with the short way to them. */
export function tableClients(
  address: Omit<StoreAddress, 'tableName'>,
  patience: Patience = cloudPatience,
): { client: DynamoDBClient; documents: DynamoDBDocumentClient; calls: TableCalls } {
  const client = createDynamoDBClient(address, patience);
  const documents = documentClient(client);
  return { client, documents, calls: wireCalls(client, sdkCalls(documents), patience.requestMs) };
}
