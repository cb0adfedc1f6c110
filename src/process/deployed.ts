import type { Service } from '../http/service.ts';
import { awsTable } from '../table/aws/table.ts';
import type { TableAccess } from '../table/item-table.ts';
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

/** A function's table. All code in the function shares its one client. */
export function deployedTable(env: Environment): TableAccess {
  const { table } = awsTable({ endpoint: env.HOLDFAST_ENDPOINT || undefined });
  return { table, tableName: requireVariable(env, 'HOLDFAST_TABLE') };
}

/** The service in a Lambda function. There are many such processes, so each waiter polls for itself. */
export function deployedService(env: Environment, access = deployedTable(env)): Service {
  return serviceOn({
    access,
    alone: false,
    engine: 'dynamodb',
    socketUrl: env.HOLDFAST_WEBSOCKET_URL ? () => requireVariable(env, 'HOLDFAST_WEBSOCKET_URL') : undefined,
    pollMs: integerVariable(env, 'HOLDFAST_POLL_MS'),
    retentionMs: integerVariable(env, 'HOLDFAST_RETENTION_MS'),
    leaseMsMax: integerVariable(env, 'HOLDFAST_LEASE_MS_MAX'),
    waitMsMax: integerVariable(env, 'HOLDFAST_WAIT_MS_MAX'),
  });
}
