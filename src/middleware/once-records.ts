import type { Context, SQSBatchResponse, SQSEvent, SQSRecord } from 'aws-lambda';
import { HoldfastError, LockHeldError, type OnceOptions } from '../client/index.ts';
import { type BatchOptions, SqsBatch } from './batch.ts';
import {
  contextWith,
  hasTimeLeft,
  type InvocationLockOptions,
  type LockedContext,
  withinInvocation,
} from './invocation.ts';
import { keyFrom } from './key.ts';
import { failBatch } from './refusal.ts';

export interface OnceRecordsOptions
  extends Pick<InvocationLockOptions, 'locks' | 'leaseMs' | 'waitMs' | 'owner'>,
    Pick<OnceOptions, 'keepMs' | 'onFailure'>,
    Omit<BatchOptions, 'onFailure'> {
  /** What names a message, if its producer may send it twice. By default its message id, which every delivery repeats. */
  readonly key?: ((record: SQSRecord) => string) | undefined;
  /** Called with the reason if a message failed. SQS delivers the message again. */
  readonly onFailedRecord?: BatchOptions['onFailure'];
}

/** Four days, as long as SQS keeps a message by default: a copy may come as late as that. */
const keepMsDefault = 345_600_000;

/**
 * A handler for SQS that works on each message once, however often it is delivered, and also if two deliveries come at
 * the same time. Each message is kept and reported by itself: if the work fails, only that message comes again. In a FIFO
 * queue no message overtakes a failed one of its group. A message for which no time is left in the invocation comes
 * again. The event source needs `ReportBatchItemFailures`.
 *
 * @example
 * ```ts
 * export const handler = onceRecords(
 *   { locks, key: (record) => `order:${JSON.parse(record.body).orderId}` },
 *   async (record, { lock }) => book(record, lock.fence),
 * );
 * ```
 */
export function onceRecords(
  options: OnceRecordsOptions,
  work: (record: SQSRecord, context: LockedContext) => unknown,
): (event: SQSEvent, context: Context) => Promise<SQSBatchResponse> {
  const { concurrencyMax, onFailedRecord } = options;
  const keyOf = (record: SQSRecord): string => keyFrom((options.key ?? messageIdOf)(record));
  return async (event, context) => {
    const batch = new SqsBatch({ concurrencyMax, onFailure: onFailedRecord });
    const runOne = async (record: SQSRecord) => {
      try {
        await runOnce(options, keyOf(record), context, (held) => work(record, held));
      } catch (error) {
        batch.fail(record, error);
      }
    };
    await batch.run(event.Records, orUndefined(keyOf), async (sequence) => {
      for (const record of sequence) if (!batch.isBlocked(record)) await runOne(record);
    });
    return failBatch(event.Records.filter((record) => batch.hasFailed(record)));
  };
}

const messageIdOf = ({ messageId }: SQSRecord): string => messageId;

/** A message whose key can't be had is not worked on together with others. */
const orUndefined = (keyOf: (record: SQSRecord) => string) => (record: SQSRecord) => {
  try {
    return keyOf(record);
  } catch {
    return undefined;
  }
};

/** Throws if the message is not done: the work failed, another delivery is at work, or no time is left. */
async function runOnce(
  options: OnceRecordsOptions,
  key: string,
  context: Context,
  work: (context: LockedContext) => unknown,
): Promise<void> {
  const { locks, keepMs = keepMsDefault, onFailure, owner } = options;
  if (!hasTimeLeft(context)) throw new HoldfastError('closed', 'No time is left for this message in the invocation.');
  const { waitMs, leaseMs, holdMsMax } = withinInvocation(options, context);
  const job = { keepMs, onFailure, owner, waitMs, leaseMs, holdMsMax };
  // The result of the work is not kept, because nobody asks for it.
  const { done } = await locks.once(key, job, async (lock) => void (await work(contextWith(context, lock))));
  if (!done) throw new LockHeldError('Another delivery of this message is being worked on.');
}
