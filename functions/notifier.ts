import middy from '@middy/core';
import { deployedService, requireVariable } from '../src/http/deployed.ts';
import { createLogger } from '../src/http/logger.ts';
import { awsNotifierPorts } from '../src/notify/aws/ports.ts';
import { createNotifier } from '../src/notify/notifier.ts';
import { createDynamoDBClient, documentClient } from '../src/store/dynamodb/client.ts';

const env = process.env;

/** The table's stream: tells waiters, arms timers, keeps the history, publishes events and shows them to watchers. */
export const handler = middy(
  createNotifier(
    awsNotifierPorts({
      locks: deployedService(env).locks,
      client: documentClient(createDynamoDBClient({ endpoint: env.HOLDFAST_ENDPOINT || undefined })),
      tableName: requireVariable(env, 'HOLDFAST_TABLE'),
      busName: requireVariable(env, 'HOLDFAST_BUS'),
      timerQueueUrl: requireVariable(env, 'HOLDFAST_TIMER_QUEUE_URL'),
      websocketEndpoint: requireVariable(env, 'HOLDFAST_WEBSOCKET_ENDPOINT'),
      log: createLogger('holdfast-notifier'),
    }),
  ),
);
