/** The queue of timers: SQS with delays, read by the reaper, with a dead-letter queue. */
import type { SendMessageCommandInput, SQSClient } from '@aws-sdk/client-sqs';
import type { ScheduledEvent, SQSBatchResponse, SQSEvent } from 'aws-lambda';
import type { VirtualTime } from '../../src/testing/virtual-time.ts';
import type { Bill } from './bill.ts';
import { amountOf } from './facts.ts';
import type { LambdaFunction } from './lambda.ts';
import type { Metrics } from './metrics.ts';

interface Message {
  readonly messageId: string;
  readonly body: string;
  receives: number;
}

export interface TimerQueueParts {
  readonly time: VirtualTime;
  readonly bill: Bill;
  readonly metrics: Metrics;
  readonly reaper: () => LambdaFunction<SQSEvent | ScheduledEvent, SQSBatchResponse>;
}

export class TimerQueue {
  readonly #parts: TimerQueueParts;
  #ready: Message[] = [];
  #sent = 0;
  #delayed = 0;
  #readers = 0;
  givenUp = 0;

  constructor(parts: TimerQueueParts) {
    this.#parts = parts;
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
    this.#sent += 1;
    this.#delayed += 1;
    metrics.add('ApproximateNumberOfMessagesDelayed', 'ExpiryTimers', this.#delayed);
    const message = { messageId: `timer-${this.#sent}`, body, receives: 0 };
    time.after(delaySeconds * 1_000 + amountOf('queueMs'), () => {
      this.#delayed -= 1;
      this.#show(message);
    });
    return new Promise((resolve) => time.after(amountOf('queueMs'), resolve));
  }

  #show(message: Message): void {
    this.#ready.push(message);
    if (this.#readers < amountOf('timerReaders')) void this.#read();
  }

  async #read(): Promise<void> {
    this.#readers += 1;
    while (this.#ready.length > 0) {
      const batch = this.#ready.slice(0, amountOf('timerBatch'));
      this.#ready = this.#ready.slice(batch.length);
      await this.#deliver(batch);
    }
    this.#readers -= 1;
  }

  /** A message that failed is invisible for a while, and then comes again. After some tries it is a dead letter. */
  async #deliver(batch: readonly Message[]): Promise<void> {
    const { time, metrics, reaper } = this.#parts;
    for (const message of batch) message.receives += 1;
    const failed = await reaper()
      .invoke({ Records: batch } as unknown as SQSEvent)
      .then(
        ({ batchItemFailures }) => new Set(batchItemFailures.map(({ itemIdentifier }) => itemIdentifier)),
        () => new Set(batch.map(({ messageId }) => messageId)),
      );
    for (const message of batch.filter(({ messageId }) => failed.has(messageId))) {
      time.after(amountOf('timerHiddenMs'), () => {
        if (message.receives < amountOf('timerReceives')) {
          this.#show(message);
          return;
        }
        this.givenUp += 1;
        metrics.add('ApproximateNumberOfMessagesVisible', 'ExpiryDeadLetters', this.givenUp);
      });
    }
  }
}
