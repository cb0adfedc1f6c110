import {
  CreateTableCommand,
  DescribeTableCommand,
  DescribeTimeToLiveCommand,
  type DynamoDBClient,
  type KeySchemaElement,
  ResourceInUseException,
  ResourceNotFoundException,
  type TableDescription,
  UpdateTimeToLiveCommand,
  waitUntilTableExists,
} from '@aws-sdk/client-dynamodb';
import { type TableDefinition, tableDefinition, tableShape } from '../table/shape.ts';
import { StartError } from './start-error.ts';

/** A local engine needs milliseconds. DynamoDB takes about ten seconds for a table with three indexes. */
const activeWithinSeconds = 60;

async function describe(client: DynamoDBClient, tableName: string): Promise<TableDescription | undefined> {
  try {
    return (await client.send(new DescribeTableCommand({ TableName: tableName }))).Table;
  } catch (error) {
    if (error instanceof ResourceNotFoundException) return undefined;
    throw error;
  }
}

const spell = (keys: readonly KeySchemaElement[] | undefined): string =>
  (keys ?? []).map(({ AttributeName, KeyType }) => `${AttributeName} ${KeyType}`).join(', ') || 'none';

/** Says how an existing table differs from the expected shape. Undefined if it fits. Additional indexes do no harm. */
function difference(table: TableDescription, wanted: TableDefinition): string | undefined {
  if (spell(table.KeySchema) !== spell(wanted.KeySchema)) {
    return `expected the keys ${spell(wanted.KeySchema)}, but it has ${spell(table.KeySchema)}`;
  }
  for (const index of wanted.GlobalSecondaryIndexes ?? []) {
    const found = table.GlobalSecondaryIndexes?.find(({ IndexName }) => IndexName === index.IndexName);
    if (spell(found?.KeySchema) !== spell(index.KeySchema)) {
      return `expected the index ${index.IndexName} on ${spell(index.KeySchema)}, but found ${spell(found?.KeySchema)}`;
    }
  }
  const view = table.StreamSpecification?.StreamViewType;
  if (!table.LatestStreamArn || view !== tableShape.streamView) {
    return `expected a stream of ${tableShape.streamView}, but found ${view ?? 'none'}`;
  }
  return undefined;
}

async function enableTtl(client: DynamoDBClient, tableName: string): Promise<void> {
  const { TimeToLiveDescription: now } = await client.send(new DescribeTimeToLiveCommand({ TableName: tableName }));
  if (now?.TimeToLiveStatus === 'ENABLED' || now?.TimeToLiveStatus === 'ENABLING') return;
  try {
    await client.send(
      new UpdateTimeToLiveCommand({
        TableName: tableName,
        TimeToLiveSpecification: { AttributeName: tableShape.ttlAttribute, Enabled: true },
      }),
    );
  } catch (error) {
    // Another process was first. The engines use different words, but all refuse to enable a TTL that is on.
    if (!(error instanceof Error && /already enabled|in progress/i.test(error.message))) throw error;
  }
}

/**
 * Makes sure that the table exists in the shape that the store needs, and returns the ARN of its stream. Any number of
 * processes may call this at once: one creates the table and the others find it.
 */
export async function ensureTable(client: DynamoDBClient, tableName: string): Promise<string> {
  const wanted = tableDefinition(tableName);
  if ((await describe(client, tableName)) === undefined) {
    try {
      await client.send(new CreateTableCommand(wanted));
    } catch (error) {
      if (!(error instanceof ResourceInUseException)) throw error;
    }
  }
  await waitUntilTableExists(
    { client, maxWaitTime: activeWithinSeconds, minDelay: 1, maxDelay: 2 },
    { TableName: tableName },
  );
  const table = await describe(client, tableName);
  const wrong = table ? difference(table, wanted) : 'it was deleted just after it became active';
  if (wrong !== undefined || !table?.LatestStreamArn) {
    throw new StartError(`Table ${tableName} can't be used: ${wrong}; name another with --table.`);
  }
  await enableTtl(client, tableName);
  return table.LatestStreamArn;
}
