import middy from '@middy/core';
import { deployedService, deployedTable, requireVariable } from '../src/http/deployed.ts';
import { createLogger } from '../src/http/logger.ts';
import { awsNotifierPorts } from '../src/notify/aws/ports.ts';
import { createNotifier } from '../src/notify/notifier.ts';

const env = process.env;
const table = deployedTable(env);

/** Reads the table's stream: notifies parked waiters and arms timers. */
export const handler = middy(
  createNotifier(
    awsNotifierPorts({
      ...table,
      locks: deployedService(env, table).locks,
      busName: requireVariable(env, 'HOLDFAST_BUS'),
      timerQueueUrl: requireVariable(env, 'HOLDFAST_TIMER_QUEUE_URL'),
      websocketEndpoint: requireVariable(env, 'HOLDFAST_WEBSOCKET_ENDPOINT'),
      log: createLogger('holdfast-notifier'),
    }),
  ),
);
