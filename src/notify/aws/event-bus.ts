import { type EventBridgeClient, PutEventsCommand, type PutEventsRequestEntry } from '@aws-sdk/client-eventbridge';
import { pauseFor, systemTimers, type Timers } from '../../time/timers.ts';
import { backoffMs } from '../../tools/backoff.ts';
import { errorText } from '../../tools/error-text.ts';
import type { Log } from '../../tools/log.ts';
import { forEachAtMost } from '../../tools/pool.ts';
import type { BusEvent, EventBus, Untaken } from '../ports.ts';
import { isFinalRefusal } from './calls.ts';

/** Rules select the events of this service by this source. */
export const eventSource = 'holdfast';

/** The most entries of one PutEvents request. Our entries have about a kilobyte, far below its 256 KiB. */
const entriesMax = 10;
/** A batch of 100 records has some 200 events: 20 requests in four rounds. */
const requestsAtOnceMax = 5;
/** Throttling ends within a second. Events that are still not taken are tried again with their record. */
const triesMax = 4;
/** The error codes of entries that EventBridge will never take. Its other codes mean "not now". */
const finalCodes = new Set([
  'NotAuthorizedForSourceException',
  'NotAuthorizedForDetailTypeException',
  'InvalidArgument',
  'MalformedDetail',
]);

interface EventBusOptions {
  readonly client: EventBridgeClient;
  readonly busName: string;
  readonly log: Log;
  readonly timers?: Timers;
  readonly random?: () => number;
}

export class EventBridgeBus implements EventBus {
  readonly #options: EventBusOptions;

  constructor(options: EventBusOptions) {
    this.#options = options;
  }

  async publish(events: readonly BusEvent[]): Promise<readonly Untaken[]> {
    const { timers = systemTimers, random = Math.random } = this.#options;
    const refused: Untaken[] = [];
    let left: readonly BusEvent[] = events;
    for (let attempt = 0; attempt < triesMax && left.length > 0; attempt++) {
      if (attempt > 0) await pauseFor(timers, backoffMs(attempt, 50, 500, random));
      const untaken = await this.#putAll(left);
      refused.push(...untaken.filter(({ isFinal }) => isFinal));
      left = untaken.filter(({ isFinal }) => !isFinal).map(({ event }) => event);
    }
    return [...refused, ...left.map((event) => ({ event, isFinal: false }))];
  }

  async #putAll(events: readonly BusEvent[]): Promise<readonly Untaken[]> {
    const starts = Array.from({ length: Math.ceil(events.length / entriesMax) }, (_, index) => index * entriesMax);
    const untaken: Untaken[] = [];
    await forEachAtMost(starts, requestsAtOnceMax, async (start) => {
      untaken.push(...(await this.#put(events.slice(start, start + entriesMax))));
    });
    return untaken;
  }

  /** Returns the events that were refused, because a request may succeed for only some of its entries. */
  async #put(batch: readonly BusEvent[]): Promise<readonly Untaken[]> {
    const { client, busName, log } = this.#options;
    try {
      const request = new PutEventsCommand({ Entries: batch.map((event) => entryOf(event, busName)) });
      const { Entries } = await client.send(request);
      return batch.flatMap((event, index) => {
        const code = Entries?.[index]?.ErrorCode;
        return code === undefined ? [] : [{ event, isFinal: finalCodes.has(code) }];
      });
    } catch (error) {
      log.warn('EventBridge did not take a batch.', { events: batch.length, error: errorText(error) });
      const isFinal = isFinalRefusal(error);
      return batch.map((event) => ({ event, isFinal }));
    }
  }
}

const entryOf = ({ detailType, time, detail }: BusEvent, busName: string): PutEventsRequestEntry => ({
  EventBusName: busName,
  Source: eventSource,
  DetailType: detailType,
  Time: new Date(time),
  Detail: JSON.stringify(detail),
});
