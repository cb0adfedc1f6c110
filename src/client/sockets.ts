/** Waiting by push: one WebSocket for all waits of a client. It is opened after the first of them has waited for a while. */
import type { TicketBody } from '../contract/views.ts';
import type { Caller } from './caller.ts';
import { callOf } from './calls.ts';
import { HoldfastError } from './errors.ts';
import type { Runtime } from './runtime.ts';
import type { OpenSocket, Transport } from './transport.ts';

/** The time for a ticket, and then for the connection. A waiter may be absent for five seconds, so it polls again well before that. */
const openMsMax = 2_000;
/** API Gateway closes a connection after ten minutes without a message. Two pings fit into that time, so one may be lost. */
const pingEveryMs = 240_000;
/** How long an idle socket stays open, because a client that waited often waits again. Only if the socket does not keep the process alive. */
const idleMsMax = 10_000;
/** If the first connections all fail, a proxy probably blocks WebSockets, and the client stops trying. After a success, failures do not count. */
const failuresMax = 3;

/** What happened to a parked wait. */
export type WaitMessage = 'granted' | 'ended' | 'closed';

export interface SocketParts {
  readonly namespace: string;
  readonly transport: Transport;
  readonly caller: Caller;
  readonly runtime: Runtime;
}

interface Expectation {
  readonly leaseId: string;
  readonly tell: (message: WaitMessage) => void;
}

/** An open connection that waits are parked on. */
export class ParkingSocket {
  readonly connectionId: string;
  readonly #onIdle: () => void;
  readonly #expected = new Map<string, Expectation>();
  #isOpen = true;

  constructor(connectionId: string, onIdle: () => void) {
    this.connectionId = connectionId;
    this.#onIdle = onIdle;
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  get isIdle(): boolean {
    return this.#expected.size === 0;
  }

  /** Listens for messages about a lease. The promise resolves once. `forget` must be called in any case. */
  expect(leaseId: string): { readonly message: Promise<WaitMessage>; readonly forget: () => void } {
    const { promise, resolve } = withResolver<WaitMessage>();
    const expectation = { leaseId, tell: resolve };
    if (this.#isOpen) this.#expected.set(leaseId, expectation);
    else resolve('closed');
    const forget = () => {
      if (this.#expected.get(leaseId) !== expectation) return;
      this.#expected.delete(leaseId);
      if (this.isIdle) this.#onIdle();
    };
    return { message: promise, forget };
  }

  /** A message of the service. It may come twice, or after its waiter has left. */
  receive(body: unknown): void {
    const { type, leaseId } = (body ?? {}) as { type?: unknown; leaseId?: unknown };
    const expectation = typeof leaseId === 'string' ? this.#expected.get(leaseId) : undefined;
    if (type === 'granted') expectation?.tell('granted');
    else if (type === 'wait-ended') expectation?.tell('ended');
  }

  closed(): void {
    this.#isOpen = false;
    for (const { tell } of this.#expected.values()) tell('closed');
    this.#expected.clear();
  }
}

/** The socket of a client, if WebSockets work here. */
export class Sockets {
  readonly #parts: SocketParts;
  #isPossible: boolean;
  #failures = 0;
  #hasServed = false;
  #opening: Promise<ParkingSocket> | undefined;
  #live: { readonly parking: ParkingSocket; readonly socket: OpenSocket } | undefined;
  #stopTimers: () => void = () => {};

  constructor(parts: SocketParts) {
    this.#parts = parts;
    this.#isPossible = parts.transport.socket !== undefined;
  }

  /** False if only long polling works. Once false, it stays false for the life of the client. */
  get isPossible(): boolean {
    return this.#isPossible;
  }

  /** The open socket. It is opened if necessary. Undefined if that takes too long: then the caller polls and asks again later. */
  async open(): Promise<ParkingSocket | undefined> {
    if (this.#live?.parking.isOpen) {
      this.#live.socket.keepsAlive(true);
      return this.#live.parking;
    }
    if (!this.#isPossible) return undefined;
    this.#opening ??= this.#connect().finally(() => {
      this.#opening = undefined;
    });
    return this.#opening.catch(() => undefined);
  }

  /** A wait was parked, so sockets work here. */
  served(): void {
    this.#hasServed = true;
  }

  /** The service does not know this connection. */
  discard(parking: ParkingSocket): void {
    this.#fail();
    if (this.#live?.parking === parking) this.#end();
  }

  close(): void {
    this.#isPossible = false;
    this.#end();
  }

  /** A ticket that is late says only that the service is busy. It does not count as a failure of WebSockets. */
  async #connect(): Promise<ParkingSocket> {
    try {
      const ticket = await requestTicket(this.#parts);
      return await this.#connectWith(ticket).catch((error) => {
        this.#fail();
        throw error;
      });
    } catch (error) {
      if (isFinal(error)) this.#isPossible = false;
      throw error;
    }
  }

  #fail(): void {
    this.#failures += 1;
    if (!this.#hasServed && this.#failures >= failuresMax) this.#isPossible = false;
  }

  async #connectWith({ ticket, url }: TicketBody): Promise<ParkingSocket> {
    const { transport, runtime } = this.#parts;
    const opened = withResolver<ParkingSocket>();
    let parking: ParkingSocket | undefined;
    const socket = (transport.socket as NonNullable<Transport['socket']>).call(
      transport,
      url,
      { ticket },
      {
        // The service answers any message with the connection id.
        open: () => socket.send('hello'),
        message: (message) => {
          const { type, connectionId } = (message ?? {}) as { type?: unknown; connectionId?: unknown };
          if (parking !== undefined) parking.receive(message);
          else if (type === 'connected' && typeof connectionId === 'string') {
            parking = new ParkingSocket(connectionId, () => this.#rest());
            this.#live = { parking, socket };
            this.#keepAwake();
            opened.resolve(parking);
          }
        },
        closed: (cause) => {
          if (this.#live?.parking === parking) this.#live = undefined;
          parking?.closed();
          opened.reject(cause);
        },
      },
    );
    const cancel = runtime.after(openMsMax, () => {
      opened.reject(new Error('The WebSocket did not open in time.'));
      if (parking === undefined) socket.close();
    });
    return opened.promise.finally(cancel);
  }

  /** Nobody waits. If the socket keeps the process alive, it is closed at once, else after a while. */
  #rest(): void {
    const live = this.#live;
    if (live === undefined) return;
    if (!live.socket.keepsAlive(false)) {
      this.#end();
      return;
    }
    this.#parts.runtime.after(
      idleMsMax,
      () => {
        if (this.#live === live && live.parking.isIdle) this.#end();
      },
      true,
    );
  }

  #keepAwake(): void {
    const live = this.#live;
    this.#stopTimers();
    this.#stopTimers = this.#parts.runtime.after(
      pingEveryMs,
      () => {
        if (this.#live !== live) return;
        live?.socket.send('ping');
        this.#keepAwake();
      },
      true,
    );
  }

  #end(): void {
    const live = this.#live;
    this.#live = undefined;
    this.#stopTimers();
    live?.parking.closed();
    live?.socket.close();
  }
}

/** Asks once. A caller that gets no ticket tries again later, or goes on without a connection. */
export async function requestTicket({
  namespace,
  caller,
}: Pick<SocketParts, 'namespace' | 'caller'>): Promise<TicketBody> {
  const call = callOf('createTicket', 'POST /v1/{ns}/tickets', { ns: namespace }, { body: {} });
  const { body } = await caller.call(call, { deadlineMs: openMsMax, retryMs: 0, attemptMs: openMsMax });
  return body as TicketBody;
}

/** True if a later try will fail too: the runtime has no WebSocket, the service has no tickets, or the caller may not have one. */
const isFinal = (error: unknown): boolean =>
  error instanceof HoldfastError &&
  ['unsupported', 'not-found', 'method-not-allowed', 'forbidden', 'unauthorized'].includes(error.code);

function withResolver<T>() {
  let resolve: (value: T) => void = () => {};
  let reject: (cause: unknown) => void = () => {};
  const promise = new Promise<T>((yes, no) => {
    resolve = yes;
    reject = no;
  });
  // Nobody may be listening any more. Then the rejection must not count as unhandled.
  promise.catch(() => undefined);
  return { promise, resolve, reject };
}
