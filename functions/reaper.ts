import middy from '@middy/core';
import { deployedService, requireVariable } from '../src/http/deployed.ts';
import { createLogger } from '../src/http/logger.ts';
import { awsReaperPorts } from '../src/notify/aws/ports.ts';
import { createReaper } from '../src/notify/reaper.ts';
import { createReaperHandler } from '../src/notify/reaper-handler.ts';
import { createDynamoDBClient, documentClient } from '../src/store/dynamodb/client.ts';
import { systemClock } from '../src/time/clock.ts';

const env = process.env;
const log = createLogger('holdfast-reaper');

/** Timers, which come from a queue, and the minute schedule: makes expiry prompt when nobody is polling. */
export const handler = middy(
  createReaperHandler(
    createReaper(
      awsReaperPorts({
        locks: deployedService(env).locks,
        client: documentClient(createDynamoDBClient({ endpoint: env.HOLDFAST_ENDPOINT || undefined })),
        tableName: requireVariable(env, 'HOLDFAST_TABLE'),
        timerQueueUrl: requireVariable(env, 'HOLDFAST_TIMER_QUEUE_URL'),
        log,
      }),
    ),
    { clock: systemClock, log },
  ),
);
