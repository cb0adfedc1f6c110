import middy from '@middy/core';
import { awsHandOffs, awsReaperPorts } from '../src/notify/aws/ports.ts';
import { createReaperHandler } from '../src/notify/aws/reaper-handler.ts';
import { createReaper } from '../src/notify/reaper.ts';
import { deployedService, deployedTable, requireVariable } from '../src/process/deployed.ts';
import { createLogger } from '../src/process/logger.ts';
import { systemClock } from '../src/time/clock.ts';

const env = process.env;
const table = deployedTable(env);
const log = createLogger('holdfast-reaper');
const { locks } = deployedService(env, table);
const timerQueueUrl = requireVariable(env, 'HOLDFAST_TIMER_QUEUE_URL');
const websocketEndpoint = requireVariable(env, 'HOLDFAST_WEBSOCKET_ENDPOINT');
const handOffs = awsHandOffs({ ...table, locks, websocketEndpoint, log });

/**
 * Handles timers, which come from a queue, and the schedule of each minute. With them, leases end promptly even if
 * nobody polls.
 */
export const handler = middy(
  createReaperHandler(createReaper(awsReaperPorts({ ...table, locks, timerQueueUrl, log })), {
    clock: systemClock,
    log,
  }),
).after(() => handOffs.settle());
