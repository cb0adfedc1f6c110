/** Waiting by push: one WebSocket for all waits of a client, opened when the first of them has waited for a while. */
import type { TicketBody } from '../contract/views.ts';
import type { Caller } from './caller.ts';
import { callOf } from './calls.ts';
import { HoldfastError } from './errors.ts';
import type { Runtime } from './runtime.ts';
import type { OpenSocket, Transport } from './transport.ts';

/** For a ticket, and then for the connection. A waiter may stay away for five seconds, so it goes on polling well before that. */
const openMsMax = 2_000;
/** Twice within the ten minutes after which API Gateway closes a quiet connection, so that one lost ping costs nothing. */
const pingEveryMs = 240_000;
/** A client that waited is likely to wait again. Only where an idle socket does not keep the process alive. */
const idleMsMax = 10_000;
/** Where the first tries all fail, something in between does not let WebSockets pass: no more is lost on it. Failures after a success pass. */
const failuresMax = 3;

/** What a waiter hears. */
export type SocketNews = 'granted' | 'ended' | 'closed';

export interface SocketParts {
  readonly namespace: string;
  readonly transport: Transport;
  readonly caller: Caller;
  readonly runtime: Runtime;
}

interface Expectation {
  readonly leaseId: string;
  readonly tell: (news: SocketNews) => void;
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

  /** Listens for a lease from now on. The promise resolves once; `forget` must be called in any case. */
  expect(leaseId: string): { readonly news: Promise<SocketNews>; readonly forget: () => void } {
    const { promise, resolve } = withResolver<SocketNews>();
    const expectation = { leaseId, tell: resolve };
    if (this.#isOpen) this.#expected.set(leaseId, expectation);
    else resolve('closed');
    const forget = () => {
      if (this.#expected.get(leaseId) !== expectation) return;
      this.#expected.delete(leaseId);
      if (this.isIdle) this.#onIdle();
    };
    return { news: promise, forget };
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

/** The client's one socket, and whether there can be one. */
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

  /** False once it is known that long polling is the only way: decided once for the life of the client. */
  get isPossible(): boolean {
    return this.#isPossible;
  }

  /** The open socket, opened if need be. Undefined if that takes too long now: the caller polls meanwhile and asks again. */
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

  /** A wait was parked: sockets work here. */
  served(): void {
    this.#hasServed = true;
  }

  /** The service does not know this connection, or not any more. */
  discard(parking: ParkingSocket): void {
    this.#fail();
    if (this.#live?.parking === parking) this.#end();
  }

  close(): void {
    this.#isPossible = false;
    this.#end();
  }

  async #connect(): Promise<ParkingSocket> {
    try {
      return await this.#connectOnce();
    } catch (error) {
      this.#fail();
      if (isFinal(error)) this.#isPossible = false;
      throw error;
    }
  }

  #fail(): void {
    this.#failures += 1;
    if (!this.#hasServed && this.#failures >= failuresMax) this.#isPossible = false;
  }

  async #connectOnce(): Promise<ParkingSocket> {
    const { transport, runtime } = this.#parts;
    const { ticket, url } = await requestTicket(this.#parts);
    const opened = withResolver<ParkingSocket>();
    let parking: ParkingSocket | undefined;
    const socket = (transport.socket as NonNullable<Transport['socket']>).call(
      transport,
      url,
      { ticket },
      {
        // Whatever a client says is answered by its connection id.
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

  /** Nobody waits. A socket that would keep the process alive is closed at once, another one after a while. */
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

/** Asked once: whoever wants a connection tries again later, or goes on without. */
export async function requestTicket({
  namespace,
  caller,
}: Pick<SocketParts, 'namespace' | 'caller'>): Promise<TicketBody> {
  const call = callOf('createTicket', 'POST /v1/{ns}/tickets', { ns: namespace }, { body: {} });
  const { body } = await caller.call(call, { deadlineMs: openMsMax, retryMs: 0, attemptMs: openMsMax });
  return body as TicketBody;
}

/** No WebSocket here, no tickets there, or no right to them. */
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
  // Whether anybody still listens is not this promise's business.
  promise.catch(() => undefined);
  return { promise, resolve, reject };
}
