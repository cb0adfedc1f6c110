import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { httpEventBus } from '../../../src/local/events.ts';
import { grantedToWaiter } from '../../../src/notify/parked.ts';
import type { BusEvent } from '../../../src/notify/ports.ts';
import { epochMs } from '../../../src/time/clock.ts';

const event = (detailType: string, number: number): BusEvent =>
  ({ detailType, time: epochMs(0), detail: { number } }) as unknown as BusEvent;

/** An endpoint that answers with these statuses, one after the other, and then with the last one. */
function world(...statuses: number[]) {
  const posted: { number: number; type: string }[] = [];
  let unread = 0;
  vi.stubGlobal('fetch', async (_url: string, { body }: { body: string }) => {
    const { detail, 'detail-type': type } = JSON.parse(body);
    posted.push({ number: detail.number, type });
    unread += 1;
    const status = statuses.length > 1 ? statuses.shift() : statuses[0];
    if (status === 0) throw new Error('refused');
    const cancel = async () => {
      unread -= 1;
    };
    return { ok: status === 200, status, body: { cancel } };
  });
  const log = { info: () => {}, warn: vi.fn(), error: () => {} };
  const bus = httpEventBus({ url: 'http://here', region: 'us-east-1', log });
  const publish = async (...events: BusEvent[]) => {
    const publishing = bus.publish(events);
    await vi.runAllTimersAsync();
    return (await publishing).map(({ event, isFinal }) => ({
      number: (event.detail as never as { number: number }).number,
      isFinal,
    }));
  };
  return { posted, log, publish, unread: () => unread };
}

beforeEach(() => void vi.useFakeTimers());
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

describe('the event bus of one machine', () => {
  it('posts each event once, in order, and leaves no answer unread', async () => {
    const { posted, publish, unread } = world(200);
    expect(await publish(event('Lock Released', 1), event(grantedToWaiter, 2))).toEqual([]);
    expect([posted.map(({ number }) => number), unread()]).toEqual([[1, 2], 0]);
  });

  it('posts an event as EventBridge gives it to a target', async () => {
    const requests: [string, RequestInit][] = [];
    vi.stubGlobal('fetch', async (...request: [string, RequestInit]) => {
      requests.push(request);
      return { ok: true, status: 200, body: null };
    });
    const log = { info: () => {}, warn: vi.fn(), error: () => {} };
    const bus = httpEventBus({ url: 'http://here', region: 'eu-west-1', log });
    expect(await bus.publish([event('Lock Released', 7)])).toEqual([]);
    const [[url, { method, headers, body }]] = requests as [[string, RequestInit]];
    expect({ url, method, headers }).toEqual({
      ...{ url: 'http://here', method: 'POST', headers: { 'content-type': 'application/json' } },
    });
    expect(JSON.parse(body as string)).toEqual({
      ...{ version: '0', id: expect.stringMatching(/^[0-9a-f-]{36}$/), 'detail-type': 'Lock Released' },
      ...{ source: 'holdfast', account: '000000000000', time: '1970-01-01T00:00:00.000Z', region: 'eu-west-1' },
      ...{ resources: [], detail: { number: 7 } },
    });
    expect(log.warn).not.toHaveBeenCalled();
  });

  it('takes every event and posts none without an endpoint', async () => {
    const fetched = vi.fn();
    vi.stubGlobal('fetch', fetched);
    const log = { info: () => {}, warn: () => {}, error: () => {} };
    const bus = httpEventBus({ url: undefined, region: 'eu-west-1', log });
    expect(await bus.publish([event(grantedToWaiter, 1)])).toEqual([]);
    expect(fetched).not.toHaveBeenCalled();
  });

  it('tries again at once the first time, then after longer pauses, and logs each failure', async () => {
    const { publish, log } = world(500, 0, 500);
    const from = Date.now();
    await publish(event(grantedToWaiter, 1));
    expect(Date.now() - from).toBe(400);
    expect(log.warn.mock.calls).toEqual([
      ['HOLDFAST_EVENTS_URL refused an event.', { status: 500 }],
      ['HOLDFAST_EVENTS_URL could not be reached.', { error: 'Error: refused' }],
      ['HOLDFAST_EVENTS_URL refused an event.', { status: 500 }],
      ['HOLDFAST_EVENTS_URL did not accept events.', { events: 1 }],
    ]);
  });

  it.each([500, 0])('posts an event again that was not taken: %i', async (status) => {
    const { posted, publish } = world(status, status, 200);
    expect(await publish(event(grantedToWaiter, 1))).toEqual([]);
    expect(posted).toHaveLength(3);
  });

  it('gives back the grants from the first event on that was not taken, and drops all other events', async () => {
    const { posted, publish, log } = world(200, 500);
    const grants = [1, 2, 4].map((number) => event(grantedToWaiter, number));
    const [first, second, third] = grants as [BusEvent, BusEvent, BusEvent];
    expect(await publish(first, second, event('Lock Released', 3), third)).toEqual([
      { number: 2, isFinal: false },
      { number: 4, isFinal: false },
    ]);
    expect(posted.map(({ number }) => number)).toEqual([1, 2, 2, 2]);
    expect(log.warn).toHaveBeenLastCalledWith('HOLDFAST_EVENTS_URL did not accept events.', { events: 3 });
  });

  it('does not delay the stream for events that no waiter depends on', async () => {
    const { publish } = world(0);
    expect(await publish(event('Lock Released', 1), event('Lock Granted', 2))).toEqual([]);
  });
});
