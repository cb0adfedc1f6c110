import { randomUUID } from 'node:crypto';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { DynamoDBDocumentClient } from '@aws-sdk/lib-dynamodb';
import { inject } from 'vitest';
import { localCredentials } from '../../src/local/engine/endpoint.ts';
import { ensureTable } from '../../src/local/table.ts';
import { SdkTable } from '../../src/table/aws/table.ts';
import type { TablePort } from '../../src/table/port.ts';
import { WireTable } from '../../src/table/aws/wire.ts';
import './engine.setup.ts';

export interface FreshTable {
  client: DynamoDBClient;
  /** For what a test writes or reads by itself: the engine, also where the stores meet a harsh table. */
  own: DynamoDBDocumentClient;
  /** What the stores get, as in a running service. */
  access: { table: TablePort; tableName: string };
  tableName: string;
  streamArn: string;
  endpoint: string;
  region: string;
}

/** A client of the shared engine, or of a proxy that a test has put in front of it. */
export function engineClient(endpoint = inject('engine').endpoint): DynamoDBClient {
  const { region } = inject('engine');
  return new DynamoDBClient({ endpoint, region, credentials: localCredentials });
}

/** For what a test reads and writes by itself, in plain values. */
export const documentsOf = (client: DynamoDBClient): DynamoDBDocumentClient =>
  DynamoDBDocumentClient.from(client, { marshallOptions: { removeUndefinedValues: true } });

/** Each suite has its own table, so that suites can run in parallel on one engine. */
export async function freshTable(endpoint = inject('engine').endpoint): Promise<FreshTable> {
  const { region } = inject('engine');
  const client = engineClient(endpoint);
  const tableName = `holdfast-test-${randomUUID()}`;
  const access = { table: new WireTable(client, new SdkTable(client), 5_000), tableName };
  const own = documentsOf(engineClient(inject('engine').behind));
  return { client, own, access, tableName, streamArn: await ensureTable(client, tableName), endpoint, region };
}

/**
 * For tests that count requests, measure time, or check the result of one single call. Behind a harsh table
 * (HOLDFAST_TEST_HARSH) these are skipped: there a request may be sent twice, be late, or end with an unknown result,
 * and all of that is correct. The text says which of these it is.
 */
export const exactOnly = (_why: string) => ({ skip: inject('engine').harsh });

/**
 * How many random cases a property draws: all of them on the built-in engine, which is quick, and every fourth on the
 * others and behind a harsh table. `.ci/run` runs the contract on every engine.
 */
export const drawn = (count: number): number => {
  const { name, harsh } = inject('engine');
  return name === 'memory' && !harsh ? count : Math.ceil(count / 4);
};

/** Behind a harsh table an index lags by up to three seconds. Tests that list what they have just written wait for it. */
export const untilIndexesFollow = async (): Promise<void> => {
  if (inject('engine').harsh) await new Promise((resolve) => setTimeout(resolve, 3_100));
};

/** The same for reads that are not consistent: behind a harsh table they show a state of up to a second ago. */
export const untilReadsFollow = async (): Promise<void> => {
  if (inject('engine').harsh) await new Promise((resolve) => setTimeout(resolve, 1_100));
};
