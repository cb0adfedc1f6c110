/** The queue of timers as it is deployed: read by the reaper, with a dead-letter queue. */
import type { SendMessageCommandInput, SQSClient } from '@aws-sdk/client-sqs';
import type { ScheduledEvent, SQSBatchResponse, SQSEvent } from 'aws-lambda';
import type { VirtualTime } from '../../src/testing/virtual-time.ts';
import { DelayedQueue, type Message } from '../world/delayed-queue.ts';
import type { Bill } from './bill.ts';
import { amountOf } from './facts.ts';
import type { LambdaFunction } from './lambda.ts';
import type { Metrics } from './metrics.ts';

export interface TimerQueueParts {
  readonly time: VirtualTime;
  readonly bill: Bill;
  readonly metrics: Metrics;
  readonly reaper: () => LambdaFunction<SQSEvent | ScheduledEvent, SQSBatchResponse>;
}

export class TimerQueue {
  readonly #parts: TimerQueueParts;
  readonly #queue: DelayedQueue;
  givenUp = 0;

  constructor(parts: TimerQueueParts) {
    const { time, metrics } = parts;
    this.#parts = parts;
    this.#queue = new DelayedQueue({
      time,
      batchMax: amountOf('timerBatch'),
      readersMax: amountOf('timerReaders'),
      hiddenMs: amountOf('timerHiddenMs'),
      receivesMax: amountOf('timerReceives'),
      deliver: (batch) => this.#deliver(batch),
      givenUp: () => {
        this.givenUp += 1;
        metrics.add('ApproximateNumberOfMessagesVisible', 'ExpiryDeadLetters', this.givenUp);
      },
    });
  }

  /** Has the interface of the SDK's client, for the code that arms timers. */
  get client(): SQSClient {
    const send = async ({ input }: { input: SendMessageCommandInput }) =>
      this.#send(input.MessageBody ?? '', input.DelaySeconds ?? 0);
    return { send } as unknown as SQSClient;
  }

  #send(body: string, delaySeconds: number): Promise<void> {
    const { time, bill, metrics } = this.#parts;
    // Send, receive and delete.
    bill.queueRequests += 3;
    this.#queue.send(body, delaySeconds * 1_000 + amountOf('queueMs'));
    metrics.add('ApproximateNumberOfMessagesDelayed', 'ExpiryTimers', this.#queue.delayed);
    return new Promise((resolve) => time.after(amountOf('queueMs'), resolve));
  }

  #deliver(batch: readonly Message[]): Promise<ReadonlySet<string>> {
    return this.#parts
      .reaper()
      .invoke({ Records: batch } as unknown as SQSEvent)
      .then(
        ({ batchItemFailures }) => new Set(batchItemFailures.map(({ itemIdentifier }) => itemIdentifier)),
        () => new Set(batch.map(({ messageId }) => messageId)),
      );
  }
}
