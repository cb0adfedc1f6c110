import { randomUUID } from 'node:crypto';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { inject } from 'vitest';
import { localCredentials } from '../../src/local/engine/endpoint.ts';
import { ensureTable } from '../../src/local/table.ts';
import './engine.setup.ts';

export interface FreshTable {
  client: DynamoDBClient;
  tableName: string;
  streamArn: string;
  endpoint: string;
  region: string;
}

/** A client of the engine that the run shares. */
export function engineClient(): DynamoDBClient {
  const { endpoint, region } = inject('engine');
  return new DynamoDBClient({ endpoint, region, credentials: localCredentials });
}

/** A table of its own for each suite, so that suites may run side by side on one engine. */
export async function freshTable(): Promise<FreshTable> {
  const { endpoint, region } = inject('engine');
  const client = engineClient();
  const tableName = `holdfast-test-${randomUUID()}`;
  return { client, tableName, streamArn: await ensureTable(client, tableName), endpoint, region };
}
