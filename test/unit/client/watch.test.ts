/** A watch over connections that the test breaks and sends messages on. */
import { describe, expect, it } from 'vitest';
import type { Core } from '../../../src/client/core.ts';
import type { Transport } from '../../../src/client/transport.ts';
import { watchEvents } from '../../../src/client/watch.ts';
import { VirtualProcess, VirtualTime } from '../../../src/testing/virtual-time.ts';

type Handlers = Parameters<NonNullable<Transport['watch']>>[1];

function world() {
  const time = new VirtualTime();
  const opened: { readonly atMs: number; readonly handlers: Handlers; isClosed: boolean }[] = [];
  const transport = {
    watch: (_target: unknown, handlers: Handlers) => {
      const connection = { atMs: time.now(), handlers, isClosed: false };
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
});
