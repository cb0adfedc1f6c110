import type { LockEvent } from '../contract/views.ts';
import { backoffMs } from '../tools/backoff.ts';
import { joinSignals } from './abort.ts';
import { isWorthRepeating } from './caller.ts';
import type { Core } from './core.ts';
import { HoldfastError } from './errors.ts';
import { pause } from './runtime.ts';
import { requestTicket } from './sockets.ts';

/** Which locks to watch: one lock, or all with the same prefix. */
export type WatchTarget =
  | { readonly lock: string; readonly signal?: AbortSignal | undefined }
  | { readonly prefix: string; readonly signal?: AbortSignal | undefined };

/**
 * What a watch yields. `connected` comes first, and again after each new connection. Events between two connections are
 * missing, so a caller that keeps its own view should then read the state again.
 */
export type WatchEvent =
  | { readonly type: 'connected'; readonly connectionId: string }
  | (LockEvent & { readonly lock: string })
  | WatchGrant;

/** The grant of a waiter that is parked on this connection. Only this connection gets it. Pass it to {@link Holdfast.adopt}. */
export interface WatchGrant {
  readonly type: 'granted';
  readonly lock: string;
  readonly leaseId: string;
  readonly fence: number;
  readonly remainingMs: number;
}

const reconnectBaseMs = 250;
/** The longest pause before a new connection, if the service is unavailable for long. */
const reconnectMsMax = 15_000;
/** A reader that is this many events behind loses its connection, so that events do not fill the memory. The next `connected` tells it. */
const backlogMax = 10_000;

/** The events of a watch, over as many connections as needed. Ends if the signal fires, the caller leaves the loop, or the client is closed. */
export async function* watchEvents(core: Core, target: WatchTarget): AsyncGenerator<WatchEvent, void, undefined> {
  const { runtime, closing } = core;
  const { signal: wanted, ...what } = target;
  const { signal, letGo } = joinSignals(wanted, closing);
  let failures = 0;
  try {
    while (!signal.aborted) {
      const connection = new Connection(await opener(core, what, signal), signal);
      try {
        for await (const event of connection.events()) {
          failures = 0;
          yield event;
        }
      } finally {
        connection.close();
      }
      const delayMs = backoffMs(failures++, reconnectBaseMs, reconnectMsMax, runtime.random);
      await pause(runtime, delayMs, signal).catch(() => undefined);
    }
  } finally {
    letGo();
  }
}

type Open = (handlers: { message: (body: unknown) => void; closed: () => void }) => () => void;

/** Watches need a ticket, which says who may watch which namespace. A transport with its own way, like the twin, needs none. */
async function opener(core: Core, what: Readonly<Record<string, string>>, signal: AbortSignal): Promise<Open> {
  const { transport, namespace } = core;
  if (transport.socket !== undefined) {
    try {
      const { ticket, url } = await requestTicket(core, signal);
      return (handlers) => {
        const socket = transport.socket?.(url, { ticket, ...what }, { open: () => {}, ...handlers });
        return () => socket?.close();
      };
    } catch (error) {
      if (signal.aborted || isWorthRepeating(error)) return endedAtOnce;
      if (!(error instanceof HoldfastError) || error.code !== 'not-found' || transport.watch === undefined) throw error;
    }
  }
  if (transport.watch === undefined) {
    throw new HoldfastError('unsupported', 'Watching needs a WebSocket, and this transport has none.');
  }
  return (handlers) => transport.watch?.({ namespace, ...what }, handlers) ?? (() => {});
}

/** If the service is unavailable, or the reader has left, this acts like a connection that broke at once. A reader that is still there tries again after a while. */
const endedAtOnce: Open = ({ closed }) => {
  closed();
  return () => {};
};

/** The messages of one connection, for one reader. */
class Connection {
  readonly #queue: WatchEvent[] = [];
  readonly #signal: AbortSignal;
  readonly #shut: () => void;
  readonly #onAbort = () => this.close();
  #ended = false;
  #wake: () => void = () => {};

  constructor(open: Open, signal: AbortSignal) {
    this.#signal = signal;
    this.#shut = open({ message: (body) => this.#push(body as WatchEvent), closed: () => this.#end() });
    // The reader may have left while the ticket was on its way. Then the signal does not fire again.
    if (signal.aborted) this.close();
    else signal.addEventListener('abort', this.#onAbort, { once: true });
  }

  async *events(): AsyncGenerator<WatchEvent, void, undefined> {
    for (;;) {
      const event = this.#queue.shift();
      if (event !== undefined) yield event;
      else if (this.#ended) return;
      else
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
    }
  }

  close(): void {
    this.#signal.removeEventListener('abort', this.#onAbort);
    if (!this.#ended) this.#shut();
    this.#end();
  }

  #push(event: WatchEvent): void {
    if (this.#queue.length >= backlogMax) {
      this.close();
      return;
    }
    this.#queue.push(event);
    this.#wake();
  }

  #end(): void {
    this.#ended = true;
    this.#wake();
  }
}
