import middy from '@middy/core';
import { awsHandOffs, awsReaperPorts } from '../src/notify/aws/ports.ts';
import { createReaperHandler } from '../src/notify/aws/reaper-handler.ts';
import { createReaper } from '../src/notify/reaper.ts';
import { deployedService, deployedTable, requireVariable } from '../src/process/deployed.ts';
import { createLogger } from '../src/process/logger.ts';
import { systemClock } from '../src/time/clock.ts';

const env = process.env;
const access = deployedTable(env);
const log = createLogger('holdfast-reaper');
const { locks } = deployedService(env, access);
const timerQueueUrl = requireVariable(env, 'HOLDFAST_TIMER_QUEUE_URL');
const websocketEndpoint = requireVariable(env, 'HOLDFAST_WEBSOCKET_ENDPOINT');
const handOffs = awsHandOffs({ access, locks, websocketEndpoint, log });

/**
 * Handles timers, which come from a queue, and the schedule of each minute. With them, leases end promptly even if
 * nobody polls.
 */
export const handler = middy(
  createReaperHandler(createReaper(awsReaperPorts({ access, locks, timerQueueUrl, log })), {
    clock: systemClock,
    log,
  }),
).after(() => handOffs.settle());
