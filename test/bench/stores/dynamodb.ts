import { CreateTableCommand, type DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { DynamoDBDocumentClient, UpdateCommand } from '@aws-sdk/lib-dynamodb';
import { type Engine, startEngine } from '../../../src/local/engine.ts';
import type { EngineChoice } from '../../../src/local/options.ts';
import { ensureTable } from '../../../src/local/table.ts';
import { createDynamoDBClient } from '../../../src/table/aws/table.ts';
import type { Store } from '../contestant.ts';

/** The address of a contestant's table: the engine itself for timing, or a proxy for counting. */
export interface DynamoDBAddress {
  readonly endpoint: string;
  readonly region: string;
  readonly credentials: { readonly accessKeyId: string; readonly secretAccessKey: string };
}

export interface DynamoDBStore extends Store {
  /** A single write to one of our tables, which has as many writes as the measured one. */
  writeTo(table: string, key: string): Promise<unknown>;
  /** A single write to a table without a stream, like those of the peers. */
  plainWrite(key: string): Promise<unknown>;
  readonly address: DynamoDBAddress;
  readonly engine: Engine;
}

/**
 * Each of our contestants has its own table. A service reads its table's stream and writes history, and must not do so for the writes of
 * another. Single writes go to the same table as the measured ones, because DynamoDB Local gets slower with the records in a table's stream.
 */
export const ownTables = {
  http: 'bench-http',
  direct: 'bench-direct',
  countedHttp: 'bench-counted-http',
  countedDirect: 'bench-counted-direct',
  raw: 'bench-raw',
} as const;
/** The peers' tables have no stream, which makes a write cheaper. So they are compared with a write to a table without a stream. */
const plainTable = 'bench-plain';
/** The two peers' tables are made as their own documentation says. */
export const lockClientTable = { name: 'lock-client', partitionKey: 'id' } as const;
export const deliveryheroTable = { name: 'deliveryhero', partitionKey: 'lockId', sortKey: 'lockGroup' } as const;

const region = 'us-east-1';

async function createTable(client: DynamoDBClient, name: string, keys: readonly string[]): Promise<void> {
  await client.send(
    new CreateTableCommand({
      TableName: name,
      BillingMode: 'PAY_PER_REQUEST',
      AttributeDefinitions: keys.map((key) => ({ AttributeName: key, AttributeType: 'S' })),
      KeySchema: keys.map((key, index) => ({ AttributeName: key, KeyType: index === 0 ? 'HASH' : 'RANGE' })),
    }),
  );
}

/** A raw write: it raises a counter under a condition and returns the new item, like our own writes. */
const raise = (client: DynamoDBDocumentClient, table: string, key: string) =>
  client.send(
    new UpdateCommand({
      TableName: table,
      Key: { pk: `raw/${key}`, sk: 'raw' },
      UpdateExpression: 'SET #n = if_not_exists(#n, :zero) + :one',
      ConditionExpression: 'attribute_not_exists(#n) OR #n >= :zero',
      ExpressionAttributeNames: { '#n': 'n' },
      ExpressionAttributeValues: { ':zero': 0, ':one': 1 },
      ReturnValues: 'ALL_NEW',
    }),
  );

/** One engine for all contestants on DynamoDB. */
export async function startDynamoDB(choice: EngineChoice): Promise<DynamoDBStore> {
  const engine = await startEngine({ engine: choice, memory: true, region });
  const credentials = engine.credentials ?? { accessKeyId: 'local', secretAccessKey: 'local' };
  const address = { endpoint: engine.endpoint, region, credentials };
  const raw = createDynamoDBClient(address);
  const client = DynamoDBDocumentClient.from(raw);
  for (const table of Object.values(ownTables)) await ensureTable(raw, table);
  await createTable(raw, plainTable, ['pk', 'sk']);
  await createTable(raw, lockClientTable.name, [lockClientTable.partitionKey]);
  await createTable(raw, deliveryheroTable.name, [deliveryheroTable.partitionKey, deliveryheroTable.sortKey]);
  return {
    id: 'dynamodb',
    name: engine.description.replace(/,.*/, ''),
    durability: 'An emulator that keeps everything in memory: nothing is synced, nothing replicated.',
    address,
    engine,
    singleWrite: (key) => raise(client, ownTables.raw, key),
    writeTo: (table, key) => raise(client, table, key),
    plainWrite: (key) => raise(client, plainTable, key),
    stop: async () => {
      raw.destroy();
      await engine.stop();
    },
  };
}
