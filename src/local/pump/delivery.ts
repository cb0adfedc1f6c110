import type { DynamoDBRecord, DynamoDBStreamEvent } from 'aws-lambda';
import type { DurationMs } from '../../time/clock.ts';
import { errorText } from '../../tools/error-text.ts';
import type { Log } from '../../tools/log.ts';
import { requireWithin } from '../../tools/time-limit.ts';
import { afterAttempt, judge, type Plan, type Verdict, wholeBatch } from './batch.ts';
import { type Backoff, retryInMs } from './pace.ts';
import { pause } from './pause.ts';

/**
 * A deployed stream function, as Lambda calls it. It returns a `DynamoDBBatchResponse` or nothing. `judge` reads that.
 */
export type StreamHandler = (event: DynamoDBStreamEvent) => Promise<unknown>;

export interface Delivery {
  readonly handler: StreamHandler;
  readonly handlerTimeoutMs: DurationMs;
  readonly retriesMax: number;
  readonly backoff: Backoff;
  readonly random: () => number;
  readonly logger: Log;
  /** Aborts when the pump stops or the table has another stream. */
  readonly ending: AbortSignal;
  /** Called as soon as this record and all records before it need not be sent again. */
  readonly onTaken: (sequenceNumber: string, count: number) => void;
  readonly onRetry: () => void;
  readonly onDeadLetter: (records: DynamoDBRecord[], error: unknown) => Promise<void> | void;
  /** False while the engine is down. Every handler fails then, so the failure must not count against the record. */
  readonly isEngineUp: () => Promise<boolean>;
}

/**
 * Sends the records in order until each was taken or given up. Returns early when reading ends. Records that were not
 * reported to `onTaken` come again.
 */
export async function deliver(records: readonly DynamoDBRecord[], delivery: Delivery): Promise<void> {
  let pending = records;
  let plan: Plan = wholeBatch(pending.length);
  while (pending.length > 0 && !delivery.ending.aborted) {
    const { verdict, error } = await attempt(pending.slice(0, plan.size), delivery);
    const step = afterAttempt(pending.length, plan, verdict, delivery.retriesMax);
    report(pending.slice(0, step.taken), delivery);
    pending = pending.slice(step.taken);

    if (step.exhausted && !(await delivery.isEngineUp())) {
      // The record is tried again. It is given up only if it fails while the engine can be reached.
      plan = { ...wholeBatch(pending.length), failures: delivery.retriesMax };
      await pause(retryInMs(delivery.backoff, plan.failures, delivery.random), delivery.ending);
      continue;
    }
    if (step.exhausted) {
      await giveUp(pending.slice(0, 1), error, delivery);
      report(pending.slice(0, 1), delivery);
      pending = pending.slice(1);
    } else if (verdict.kind !== 'taken') {
      delivery.onRetry();
      await pause(retryInMs(delivery.backoff, step.next.failures, delivery.random), delivery.ending);
    }
    plan = step.next;
  }
}

export function sequenceNumberOf(record: DynamoDBRecord): string {
  return record.dynamodb?.SequenceNumber ?? '';
}

function report(taken: readonly DynamoDBRecord[], delivery: Delivery): void {
  const last = taken.at(-1);
  if (last) delivery.onTaken(sequenceNumberOf(last), taken.length);
}

async function attempt(batch: DynamoDBRecord[], delivery: Delivery): Promise<{ verdict: Verdict; error: unknown }> {
  try {
    // Each attempt gets its own copy, as with Lambda. A handler that changes its event must not change the retry.
    const event = { Records: structuredClone(batch) };
    // Lambda ends a function that takes too long. Here we can only stop waiting, so that it does not block the shard.
    const response = await requireWithin(delivery.handler(event), delivery.handlerTimeoutMs);
    const verdict = judge(batch.map(sequenceNumberOf), response);
    return { verdict, error: new Error('The handler reported that it could not take the record.') };
  } catch (error) {
    return { verdict: { kind: 'failed' }, error };
  }
}

async function giveUp(records: DynamoDBRecord[], error: unknown, delivery: Delivery): Promise<void> {
  const sequenceNumbers = records.map(sequenceNumberOf);
  // Images contain lease ids, which are secret. So the log names the record and none of its content.
  delivery.logger.error('stream pump: a record was given up', { sequenceNumbers, error: errorText(error) });
  try {
    await delivery.onDeadLetter(records, error);
  } catch (refusal) {
    // As with Lambda, a dead-letter destination that fails must not block the shard.
    delivery.logger.error('stream pump: a dead letter was not taken', { sequenceNumbers, error: errorText(refusal) });
  }
}
