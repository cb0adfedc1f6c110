/** The client's one socket, with a transport whose connections the test opens, breaks and sends messages on. */
import { describe, expect, it } from 'vitest';
import { Breaker } from '../../../src/client/breaker.ts';
import { Caller } from '../../../src/client/caller.ts';
import { HoldfastError } from '../../../src/client/errors.ts';
import { pause, type Runtime } from '../../../src/client/runtime.ts';
import { ParkingSocket, Sockets } from '../../../src/client/sockets.ts';
import type { Call, SocketHandlers, Transport } from '../../../src/client/transport.ts';
import { VirtualProcess, VirtualTime } from '../../../src/testing/virtual-time.ts';

interface Fake {
  readonly handlers: SocketHandlers;
  readonly url: string;
  readonly query: Readonly<Record<string, string>>;
  readonly said: string[];
  isClosed: boolean;
  keepsAlive: boolean;
}

type Opens = 'always' | 'never' | 'once' | 'not yet';

function world({ ticketStatus = 201, canRest = true, opens = 'always' as Opens, ticketMs = 0 } = {}) {
  const time = new VirtualTime();
  const runtime = new VirtualProcess(time, 'client', 1);
  const fakes: Fake[] = [];
  const asked: Call[] = [];
  let tickets = 0;
  const transport: Transport = {
    request: async (call) => {
      asked.push(call);
      tickets += 1;
      if (ticketMs > 0) await pause(runtime, ticketMs);
      return { status: ticketStatus, headers: {}, body: { ticket: `t${tickets}`, url: 'ws://x', expiresInMs: 60_000 } };
    },
    socket: (url, query, handlers) => {
      const fake: Fake = { handlers, url, query, said: [], isClosed: false, keepsAlive: true };
      const connectionId = `c${fakes.push(fake)}`;
      queueMicrotask(() => {
        if (opens === 'not yet') return;
        if (opens === 'always' || (opens === 'once' && fakes.length === 1)) handlers.open();
        else handlers.closed(new Error('refused'));
      });
      return {
        send: (text) => {
          fake.said.push(text);
          if (text === 'hello') handlers.message({ type: 'connected', connectionId });
        },
        close: () => {
          fake.isClosed = true;
        },
        keepsAlive: (wanted) => {
          fake.keepsAlive = wanted;
          return canRest;
        },
      };
    },
  };
  const observe = () => {};
  const breaker = new Breaker(runtime, undefined, observe);
  const closed = new AbortController().signal;
  const caller = new Caller({ transport, runtime, breaker, observe, closed });
  const sockets = new Sockets({ namespace: 'test', transport, caller, runtime });
  const open = async () => (await sockets.open(2_000)) as ParkingSocket;
  return { time, runtime, fakes, asked, sockets, open, transport, ticketsAsked: () => tickets };
}

const isPending = async (promise: Promise<unknown>): Promise<boolean> =>
  (await Promise.race([promise, Promise.resolve('pending')])) === 'pending';

describe('a socket that waits are parked on', () => {
  it('gives no other message than a grant and the end of a wait', async () => {
    const socket = new ParkingSocket('c1');
    const { message } = socket.expect('mine');
    for (const body of [undefined, 'text', {}, { type: 'granted' }, { type: 'renewed', leaseId: 'mine' }])
      socket.receive(body);
    socket.receive({ type: 'wait-ended', leaseId: 'another' });
    expect(await isPending(message)).toBe(true);
    socket.receive({ type: 'granted', leaseId: 'mine' });
    expect(await message).toBe('granted');
  });

  it('does not tell a wait that has left, and still tells one that began later under the same lease', async () => {
    const socket = new ParkingSocket('c1');
    const [first, second] = [socket.expect('mine'), socket.expect('mine')];
    first.forget();
    socket.receive({ type: 'granted', leaseId: 'mine' });
    expect([await isPending(first.message), await second.message]).toEqual([true, 'granted']);
    const third = socket.expect('mine');
    third.forget();
    socket.receive({ type: 'granted', leaseId: 'mine' });
    expect(await isPending(third.message)).toBe(true);
  });

  it('says whether it is open', () => {
    const socket = new ParkingSocket('c1');
    expect(socket.isOpen).toBe(true);
    socket.closed();
    expect(socket.isOpen).toBe(false);
  });
});

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

  it('is opened with a ticket of the namespace', async () => {
    const { open, asked, fakes } = world();
    await open();
    expect(asked).toMatchObject([
      { operation: 'createTicket', method: 'POST', route: '/v1/{ns}/tickets', parameters: { ns: 'test' }, body: {} },
    ]);
    expect(fakes).toMatchObject([{ url: 'ws://x', query: { ticket: 't1' } }]);
  });

  it('keeps the process alive only while somebody waits', async () => {
    const { open, sockets, fakes } = world();
    const leave = sockets.join();
    await open();
    leave();
    expect(fakes[0]?.keepsAlive).toBe(false);
    sockets.join();
    expect(fakes[0]?.keepsAlive).toBe(true);
  });

  it('has only timers that do not keep the process alive, and none after its end', async () => {
    const { open, sockets, runtime, time } = world();
    const after = runtime.after.bind(runtime);
    const leave = sockets.join();
    await open();
    const timers: (boolean | undefined)[] = [];
    (runtime as Runtime).after = (ms, run, background) => {
      timers.push(background);
      return after(ms, run);
    };
    await time.advance(240_000);
    leave();
    // One for the next ping, and one for the end of the idle socket.
    expect(timers).toEqual([true, true]);
    sockets.close();
    expect(time.nextAt).toBeUndefined();
  });

  it('leaves no timer behind if it could not be opened', async () => {
    const { sockets, time } = world({ opens: 'never' });
    expect(await sockets.open(2_000)).toBeUndefined();
    expect(time.nextAt).toBeUndefined();
  });

  it('is open only after the service has told its connection id', async () => {
    const { sockets, fakes, time } = world({ opens: 'not yet' });
    const opening = sockets.open(9_000);
    await time.settle();
    for (const body of [undefined, { type: 'connected' }, { type: 'granted', connectionId: 'c0' }])
      fakes[0]?.handlers.message(body);
    await time.settle();
    expect(await isPending(opening)).toBe(true);
    fakes[0]?.handlers.message({ type: 'connected', connectionId: 'c1' });
    expect((await opening)?.connectionId).toBe('c1');
  });

  it('is given up if it does not open within ten seconds, even if it opens later', async () => {
    const { sockets, fakes, time } = world({ opens: 'not yet' });
    const opening = sockets.open(60_000);
    await time.advance(9_999);
    expect(fakes[0]?.isClosed).toBe(false);
    await time.advance(1);
    expect([await opening, fakes[0]?.isClosed]).toEqual([undefined, true]);
    fakes[0]?.handlers.message({ type: 'connected', connectionId: 'c1' });
    const again = sockets.open(60_000);
    await time.settle();
    fakes[1]?.handlers.message({ type: 'connected', connectionId: 'c2' });
    expect((await again)?.connectionId).toBe('c2');
  });

  it('is not blocked for good if its opening was ended on purpose, however often', async () => {
    const { sockets, time } = world({ opens: 'not yet' });
    for (let tries = 1; tries <= 4; tries++) {
      const leave = sockets.join();
      void sockets.open(2_000);
      await time.settle();
      leave();
      await time.settle();
    }
    expect(sockets.isPossible).toBe(true);
  });

  it('is opened once if a wait begins at the moment at which the last one has left', async () => {
    const { sockets, time, ticketsAsked } = world({ ticketMs: 1_000 });
    const leave = sockets.join();
    void sockets.open(2_000);
    await time.settle();
    leave();
    sockets.join();
    void sockets.open(2_000);
    await time.settle();
    const opening = sockets.open(2_000);
    await time.advance(1_000);
    expect([(await opening)?.connectionId, ticketsAsked()]).toEqual(['c1', 2]);
  });

  it('stays if an earlier connection is discarded, or breaks late', async () => {
    const { open, sockets, fakes } = world();
    const first = await open();
    sockets.discard(first);
    const second = await open();
    sockets.discard(first);
    fakes[0]?.handlers.closed(new Error('late'));
    expect([await open(), second.isOpen, fakes[1]?.isClosed]).toEqual([second, true, false]);
    fakes[1]?.handlers.closed(new Error('cut'));
    expect(() => sockets.discard(second)).not.toThrow();
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

  it.each([401, 403, 405])('is not tried again if the ticket is refused with %i', async (ticketStatus) => {
    const { sockets, ticketsAsked } = world({ ticketStatus });
    for (let tries = 1; tries <= 2; tries++) expect(await sockets.open(2_000)).toBeUndefined();
    expect([sockets.isPossible, ticketsAsked()]).toEqual([false, 1]);
  });

  it('is not tried again if the runtime has no WebSocket', async () => {
    const { sockets, transport, ticketsAsked } = world();
    transport.socket = () => {
      throw new HoldfastError('unsupported', 'This runtime has no WebSocket.');
    };
    for (let tries = 1; tries <= 2; tries++) expect(await sockets.open(2_000)).toBeUndefined();
    expect([sockets.isPossible, ticketsAsked()]).toEqual([false, 1]);
  });

  it('is not possible with a transport that has none', async () => {
    const { transport, runtime } = world();
    const { socket: _, ...bare } = transport;
    const sockets = new Sockets({ namespace: 'test', transport: bare, caller: {} as Caller, runtime });
    expect([sockets.isPossible, await sockets.open(2_000)]).toEqual([false, undefined]);
  });

  it('is tried again however often a busy service gives no ticket: that says nothing about WebSockets', async () => {
    const busy = world({ ticketStatus: 503 });
    for (let tries = 1; tries <= 5; tries++) expect(await busy.sockets.open(2_000)).toBeUndefined();
    expect([busy.sockets.isPossible, busy.fakes.length]).toEqual([true, 0]);
  });
});
