import middy from '@middy/core';
import { awsPublisherPorts } from '../src/notify/aws/ports.ts';
import { createPublisher } from '../src/notify/publisher.ts';
import { deployedTable, metricNamespaces, requireVariable } from '../src/process/deployed.ts';
import { createLogger } from '../src/process/logger.ts';

const env = process.env;

/** Reads the table's stream: keeps the history, publishes events and shows them to watchers. */
export const handler = middy(
  createPublisher(
    awsPublisherPorts({
      access: deployedTable(env),
      busName: env.HOLDFAST_EVENTS_BUS,
      keepsHistory: env.HOLDFAST_HISTORY !== 'off',
      websocketEndpoint: requireVariable(env, 'HOLDFAST_WEBSOCKET_ENDPOINT'),
      metricNamespaces: metricNamespaces(env),
      log: createLogger('holdfast-publisher'),
    }),
  ),
);
