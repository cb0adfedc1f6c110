import { type EventBridgeClient, PutEventsCommand, type PutEventsRequestEntry } from '@aws-sdk/client-eventbridge';
import { pauseFor, systemTimers, type Timers } from '../../time/timers.ts';
import { backoffMs } from '../../tools/backoff.ts';
import { errorText } from '../../tools/error-text.ts';
import type { BusEvent, EventBus, NotifyLog } from '../ports.ts';

/** Rules select the events of this service by this source. */
export const eventSource = 'holdfast';

/** What PutEvents takes at once. Our entries have about a kilobyte, far below its 256 KiB. */
const entriesMax = 10;
/** Throttling passes within a second. What is still not taken is tried again with its record. */
const triesMax = 4;

export class EventBridgeBus implements EventBus {
  readonly #client: EventBridgeClient;
  readonly #busName: string;
  readonly #log: NotifyLog;
  readonly #timers: Timers;
  readonly #random: () => number;

  constructor(options: {
    client: EventBridgeClient;
    busName: string;
    log: NotifyLog;
    timers?: Timers;
    random?: () => number;
  }) {
    this.#client = options.client;
    this.#busName = options.busName;
    this.#log = options.log;
    this.#timers = options.timers ?? systemTimers;
    this.#random = options.random ?? Math.random;
  }

  async publish(events: readonly BusEvent[]): Promise<readonly BusEvent[]> {
    let left: readonly BusEvent[] = events;
    for (let attempt = 0; attempt < triesMax && left.length > 0; attempt++) {
      if (attempt > 0) await pauseFor(this.#timers, backoffMs(attempt, 50, 500, this.#random));
      const untaken: BusEvent[] = [];
      for (let start = 0; start < left.length; start += entriesMax) {
        untaken.push(...(await this.#put(left.slice(start, start + entriesMax))));
      }
      left = untaken;
    }
    return left;
  }

  /** Returns the events that were refused: a request may succeed for some of its entries only. */
  async #put(batch: readonly BusEvent[]): Promise<readonly BusEvent[]> {
    try {
      const { Entries } = await this.#client.send(
        new PutEventsCommand({ Entries: batch.map((event) => this.#entryOf(event)) }),
      );
      return batch.filter((_, index) => Entries?.[index]?.ErrorCode !== undefined);
    } catch (error) {
      this.#log.warn('EventBridge did not take a batch.', { events: batch.length, error: errorText(error) });
      return batch;
    }
  }

  #entryOf({ detailType, time, detail }: BusEvent): PutEventsRequestEntry {
    return {
      EventBusName: this.#busName,
      Source: eventSource,
      DetailType: detailType,
      Time: new Date(time),
      Detail: JSON.stringify(detail),
    };
  }
}
