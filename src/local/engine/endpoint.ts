import { createServer } from 'node:net';
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
  /** Left out, the SDK's default chain finds them. */
  credentials?: Credentials;
}

/** Engines on this machine check nothing, but the SDK signs with something, and DynamoDB Local wants letters and digits. */
export const localCredentials: Credentials = { accessKeyId: 'local', secretAccessKey: 'local' };

/** A port that is free on loopback now. Another process may take it before the engine does, which then ends and says so. */
export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer().once('error', reject);
    probe.listen(0, '127.0.0.1', () => {
      const address = probe.address();
      probe.close(() => resolve(typeof address === 'object' && address ? address.port : 0));
    });
  });
}

/** Asks the endpoint for its tables: the least question that only DynamoDB, or an engine like it, can answer. */
export async function askForTables(at: Endpoint, withinMs: number): Promise<void> {
  const client = new DynamoDBClient({ ...at, maxAttempts: 1 });
  const request = new AbortController();
  // The limit covers the search for credentials too, which asks servers of its own and which a signal does not end.
  try {
    await requireWithin(client.send(new ListTablesCommand({ Limit: 1 }), { abortSignal: request.signal }), withinMs);
  } finally {
    request.abort();
    client.destroy();
  }
}

/** Asks again and again until the endpoint answers, the time is over or `givenUp` says that there is no more hope. */
export async function answersWithin(at: Endpoint, withinMs: number, givenUp: () => boolean): Promise<boolean> {
  const deadline = performance.now() + withinMs;
  while (!givenUp() && performance.now() < deadline) {
    try {
      // The first answer of a JVM on a busy machine may take seconds.
      await askForTables(at, 5_000);
      return true;
    } catch {
      // Small against the start of a JVM, and dynoxide is mostly ready at the second question.
      await pause(20);
    }
  }
  return false;
}
