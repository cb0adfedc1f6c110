import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Holdfast, Transport } from '../../../src/client/index.ts';
import { EventRelay, type Message } from '../../../src/console/server/relay.ts';

/** A relay whose watch the test speaks for. */
function world() {
  const watches: { say: (event: object) => void; signal: AbortSignal }[] = [];
  const client = {
    watch({ signal }: { signal: AbortSignal }) {
      const waiting: ((event: object) => void)[] = [];
      const heard: object[] = [];
      watches.push({ signal, say: (event) => (waiting.shift() ?? ((one) => heard.push(one)))(event) });
      return (async function* () {
        for (;;) yield heard.shift() ?? (await new Promise<object>((resolve) => waiting.push(resolve)));
      })();
    },
  } as unknown as Holdfast;
  const relay = new EventRelay({} as Transport, () => client, 'r');
  const page = (after: string | null = null) => {
    const messages: Message[] = [];
    const leave = relay.subscribe((message) => messages.push(message), after);
    const fences = () =>
      messages.flatMap((message) => (message.kind === 'events' ? message.body.map(({ fence }) => fence) : []));
    const links = () => messages.flatMap((message) => (message.kind === 'link' ? [message.body] : []));
    return { leave, fences, links };
  };
  const say = async (...events: object[]) => {
    for (const event of events) watches.at(-1)?.say(event);
    await vi.advanceTimersByTimeAsync(50);
  };
  return { relay, watches, page, say };
}

const connected = { type: 'connected', connectionId: 'c' };
const event = (fence: number) => ({ type: 'granted', lock: 'a', owner: 'o', at: '2030-01-01T00:00:00Z', fence });

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

describe('a page that comes back', () => {
  it.each([
    ['the last event', 'r.2', [], false],
    ['the first event', 'r.1', [2], false],
    ['no event yet', 'r.0', [1, 2], false],
    ['an event that did not happen yet', 'r.3', [], true],
    ['an event of an earlier relay', 'q.1', [], true],
  ])('gets what it has missed after it saw %s', async (_, after, fences, missed) => {
    const { page, say } = world();
    page();
    await say(connected, event(1), event(2));
    const back = page(after);
    expect([back.fences(), back.links()]).toEqual([fences, [{ state: 'live', missed }]]);
  });

  it('is told that it has missed events if they are no longer kept', async () => {
    const { page, say } = world();
    page();
    await say(connected, ...Array.from({ length: 2_001 }, (_, index) => event(index + 1)));
    expect(page('r.0').links()).toEqual([{ state: 'live', missed: true }]);
    expect(page('r.1').fences()).toHaveLength(2_000);
  });

  it('does not take the events after a pause of the relay for those that it missed', async () => {
    const { relay, page, say } = world();
    page();
    await say(connected, event(1), event(2));
    relay.close();
    page();
    await say(connected, event(7));
    expect(page('r.2').links()).toEqual([{ state: 'live', missed: true }]);
  });
});

describe('the watch of a relay', () => {
  it('ends half a minute after the last page left, and not if one came back', async () => {
    const { watches, page } = world();
    page().leave();
    await vi.advanceTimersByTimeAsync(20_000);
    const back = page();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(watches.map(({ signal }) => signal.aborted)).toEqual([false]);
    back.leave();
    await vi.advanceTimersByTimeAsync(30_000);
    expect(watches.map(({ signal }) => signal.aborted)).toEqual([true]);
  });

  it('tells its pages after a new connection that events are missing, but not after the first one', async () => {
    const { page, say } = world();
    const { links } = page();
    await say(connected);
    await say(connected);
    expect(links().map(({ missed }) => missed)).toEqual([false, false, true]);
  });
});
