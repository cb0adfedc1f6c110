import middy from '@middy/core';
import { awsReaperPorts } from '../src/notify/aws/ports.ts';
import { createReaperHandler } from '../src/notify/aws/reaper-handler.ts';
import { createReaper } from '../src/notify/reaper.ts';
import { deployedService, deployedTable, requireVariable } from '../src/process/deployed.ts';
import { createLogger } from '../src/process/logger.ts';
import { systemClock } from '../src/time/clock.ts';

const env = process.env;
const table = deployedTable(env);
const log = createLogger('holdfast-reaper');

/** Handles timers, which come from a queue, and the minute schedule. They make expiry prompt when nobody polls. */
export const handler = middy(
  createReaperHandler(
    createReaper(
      awsReaperPorts({
        ...table,
        locks: deployedService(env, table).locks,
        timerQueueUrl: requireVariable(env, 'HOLDFAST_TIMER_QUEUE_URL'),
        log,
      }),
    ),
    { clock: systemClock, log },
  ),
);
