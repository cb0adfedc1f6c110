/** The client's one socket, with a transport whose connections the test opens, breaks and sends messages on. */
import { describe, expect, it } from 'vitest';
import { Breaker } from '../../../src/client/breaker.ts';
import { Caller } from '../../../src/client/caller.ts';
import { pause } from '../../../src/client/runtime.ts';
import type { ParkingSocket } from '../../../src/client/sockets.ts';
import { Sockets } from '../../../src/client/sockets.ts';
import type { SocketHandlers, Transport } from '../../../src/client/transport.ts';
import { VirtualProcess, VirtualTime } from '../../../src/testing/virtual-time.ts';

interface Fake {
  readonly handlers: SocketHandlers;
  readonly said: string[];
  isClosed: boolean;
}

type Opens = 'always' | 'never' | 'once' | 'not yet';

function world({ ticketStatus = 201, canRest = true, opens = 'always' as Opens, ticketMs = 0 } = {}) {
  const time = new VirtualTime();
  const runtime = new VirtualProcess(time, 'client', 1);
  const fakes: Fake[] = [];
  let tickets = 0;
  const transport: Transport = {
    request: async () => {
      tickets += 1;
      if (ticketMs > 0) await pause(runtime, ticketMs);
      return { status: ticketStatus, headers: {}, body: { ticket: `t${tickets}`, url: 'ws://x', expiresInMs: 60_000 } };
    },
    socket: (_url, _query, handlers) => {
      const fake: Fake = { handlers, said: [], isClosed: false };
      fakes.push(fake);
      queueMicrotask(() => {
        if (opens === 'not yet') return;
        if (opens === 'always' || (opens === 'once' && fakes.length === 1)) handlers.open();
        else handlers.closed(new Error('refused'));
      });
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
  const open = async () => (await sockets.open(2_000)) as ParkingSocket;
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
      const { open, sockets, fakes, time } = world({ canRest });
      const leave = sockets.join();
      await open();
      leave();
      expect(fakes[0]?.isClosed).toBe(!canRest);
      await time.advance(11_000);
      expect(fakes[0]?.isClosed).toBe(true);
    }
  });

  it('stays open as long as anybody waits, even if nobody is parked on it', async () => {
    const { open, sockets, fakes, time } = world();
    const leaves = [sockets.join(), sockets.join()];
    (await open()).expect('a').forget();
    leaves[0]?.();
    await time.advance(60_000);
    expect(fakes[0]?.isClosed).toBe(false);
    leaves[1]?.();
    await time.advance(9_000);
    // One more wait begins, just before the end.
    const leave = sockets.join();
    await time.advance(9_000);
    leave();
    await time.advance(9_000);
    expect([fakes[0]?.isClosed, (await open()).connectionId]).toEqual([false, 'c1']);
  });

  it('goes on opening if a ticket takes up to ten seconds, and the caller asks again', async () => {
    const { sockets, time, ticketsAsked } = world({ ticketMs: 9_900 });
    sockets.join();
    const first = sockets.open(2_000);
    await time.advance(2_000);
    expect(await first).toBeUndefined();
    await time.advance(8_000);
    expect([(await sockets.open(0))?.connectionId, ticketsAsked()]).toEqual(['c1', 1]);
  });

  it.each(['the client is closed', 'nobody waits any more'])('is not left open if %s while it opens', async (why) => {
    for (const [ticketMs, socketsOpened] of [
      [5_000, 0],
      [0, 1],
    ] as const) {
      const { sockets, time, fakes } = world({ ticketMs, opens: 'not yet' });
      const leave = sockets.join();
      const opening = sockets.open(2_000);
      await time.advance(1_000);
      if (why === 'nobody waits any more') leave();
      else sockets.close();
      await time.advance(1);
      expect(await opening).toBeUndefined();
      await time.advance(10_000);
      expect(fakes.map(({ isClosed }) => isClosed)).toEqual(Array.from({ length: socketsOpened }, () => true));
      // It was not blocked, so a later wait may try again.
      expect(sockets.isPossible).toBe(why === 'nobody waits any more');
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
    expect([await none.sockets.open(2_000), none.sockets.isPossible, none.ticketsAsked()]).toEqual([
      undefined,
      false,
      1,
    ]);
    expect([await none.sockets.open(2_000), none.ticketsAsked()]).toEqual([undefined, 1]);
    const broken = world({ opens: 'never' });
    for (let tries = 1; tries <= 3; tries++) {
      expect(broken.sockets.isPossible).toBe(true);
      await broken.sockets.open(2_000);
    }
    expect(broken.sockets.isPossible).toBe(false);
    // If a socket has worked before, nothing blocks WebSockets for good.
    const away = world({ opens: 'once' });
    await away.open();
    away.sockets.served();
    away.fakes[0]?.handlers.closed(new Error('cut'));
    for (let tries = 1; tries <= 5; tries++) expect(await away.sockets.open(2_000)).toBeUndefined();
    expect(away.sockets.isPossible).toBe(true);
  });

  it('is tried again however often a busy service gives no ticket: that says nothing about WebSockets', async () => {
    const busy = world({ ticketStatus: 503 });
    for (let tries = 1; tries <= 5; tries++) expect(await busy.sockets.open(2_000)).toBeUndefined();
    expect([busy.sockets.isPossible, busy.fakes.length]).toEqual([true, 0]);
  });
});
