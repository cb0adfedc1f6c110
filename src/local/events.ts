import { randomUUID } from 'node:crypto';
import { eventSource } from '../notify/aws/event-bus.ts';
import { grantedToWaiter } from '../notify/parked.ts';
import type { BusEvent, EventBus } from '../notify/ports.ts';
import { toIso } from '../time/clock.ts';
import { pauseFor, systemTimers } from '../time/timers.ts';
import { errorText } from '../tools/error-text.ts';
import type { Log } from '../tools/log.ts';

/**
 * A developer's own endpoint answers in milliseconds, unless it is stopped in a debugger. Then there is no use in
 * waiting.
 */
const postMsMax = 2_000;
/** Enough for an endpoint that restarts after its code was saved. */
const pausesMs = [0, 100, 300];

interface Setting {
  readonly url: string | undefined;
  readonly region: string;
  readonly log: Log;
}

/**
 * An event bus on one machine. It posts each event to an endpoint, in the form that EventBridge gives to a target.
 * Without an endpoint it accepts every event and delivers none, like a bus without rules.
 */
export const httpEventBus = ({ url, region, log }: Setting): EventBus => ({
  async publish(events) {
    if (url === undefined) return [];
    for (const [index, event] of events.entries()) {
      if (await post(url, envelopeOf(event, region), log)) continue;
      const left = events.slice(index);
      log.warn('HOLDFAST_EVENTS_URL did not accept events.', { events: left.length });
      // Only a grant that a waiter depends on may delay the stream. A listener that nobody started must not.
      return left
        .filter(({ detailType }) => detailType === grantedToWaiter)
        .map((event) => ({ event, isFinal: false }));
    }
    return [];
  },
});

async function post(url: string, envelope: object, log: Log): Promise<boolean> {
  const body = JSON.stringify(envelope);
  for (const pauseMs of pausesMs) {
    if (pauseMs > 0) await pauseFor(systemTimers, pauseMs);
    try {
      const headers = { 'content-type': 'application/json' };
      const signal = AbortSignal.timeout(postMsMax);
      const answer = await fetch(url, { method: 'POST', headers, body, signal });
      await answer.body?.cancel();
      if (answer.ok) return true;
      log.warn('HOLDFAST_EVENTS_URL refused an event.', { status: answer.status });
    } catch (error) {
      log.warn('HOLDFAST_EVENTS_URL could not be reached.', { error: errorText(error) });
    }
  }
  return false;
}

const envelopeOf = ({ detailType, time, detail }: BusEvent, region: string) => ({
  version: '0',
  id: randomUUID(),
  'detail-type': detailType,
  source: eventSource,
  account: '000000000000',
  time: toIso(time),
  region,
  resources: [],
  detail,
});
