/** Waiting by push: one WebSocket for all waits of a client. It is opened after the first of them has waited for a while. */
import type { TicketBody } from '../contract/views.ts';
import type { Caller } from './caller.ts';
import { callOf } from './calls.ts';
import { ClosedError, HoldfastError } from './errors.ts';
import type { Runtime } from './runtime.ts';
import type { OpenSocket, Transport } from './transport.ts';

/** The time for a ticket, and then for the connection. A busy service needs it. Meanwhile the waits poll, so none loses its place. */
const openMsMax = 10_000;
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

/** An open connection that waits are parked on. */
export class ParkingSocket {
  readonly connectionId: string;
  readonly #expected = new Map<string, (message: WaitMessage) => void>();
  #isOpen = true;

  constructor(connectionId: string) {
    this.connectionId = connectionId;
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** Listens for messages about a lease. The promise resolves once. `forget` must be called in any case. */
  expect(leaseId: string): { readonly message: Promise<WaitMessage>; readonly forget: () => void } {
    const { promise, resolve } = Promise.withResolvers<WaitMessage>();
    if (this.#isOpen) this.#expected.set(leaseId, resolve);
    else resolve('closed');
    const forget = () => {
      if (this.#expected.get(leaseId) === resolve) this.#expected.delete(leaseId);
    };
    return { message: promise, forget };
  }

  /** A message of the service. It may come twice, or after its waiter has left. */
  receive(body: unknown): void {
    const { type, leaseId } = (body ?? {}) as { type?: unknown; leaseId?: unknown };
    const resolve = typeof leaseId === 'string' ? this.#expected.get(leaseId) : undefined;
    if (type === 'granted') resolve?.('granted');
    else if (type === 'wait-ended') resolve?.('ended');
  }

  closed(): void {
    this.#isOpen = false;
    for (const resolve of this.#expected.values()) resolve('closed');
    this.#expected.clear();
  }
}

/** A connection that is not open yet. `socket` is undefined if it can't be opened. */
interface Opening {
  readonly socket: Promise<ParkingSocket | undefined>;
  readonly stop: AbortController;
}

/** The socket of a client, if WebSockets work here. */
export class Sockets {
  readonly #parts: SocketParts;
  #isPossible: boolean;
  #failures = 0;
  #hasServed = false;
  /** How many wait, parked or polling. */
  #waits = 0;
  #opening: Opening | undefined;
  #live: { readonly parking: ParkingSocket; readonly socket: OpenSocket } | undefined;
  #stopPings: () => void = () => {};
  #stopIdling: () => void = () => {};

  constructor(parts: SocketParts) {
    this.#parts = parts;
    this.#isPossible = parts.transport.socket !== undefined;
  }

  /** False if only long polling works. Once false, it stays false for the life of the client. */
  get isPossible(): boolean {
    return this.#isPossible;
  }

  /** A wait has begun, parked or polling. The socket stays open while there is one. Call the function once, when the wait has ended. */
  join(): () => void {
    this.#waits += 1;
    this.#stopIdling();
    this.#live?.socket.keepsAlive(true);
    return () => {
      this.#waits -= 1;
      if (this.#waits === 0) this.#closeWhenIdle();
    };
  }

  /**
   * The open socket. It is opened if necessary. Undefined if that takes longer than the given time: then the caller polls
   * and asks again later. The opening goes on meanwhile.
   */
  async open(withinMs: number): Promise<ParkingSocket | undefined> {
    if (this.#live !== undefined) return this.#live.parking;
    if (!this.#isPossible) return undefined;
    this.#opening ??= this.#begin();
    let cancel = () => {};
    const late = new Promise<undefined>((resolve) => {
      cancel = this.#parts.runtime.after(withinMs, () => resolve(undefined));
    });
    return Promise.race([this.#opening.socket, late]).finally(() => cancel());
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

  #begin(): Opening {
    const stop = new AbortController();
    const socket = this.#connect(stop.signal)
      .catch(() => undefined)
      .finally(() => {
        if (this.#opening === opening) this.#opening = undefined;
      });
    const opening: Opening = { socket, stop };
    return opening;
  }

  /** A ticket that is late says only that the service is busy. It does not count as a failure of WebSockets. */
  async #connect(stop: AbortSignal): Promise<ParkingSocket> {
    try {
      const ticket = await requestTicket(this.#parts, stop);
      return await this.#connectWith(ticket, stop).catch((error) => {
        if (!stop.aborted) this.#fail();
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

  async #connectWith({ ticket, url }: TicketBody, stop: AbortSignal): Promise<ParkingSocket> {
    const { transport, runtime } = this.#parts;
    stop.throwIfAborted();
    const opened = Promise.withResolvers<ParkingSocket>();
    // Nobody may be listening any more. Then the rejection must not count as unhandled.
    opened.promise.catch(() => undefined);
    let isGivenUp = false;
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
          else if (type === 'connected' && typeof connectionId === 'string' && !isGivenUp) {
            parking = new ParkingSocket(connectionId);
            this.#live = { parking, socket };
            this.#pingLater();
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
    const giveUp = (why: unknown) => {
      isGivenUp = true;
      opened.reject(why);
      socket.close();
    };
    const onStop = () => giveUp(stop.reason);
    stop.addEventListener('abort', onStop, { once: true });
    const cancel = runtime.after(openMsMax, () => giveUp(new Error('The WebSocket did not open in time.')));
    return opened.promise.finally(() => {
      cancel();
      stop.removeEventListener('abort', onStop);
    });
  }

  /** Nobody waits. If the socket keeps the process alive, it is closed at once, else after a while. */
  #closeWhenIdle(): void {
    const live = this.#live;
    if (live === undefined || !live.socket.keepsAlive(false)) this.#end();
    else this.#stopIdling = this.#parts.runtime.after(idleMsMax, () => this.#end(), true);
  }

  #pingLater(): void {
    const live = this.#live;
    this.#stopPings();
    this.#stopPings = this.#parts.runtime.after(
      pingEveryMs,
      () => {
        if (this.#live !== live) return;
        live?.socket.send('ping');
        this.#pingLater();
      },
      true,
    );
  }

  /** Ends the socket, open or not. */
  #end(): void {
    const [live, opening] = [this.#live, this.#opening];
    this.#live = undefined;
    this.#opening = undefined;
    this.#stopPings();
    this.#stopIdling();
    opening?.stop.abort(new ClosedError('Nobody waits for the WebSocket.'));
    live?.parking.closed();
    live?.socket.close();
  }
}

/** Asks once. A caller that gets no ticket tries again later, or goes on without a connection. */
export async function requestTicket(
  { namespace, caller }: Pick<SocketParts, 'namespace' | 'caller'>,
  signal?: AbortSignal,
): Promise<TicketBody> {
  const call = callOf('createTicket', 'POST /v1/{ns}/tickets', { ns: namespace }, { body: {} });
  const { body } = await caller.call(call, { deadlineMs: openMsMax, retryMs: 0, attemptMs: openMsMax, signal });
  return body as TicketBody;
}

/** True if a later try will fail too: the runtime has no WebSocket, the service has no tickets, or the caller may not have one. */
const isFinal = (error: unknown): boolean =>
  error instanceof HoldfastError &&
  ['unsupported', 'not-found', 'method-not-allowed', 'forbidden', 'unauthorized'].includes(error.code);
