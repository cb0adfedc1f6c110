/** A watch over connections that the test breaks and sends messages on. */
import { getEventListeners } from 'node:events';
import { describe, expect, it } from 'vitest';
import type { Core } from '../../../src/client/core.ts';
import { HoldfastError, UnavailableError } from '../../../src/client/errors.ts';
import type { Transport } from '../../../src/client/transport.ts';
import { watchEvents } from '../../../src/client/watch.ts';
import { VirtualProcess, VirtualTime } from '../../../src/testing/virtual-time.ts';

type Handlers = Parameters<NonNullable<Transport['watch']>>[1];

function world() {
  const time = new VirtualTime();
  const opened: { readonly atMs: number; readonly target: unknown; readonly handlers: Handlers; isClosed: boolean }[] =
    [];
  const transport = {
    watch: (target: unknown, handlers: Handlers) => {
      const connection = { atMs: time.now(), target, handlers, isClosed: false };
      opened.push(connection);
      return () => {
        connection.isClosed = true;
      };
    },
  };
  // The longest pause each time, so that the pauses can be compared.
  const runtime = Object.assign(new VirtualProcess(time, 'client', 1), { random: () => 0.999 });
  const closing = new AbortController();
  const core = { namespace: 'test', transport, runtime, closing: closing.signal } as unknown as Core;
  const last = () => opened.at(-1) as (typeof opened)[number];
  return { time, opened, last, closing, events: watchEvents(core, { lock: 'a' }) };
}

/** A watch of a service that gives its ticket only when the test says so. */
function ticketWorld() {
  const ticket = Promise.withResolvers<unknown>();
  const opened: { isClosed: boolean }[] = [];
  const transport = {
    socket: () => {
      const connection = { isClosed: false };
      opened.push(connection);
      const close = () => {
        connection.isClosed = true;
      };
      return { close, send: () => {}, keepsAlive: () => true };
    },
  };
  const caller = { call: () => ticket.promise.then(() => ({ body: { ticket: 't', url: 'ws://x' } })) };
  const closing = new AbortController();
  const leaving = new AbortController();
  const runtime = new VirtualProcess(new VirtualTime(), 'client', 1);
  const core = { namespace: 'test', transport, caller, runtime, closing: closing.signal } as unknown as Core;
  return { ticket, opened, closing, leaving, events: watchEvents(core, { lock: 'a', signal: leaving.signal }) };
}

const event = { type: 'released', lock: 'a', fence: 1, at: 0 };

describe('a watch', () => {
  it('asks less and less often while nobody answers, and soon after a connection that worked', async () => {
    const { time, opened, last, closing, events } = world();
    const next = events.next();
    const reopened = async () => {
      const count = opened.length;
      const from = time.now();
      last().handlers.closed(new Error('cut'));
      await time.passUntil(from + 60_000, () => opened.length > count);
      return last().atMs - from;
    };
    await time.settle();
    const first = await reopened();
    const pauses = [];
    for (let turn = 0; turn < 8; turn++) pauses.push(await reopened());
    expect(pauses.at(-1)).toBeGreaterThan(10 * first);
    expect(pauses.at(-1)).toBeLessThanOrEqual(15_000);
    last().handlers.message(event);
    expect((await next).value).toEqual(event);
    const after = events.next();
    expect(await reopened()).toBeLessThanOrEqual(2 * first);
    closing.abort();
    await time.settle();
    expect((await after).done).toBe(true);
  });

  it('begins again if its reader is ten thousand events behind, and keeps no more events', async () => {
    const { time, last, events } = world();
    const next = events.next();
    await time.settle();
    for (let turn = 0; turn < 10_000; turn++) last().handlers.message(event);
    expect(last().isClosed).toBe(false);
    for (let turn = 0; turn < 10_000; turn++) last().handlers.message(event);
    expect(last().isClosed).toBe(true);
    await next;
    for (let turn = 1; turn < 10_000; turn++) await events.next();
    const connected = events.next();
    await time.advance(1_000);
    last().handlers.message({ type: 'connected', connectionId: 'c2' });
    expect((await connected).value).toEqual({ type: 'connected', connectionId: 'c2' });
  });

  it.each([
    ['its reader leaves', 'leaving'],
    ['its client is closed', 'closing'],
  ] as const)('ends if %s while the connection opens', async (_, by) => {
    const world = ticketWorld();
    const next = world.events.next();
    world[by].abort();
    world.ticket.resolve(undefined);
    expect((await next).done).toBe(true);
    expect(world.opened.filter(({ isClosed }) => !isClosed)).toEqual([]);
  });

  it('asks for what it watches, and closes its connection when its reader leaves', async () => {
    const { time, last, closing, events } = world();
    const next = events.next();
    await time.settle();
    expect(last().target).toEqual({ namespace: 'test', lock: 'a' });
    last().handlers.message(event);
    await next;
    expect(getEventListeners(closing.signal, 'abort')).toHaveLength(1);
    await events.return();
    expect(last().isClosed).toBe(true);
    expect(getEventListeners(closing.signal, 'abort')).toEqual([]);
  });

  it('does not close a connection that has ended by itself', async () => {
    const { time, last, closing, events } = world();
    const next = events.next();
    await time.settle();
    last().handlers.closed(new Error('cut'));
    await time.settle();
    expect(last().isClosed).toBe(false);
    closing.abort();
    expect((await next).done).toBe(true);
  });
});

describe('a watch over a WebSocket', () => {
  /** `tickets`: each is the ticket of one connection, or the error instead of it. The last one counts for all that follow. */
  function socketWorld(tickets: readonly unknown[], more: object = {}) {
    const time = new VirtualTime();
    const runtime = new VirtualProcess(time, 'client', 1);
    const opened: { url: string; query: unknown; handlers: Handlers; isClosed: boolean }[] = [];
    const transport = {
      socket: (url: string, query: unknown, handlers: Handlers) => {
        const connection = { url, query, handlers, isClosed: false };
        opened.push(connection);
        const close = () => {
          connection.isClosed = true;
        };
        return { close, send: () => {}, keepsAlive: () => true };
      },
      ...more,
    };
    let asked = 0;
    const call = async () => {
      const ticket = tickets[Math.min(asked++, tickets.length - 1)];
      if (ticket instanceof Error) throw ticket;
      return { body: { ticket, url: 'ws://x' } };
    };
    const closing = new AbortController().signal;
    const core = { namespace: 'test', transport, caller: { call }, runtime, closing } as unknown as Core;
    return { time, opened, events: watchEvents(core, { prefix: 'wallet' }), ticketsAsked: () => asked };
  }
  const refused = (code: 'forbidden' | 'not-found') => new HoldfastError(code, 'Refused.');

  it('connects with a ticket, yields the events, and closes the socket when its reader leaves', async () => {
    const { time, opened, events } = socketWorld(['t1']);
    const next = events.next();
    await time.settle();
    expect(opened).toMatchObject([{ url: 'ws://x', query: { ticket: 't1', prefix: 'wallet' } }]);
    opened[0]?.handlers.message(event);
    expect((await next).value).toEqual(event);
    await events.return();
    expect(opened[0]?.isClosed).toBe(true);
  });

  it('needs a new ticket for each connection', async () => {
    const { time, opened, events } = socketWorld(['t1', 't2']);
    const next = events.next();
    await time.settle();
    opened[0]?.handlers.closed(new Error('cut'));
    await time.advance(1_000);
    expect(opened.map(({ query }) => query)).toMatchObject([{ ticket: 't1' }, { ticket: 't2' }]);
    opened[1]?.handlers.message(event);
    await next;
    await events.return();
  });

  it('asks again for a ticket after a while if the service is unavailable', async () => {
    const { time, opened, events, ticketsAsked } = socketWorld([new UnavailableError('away'), 't2']);
    const next = events.next();
    await time.settle();
    expect([ticketsAsked(), opened.length]).toEqual([1, 0]);
    await time.advance(1_000);
    expect(opened).toMatchObject([{ query: { ticket: 't2' } }]);
    opened[0]?.handlers.message(event);
    expect((await next).value).toEqual(event);
    await events.return();
  });

  it.each([
    ['the caller may not watch', refused('forbidden'), { watch: () => () => {} }],
    ['the service has no tickets', refused('not-found'), {}],
    ['anything else went wrong', new TypeError('a bug'), { watch: () => () => {} }],
  ])('fails if %s', async (_, error, more) => {
    const { events, opened } = socketWorld([error], more);
    await expect(events.next()).rejects.toBe(error);
    expect(opened).toEqual([]);
  });

  it('goes the other way if the service has no tickets and the transport can watch without', async () => {
    const asked: unknown[] = [];
    const watch = (query: unknown, handlers: Handlers) => {
      asked.push(query);
      handlers.message(event);
      return () => {};
    };
    const { events } = socketWorld([refused('not-found')], { watch });
    expect((await events.next()).value).toEqual(event);
    expect(asked).toEqual([{ namespace: 'test', prefix: 'wallet' }]);
    await events.return();
  });

  it('is not supported by a transport that can do neither', async () => {
    const { events } = socketWorld([], { socket: undefined });
    await expect(events.next()).rejects.toMatchObject({ code: 'unsupported' });
  });
});
