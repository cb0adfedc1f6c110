import middy from '@middy/core';
import { awsNotifierPorts } from '../src/notify/aws/ports.ts';
import { createNotifier } from '../src/notify/notifier.ts';
import { deployedService, deployedTable, requireVariable } from '../src/process/deployed.ts';
import { createLogger } from '../src/process/logger.ts';

const env = process.env;
const access = deployedTable(env);

/** Reads the table's stream: notifies parked waiters and arms timers. */
export const handler = middy(
  createNotifier(
    awsNotifierPorts({
      access,
      locks: deployedService(env, access).locks,
      busName: requireVariable(env, 'HOLDFAST_BUS'),
      timerQueueUrl: requireVariable(env, 'HOLDFAST_TIMER_QUEUE_URL'),
      websocketEndpoint: requireVariable(env, 'HOLDFAST_WEBSOCKET_ENDPOINT'),
      log: createLogger('holdfast-notifier'),
    }),
  ),
);
