/** The client's one socket, with a transport whose connections the test opens, breaks and sends messages on. */
import { describe, expect, it } from 'vitest';
import { Breaker } from '../../../src/client/breaker.ts';
import { Caller } from '../../../src/client/caller.ts';
import type { ParkingSocket } from '../../../src/client/sockets.ts';
import { Sockets } from '../../../src/client/sockets.ts';
import type { SocketHandlers, Transport } from '../../../src/client/transport.ts';
import { VirtualProcess, VirtualTime } from '../../../src/testing/virtual-time.ts';

interface Fake {
  readonly handlers: SocketHandlers;
  readonly said: string[];
  isClosed: boolean;
}

function world({ ticketStatus = 201, canRest = true, opens = true, opensOnce = false } = {}) {
  const time = new VirtualTime();
  const runtime = new VirtualProcess(time, 'client', 1);
  const fakes: Fake[] = [];
  let tickets = 0;
  const transport: Transport = {
    request: async () => {
      tickets += 1;
      return { status: ticketStatus, headers: {}, body: { ticket: `t${tickets}`, url: 'ws://x', expiresInMs: 60_000 } };
    },
    socket: (_url, _query, handlers) => {
      const fake: Fake = { handlers, said: [], isClosed: false };
      fakes.push(fake);
      queueMicrotask(() =>
        (opensOnce ? fakes.length === 1 : opens) ? handlers.open() : handlers.closed(new Error('refused')),
      );
      return {
        send: (text) => {
          fake.said.push(text);
          if (text === 'hello') handlers.message({ type: 'connected', connectionId: `c${fakes.length}` });
        },
        close: () => {
          fake.isClosed = true;
        },
        keepsAlive: () => canRest,
      };
    },
  };
  const observe = () => {};
  const breaker = new Breaker(runtime, undefined, observe);
  const closed = new AbortController().signal;
  const caller = new Caller({ transport, runtime, breaker, observe, closed });
  const sockets = new Sockets({ namespace: 'test', transport, caller, runtime });
  const open = async () => (await sockets.open()) as ParkingSocket;
  return { time, fakes, sockets, open, ticketsAsked: () => tickets };
}

describe('the client’s socket', () => {
  it('serves ten thousand waits, and each gets the message about its own lease once', async () => {
    const { open, fakes } = world();
    const [socket] = await Promise.all([open(), open(), open()]);
    expect(fakes).toHaveLength(1);
    const leases = Array.from({ length: 10_000 }, (_, index) => `lease-${index}`);
    const heard = leases.map((leaseId) => (socket as ParkingSocket).expect(leaseId).message);
    for (const leaseId of leases.toReversed()) {
      // Twice, because a delivery may be repeated.
      fakes[0]?.handlers.message({ type: 'granted', leaseId });
      fakes[0]?.handlers.message({ type: 'granted', leaseId });
    }
    expect(new Set(await Promise.all(heard))).toEqual(new Set(['granted']));
  });

  it('ignores a message about a lease that nobody waits for here', async () => {
    const { open, fakes } = world();
    const { message } = (await open()).expect('mine');
    fakes[0]?.handlers.message({ type: 'granted', leaseId: 'another' });
    fakes[0]?.handlers.message({ type: 'wait-ended', leaseId: 'mine', reason: 'wait-timeout' });
    expect(await message).toBe('ended');
  });

  it('reports to every wait that the connection broke, and opens another one on request', async () => {
    const { open, fakes } = world();
    const first = await open();
    const waits = ['a', 'b'].map((leaseId) => first.expect(leaseId).message);
    fakes[0]?.handlers.closed(new Error('cut'));
    expect(await Promise.all(waits)).toEqual(['closed', 'closed']);
    expect(await first.expect('late').message).toBe('closed');
    expect((await open()).connectionId).toBe('c2');
  });

  it('closes without waits: at once if it would keep the process alive, else after a while', async () => {
    for (const canRest of [false, true]) {
      const { open, fakes, time } = world({ canRest });
      (await open()).expect('a').forget();
      expect(fakes[0]?.isClosed).toBe(!canRest);
      await time.advance(11_000);
      expect(fakes[0]?.isClosed).toBe(true);
    }
  });

  it('sends at least two messages in the ten minutes after which API Gateway closes an idle connection', async () => {
    const { open, fakes, time } = world();
    (await open()).expect('a');
    await time.advance(600_000);
    expect(fakes[0]?.said.filter((text) => text === 'ping').length).toBeGreaterThanOrEqual(2);
  });

  it('is replaced if the service does not know it, and given up if that happens every time', async () => {
    const { open, fakes, sockets } = world();
    for (let tries = 1; tries <= 3; tries++) {
      const socket = await open();
      const { message } = socket.expect('a');
      sockets.discard(socket);
      expect([await message, fakes.length, fakes[tries - 1]?.isClosed]).toEqual(['closed', tries, true]);
    }
    expect(sockets.isPossible).toBe(false);
  });

  it('is not tried again if the service has none, or after three tries that never opened', async () => {
    const none = world({ ticketStatus: 404 });
    expect([await none.sockets.open(), none.sockets.isPossible, none.ticketsAsked()]).toEqual([undefined, false, 1]);
    expect([await none.sockets.open(), none.ticketsAsked()]).toEqual([undefined, 1]);
    const broken = world({ opens: false });
    for (let tries = 1; tries <= 3; tries++) {
      expect(broken.sockets.isPossible).toBe(true);
      await broken.sockets.open();
    }
    expect(broken.sockets.isPossible).toBe(false);
    // If a socket has worked before, nothing blocks WebSockets for good.
    const away = world({ opensOnce: true });
    await away.open();
    away.sockets.served();
    away.fakes[0]?.handlers.closed(new Error('cut'));
    for (let tries = 1; tries <= 5; tries++) expect(await away.sockets.open()).toBeUndefined();
    expect(away.sockets.isPossible).toBe(true);
  });

  it('is tried again however often a busy service gives no ticket: that says nothing about WebSockets', async () => {
    const busy = world({ ticketStatus: 503 });
    for (let tries = 1; tries <= 5; tries++) expect(await busy.sockets.open()).toBeUndefined();
    expect([busy.sockets.isPossible, busy.fakes.length]).toEqual([true, 0]);
  });
});
