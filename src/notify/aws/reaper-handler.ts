import type { Context, ScheduledEvent, SQSBatchResponse, SQSEvent } from 'aws-lambda';
import { after, type Clock } from '../../time/clock.ts';
import { errorText } from '../../tools/error-text.ts';
import type { Log } from '../../tools/log.ts';
import { forEachAtMost } from '../../tools/pool.ts';
import type { Reaper } from '../reaper.ts';
import { readTimer } from './timers.ts';

/** A sweep stops this long before the timeout: enough for the current looks and for the answer. */
const endMarginMs = 5_000;
/** An SQS batch has ten messages by default. */
const timersAtOnceMax = 10;

export type ReaperEvent = SQSEvent | ScheduledEvent;

/** The reaper as a Lambda function: timers come as SQS messages, the minute schedule as an event. */
export function createReaperHandler(reaper: Reaper, { clock, log }: { clock: Clock; log: Log }) {
  return async (event: ReaperEvent, context: Context): Promise<SQSBatchResponse> => {
    if (!('Records' in event)) {
      const until = after(clock.now(), context.getRemainingTimeInMillis() - endMarginMs);
      const swept = await reaper.sweepAwaited(until);
      log.info('Awaited locks were swept.', { ...swept });
      return { batchItemFailures: [] };
    }
    const batchItemFailures: SQSBatchResponse['batchItemFailures'] = [];
    await forEachAtMost(event.Records, timersAtOnceMax, async ({ messageId, body }) => {
      try {
        const { key, firesAt } = readTimer(body);
        await reaper.look(key, firesAt);
      } catch (error) {
        log.warn('A timer failed. SQS delivers it again.', { messageId, error: errorText(error) });
        batchItemFailures.push({ itemIdentifier: messageId });
      }
    });
    return { batchItemFailures };
  };
}
