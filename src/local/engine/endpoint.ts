import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { DynamoDBClient, ListTablesCommand } from '@aws-sdk/client-dynamodb';
import { requireWithin } from '../../tools/time-limit.ts';

export interface Credentials {
  accessKeyId: string;
  secretAccessKey: string;
}

export interface Endpoint {
  endpoint: string;
  region: string;
  /** If missing, the SDK's default chain finds them. */
  credentials?: Credentials;
}

/** Local engines check no credentials, but the SDK must sign with some, and DynamoDB Local wants letters and digits. */
export const localCredentials: Credentials = { accessKeyId: 'local', secretAccessKey: 'local' };

/** A port that is free on loopback now. If another process takes it first, the engine ends with an error. */
export async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address() as AddressInfo;
  await once(probe.close(), 'close');
  return port;
}

/** Lists the tables: the simplest request that only DynamoDB, or an engine like it, can answer. */
export async function askForTables(at: Endpoint, withinMs: number): Promise<void> {
  const client = new DynamoDBClient({ ...at, maxAttempts: 1 });
  const request = new AbortController();
  // The limit also covers the search for credentials, which calls other servers and ignores an abort signal.
  try {
    await requireWithin(client.send(new ListTablesCommand({ Limit: 1 }), { abortSignal: request.signal }), withinMs);
  } finally {
    request.abort();
    client.destroy();
  }
}

/** Asks until the endpoint answers, the time is over, or `givenUp` returns true. */
export async function answersWithin(at: Endpoint, withinMs: number, givenUp: () => boolean): Promise<boolean> {
  const deadline = performance.now() + withinMs;
  while (!givenUp() && performance.now() < deadline) {
    try {
      // On a busy machine the first answer of a JVM may take seconds.
      await askForTables(at, 5_000);
      return true;
    } catch {
      // Short compared with the start of a JVM. dynoxide usually answers the second request.
      await pause(20);
    }
  }
  return false;
}
