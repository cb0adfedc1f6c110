import { DynamoDBClient, type DynamoDBClientConfig } from '@aws-sdk/client-dynamodb';
import { DynamoDBDocumentClient } from '@aws-sdk/lib-dynamodb';
import { defined } from '../../tools/collections.ts';
import { isThrottling, mayHaveTakenEffect } from './failures.ts';
import { sdkCalls, type TableCalls, wireCalls } from './wire.ts';

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
}) as Parameters<DynamoDBDocumentClient['middlewareStack']['addRelativeTo']>[0];

/** The clients of a table, with the fast calls over the wire. */
export function tableClients(
  address: StoreAddress,
  patience: Patience = cloudPatience,
): { client: DynamoDBClient; documents: DynamoDBDocumentClient; calls: TableCalls } {
  const client = createDynamoDBClient(address, patience);
  const documents = documentClient(client);
  return { client, documents, calls: wireCalls(client, sdkCalls(documents), patience.requestMs) };
}
