import type { DynamoDBClient, DynamoDBClientConfig } from '@aws-sdk/client-dynamodb';
import { type ClientOptions, Holdfast } from '../client/holdfast.ts';
import { processName } from '../client/process-name.ts';
import { serviceOn } from '../process/wiring.ts';
import { awsTable, SdkTable } from '../table/aws/table.ts';
import { DirectTransport } from './direct-transport.ts';

export interface DirectOptions extends ClientOptions {
  /** The service's table. */
  readonly tableName: string;
  readonly region?: string | undefined;
  /** If missing, DynamoDB itself. */
  readonly endpoint?: string | undefined;
  /** What the AWS SDK takes: keys, or a provider such as `fromIni()`. If missing, the AWS SDK's usual places. */
  readonly credentials?: DynamoDBClientConfig['credentials'] | undefined;
  /** Your own client, with your own settings. You close it. Give it short timeouts: a lease does not wait. */
  readonly client?: DynamoDBClient | undefined;
  /** How long an ended lock's item is kept. It must be the same as the service's. */
  readonly retentionMs?: number | undefined;
}

/**
 * Direct mode: the same client straight on the table, for processes that may read and write it. This saves a network
 * hop and the price of the API. But every process needs permission for the table, and only the leading keys in that
 * permission limit it to a namespace.
 *
 * Watching, and deliveries to parked waiters, need the deployed service, which reads the table's stream.
 *
 * @example
 * ```ts
 * const locks = createDirect({ tableName: 'holdfast', region: 'eu-west-1', namespace: 'payments' });
 * await locks.withLock('wallet:42', async ({ fence }) => debit('42', 5, fence));
 * ```
 */
export function createDirect(options: DirectOptions): Holdfast {
  const { tableName, region, endpoint, credentials, client, retentionMs, ...rest } = options;
  const { table, close } = tableBy(client, { region, endpoint, credentials });
  const service = serviceOn({
    access: { table, tableName },
    // Other processes work on the same table, so each waiter polls for itself.
    alone: false,
    engine: 'dynamodb',
    retentionMs,
  });
  const owner = rest.owner ?? processName();
  return new Holdfast({
    ...rest,
    owner,
    transport: new DirectTransport(service, { close, target: `table ${tableName}` }),
  });
}

/** If the caller gives a client, it is used as it is, and the caller closes it. */
function tableBy(theirs: DynamoDBClient | undefined, address: Parameters<typeof awsTable>[0]) {
  if (theirs !== undefined) return { table: new SdkTable(theirs), close: () => {} };
  const { client, table } = awsTable(address);
  return { table, close: () => client.destroy() };
}
