import { randomUUID } from 'node:crypto';
import {
  CreateTableCommand,
  DescribeTableCommand,
  DescribeTimeToLiveCommand,
  DynamoDBClient,
} from '@aws-sdk/client-dynamodb';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { findJava } from '../../src/local/engine/dynamodb-local.ts';
import { findDynoxide } from '../../src/local/engine/dynoxide.ts';
import { localCredentials } from '../../src/local/engine/endpoint.ts';
import { type Engine, startEngine } from '../../src/local/engine.ts';
import { StartError } from '../../src/local/start-error.ts';
import { ensureTable } from '../../src/local/table.ts';
import { tableShape } from '../../src/table/shape.ts';
import { wide } from '../support/wide.ts';

const region = 'us-east-1';
const engines = [
  ...((await findJava()) ? (['dynamodb-local'] as const) : []),
  ...(findDynoxide() ? (['dynoxide'] as const) : []),
  // The fastest is the last.
].slice(wide ? 0 : -1);

describe.each(engines)('ensureTable on %s', (choice) => {
  let engine: Engine;
  let client: DynamoDBClient;

  beforeAll(async () => {
    engine = await startEngine({ engine: choice, memory: true, region });
    client = new DynamoDBClient({ endpoint: engine.endpoint, region, credentials: localCredentials });
  });

  afterAll(async () => {
    client.destroy();
    await engine.stop();
  });

  it('creates the table in the shape that the store relies on', async () => {
    const TableName = `table-${randomUUID()}`;
    const streamArn = await ensureTable(client, TableName);
    const { Table } = await client.send(new DescribeTableCommand({ TableName }));
    const keys = (partitionKey: string, sortKey: string) => [
      { AttributeName: partitionKey, KeyType: 'HASH' },
      { AttributeName: sortKey, KeyType: 'RANGE' },
    ];
    expect(Table).toMatchObject({
      TableStatus: 'ACTIVE',
      LatestStreamArn: streamArn,
      KeySchema: keys(tableShape.partitionKey, tableShape.sortKey),
      StreamSpecification: { StreamEnabled: true, StreamViewType: 'NEW_AND_OLD_IMAGES' },
    });
    expect(Table?.GlobalSecondaryIndexes).toHaveLength(Object.keys(tableShape.indexes).length);
    for (const index of Object.values(tableShape.indexes)) {
      expect(Table?.GlobalSecondaryIndexes?.find(({ IndexName }) => IndexName === index.name)).toMatchObject({
        KeySchema: keys(index.partitionKey, index.sortKey),
        Projection: { ProjectionType: 'KEYS_ONLY' },
      });
      const type = Table?.AttributeDefinitions?.find(({ AttributeName }) => AttributeName === index.sortKey);
      expect(type?.AttributeType).toBe(index.sortKeyType);
    }
    const { TimeToLiveDescription } = await client.send(new DescribeTimeToLiveCommand({ TableName }));
    expect(TimeToLiveDescription).toMatchObject({ TimeToLiveStatus: 'ENABLED', AttributeName: 'ttl' });
  });

  it('finds the same table when several ask at once, and later again', async () => {
    const name = `table-${randomUUID()}`;
    const arns = await Promise.all(Array.from({ length: 5 }, () => ensureTable(client, name)));
    expect(new Set([...arns, await ensureTable(client, name)]).size).toBe(1);
  });

  it('refuses a table with other keys, and one without the indexes', async () => {
    const foreign = async (partitionKey: string, sortKey: string) => {
      const TableName = `table-${randomUUID()}`;
      await client.send(
        new CreateTableCommand({
          TableName,
          BillingMode: 'PAY_PER_REQUEST',
          AttributeDefinitions: [partitionKey, sortKey].map((AttributeName) => ({ AttributeName, AttributeType: 'S' })),
          KeySchema: [
            { AttributeName: partitionKey, KeyType: 'HASH' },
            { AttributeName: sortKey, KeyType: 'RANGE' },
          ],
        }),
      );
      return ensureTable(client, TableName).catch((error: unknown) => error);
    };
    const otherKeys = await foreign('id', 'version');
    expect(otherKeys).toBeInstanceOf(StartError);
    expect((otherKeys as StartError).message).toContain(
      'expected the keys pk HASH, sk RANGE, but it has id HASH, version RANGE; name another with --table',
    );
    expect(await foreign('pk', 'sk')).toMatchObject({ message: expect.stringContaining('expected the index listing') });
  });
});
