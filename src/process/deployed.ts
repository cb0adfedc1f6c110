import type { Service } from '../http/service.ts';
import { tableClients } from '../store/dynamodb/client.ts';
import { serviceOn } from './wiring.ts';

/** The environment variables of a deployed function. */
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
  if (!/^\d+$/.test(value)) throw new Error(`${name} must be a whole number, but is ${value}.`);
  return Number(value);
};

/** Lock namespaces that have their own metrics. */
export const metricNamespaces = (env: Environment): readonly string[] =>
  env.HOLDFAST_METRIC_NAMESPACES?.split(',') ?? [];

/** A function's table and its one client, which all code in the function shares. */
export function deployedTable(env: Environment) {
  const { documents, calls } = tableClients({ endpoint: env.HOLDFAST_ENDPOINT || undefined });
  return { client: documents, calls, tableName: requireVariable(env, 'HOLDFAST_TABLE') };
}

/** The service in a Lambda function. There are many such processes, so each waiter polls for itself. */
export function deployedService(env: Environment, table = deployedTable(env)): Service {
  return serviceOn({
    ...table,
    alone: false,
    engine: 'dynamodb',
    socketUrl: env.HOLDFAST_WEBSOCKET_URL ? () => requireVariable(env, 'HOLDFAST_WEBSOCKET_URL') : undefined,
    pollMs: integerVariable(env, 'HOLDFAST_POLL_MS'),
    retentionMs: integerVariable(env, 'HOLDFAST_RETENTION_MS'),
    leaseMsMax: integerVariable(env, 'HOLDFAST_LEASE_MS_MAX'),
    waitMsMax: integerVariable(env, 'HOLDFAST_WAIT_MS_MAX'),
  });
}
