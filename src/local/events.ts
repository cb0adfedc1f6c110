import { randomUUID } from 'node:crypto';
import { eventSource } from '../notify/aws/event-bus.ts';
import { grantedToWaiter } from '../notify/parked.ts';
import type { BusEvent, EventBus, NotifyLog, Untaken } from '../notify/ports.ts';
import { toIso } from '../time/clock.ts';
import { pauseFor, systemTimers } from '../time/timers.ts';
import { errorText } from '../tools/error-text.ts';

/** An endpoint of a developer's own answers in milliseconds, or is stopped in a debugger; nobody waits for the latter. */
const postMsMax = 2_000;
/** Enough for an endpoint that restarts when its code is saved. */
const pausesMs = [0, 100, 300];

/**
 * A bus on one machine: each event is posted to an endpoint, in the shape in which EventBridge hands it to a target. Without an
 * endpoint it is a bus without rules: it takes every event, and nobody hears of it.
 */
export class HttpEventBus implements EventBus {
  readonly #url: string | undefined;
  readonly #region: string;
  readonly #log: NotifyLog;

  constructor(options: { url: string | undefined; region: string; log: NotifyLog }) {
    this.#url = options.url;
    this.#region = options.region;
    this.#log = options.log;
  }

  async publish(events: readonly BusEvent[]): Promise<readonly Untaken[]> {
    const url = this.#url;
    if (url === undefined) return [];
    for (const [index, event] of events.entries()) {
      if (await this.#post(url, event)) continue;
      const left = events.slice(index);
      this.#log.warn('HOLDFAST_EVENTS_URL did not take events.', { events: left.length });
      // Only what a waiter depends on is worth holding up the stream for: a listener that was not started must not.
      return left
        .filter(({ detailType }) => detailType === grantedToWaiter)
        .map((event) => ({ event, isFinal: false }));
    }
    return [];
  }

  async #post(url: string, event: BusEvent): Promise<boolean> {
    const body = JSON.stringify(this.#envelope(event));
    for (const pauseMs of pausesMs) {
      if (pauseMs > 0) await pauseFor(systemTimers, pauseMs);
      try {
        const headers = { 'content-type': 'application/json' };
        const signal = AbortSignal.timeout(postMsMax);
        const answer = await fetch(url, { method: 'POST', headers, body, signal });
        await answer.body?.cancel();
        if (answer.ok) return true;
        this.#log.warn('HOLDFAST_EVENTS_URL refused an event.', { status: answer.status });
      } catch (error) {
        this.#log.warn('HOLDFAST_EVENTS_URL could not be reached.', { error: errorText(error) });
      }
    }
    return false;
  }

  #envelope({ detailType, time, detail }: BusEvent): Record<string, unknown> {
    return {
      version: '0',
      id: randomUUID(),
      'detail-type': detailType,
      source: eventSource,
      account: '000000000000',
      time: toIso(time),
      region: this.#region,
      resources: [],
      detail,
    };
  }
}
