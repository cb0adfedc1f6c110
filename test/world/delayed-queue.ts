/**
 * A queue like SQS: each message is shown after its delay, in batches, to some readers at a time. A message that failed is hidden for a
 * while and comes again. After some tries it is given up.
 */
import type { VirtualTime } from '../../src/testing/virtual-time.ts';

export interface Message {
  readonly messageId: string;
  readonly body: string;
  receives: number;
}

export interface DelayedQueueParts {
  readonly time: VirtualTime;
  readonly batchMax: number;
  readonly readersMax: number;
  readonly hiddenMs: number;
  readonly receivesMax: number;
  /** Returns the ids of the messages that failed. */
  readonly deliver: (batch: readonly Message[]) => Promise<ReadonlySet<string>>;
  readonly failed?: (message: Message) => void;
  readonly givenUp?: (message: Message) => void;
}

export class DelayedQueue {
  readonly #parts: DelayedQueueParts;
  #ready: Message[] = [];
  #sent = 0;
  #readers = 0;
  /** How many messages are not shown yet. */
  delayed = 0;

  constructor(parts: DelayedQueueParts) {
    this.#parts = parts;
  }

  send(body: string, delayMs: number): void {
    this.#sent += 1;
    this.delayed += 1;
    const message = { messageId: `message-${this.#sent}`, body, receives: 0 };
    this.#parts.time.after(delayMs, () => {
      this.delayed -= 1;
      this.#show(message);
    });
  }

  #show(message: Message): void {
    this.#ready.push(message);
    if (this.#readers < this.#parts.readersMax) void this.#read();
  }

  async #read(): Promise<void> {
    this.#readers += 1;
    while (this.#ready.length > 0) await this.#deliver(this.#ready.splice(0, this.#parts.batchMax));
    this.#readers -= 1;
  }

  async #deliver(batch: readonly Message[]): Promise<void> {
    const { time, hiddenMs, receivesMax, deliver, failed = () => {}, givenUp = () => {} } = this.#parts;
    for (const message of batch) message.receives += 1;
    const ids = await deliver(batch);
    for (const message of batch.filter(({ messageId }) => ids.has(messageId))) {
      failed(message);
      time.after(hiddenMs, () => (message.receives < receivesMax ? this.#show(message) : givenUp(message)));
    }
  }
}
