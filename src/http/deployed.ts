import { systemLockContext } from '../service/system.ts';
import { createDynamoDBClient, documentClient } from '../store/dynamodb/client.ts';
import { DynamoDBLockStore } from '../store/dynamodb/lock-store.ts';
import type { Service } from './service.ts';
import { version } from './version.ts';

/** What a deployed function is told by its environment. */
export interface Environment {
  readonly [name: string]: string | undefined;
}

export const requireVariable = (env: Environment, name: string): string => {
  const value = env[name];
  if (value === undefined || value === '') throw new Error(`${name} is not set; the stack sets it for every function.`);
  return value;
};

const integerVariable = (env: Environment, name: string): number | undefined => {
  const value = env[name];
  if (value === undefined || value === '') return undefined;
  if (!/^\d+$/.test(value)) throw new Error(`${name} must be a whole number, got ${value}.`);
  return Number(value);
};

/** The service as it runs in a Lambda function: many processes, so each waiter looks for itself. */
export function deployedService(env: Environment): Service {
  const tableName = requireVariable(env, 'HOLDFAST_TABLE');
  const client = createDynamoDBClient({ endpoint: env.HOLDFAST_ENDPOINT || undefined });
  const retentionMs = integerVariable(env, 'HOLDFAST_RETENTION_MS');
  const pollMs = integerVariable(env, 'HOLDFAST_POLL_MS');
  const store = new DynamoDBLockStore({
    client: documentClient(client),
    tableName,
    ...(retentionMs === undefined ? {} : { retentionMs }),
  });
  return {
    locks: systemLockContext({ store, alone: false, ...(pollMs === undefined ? {} : { pollMs }) }),
    probe: async () => {
      await store.read({ namespace: 'health', name: 'probe' });
    },
    engine: 'dynamodb',
    version,
  };
}
