import type { LockEvent } from '../contract/views.ts';
import { backoffMs } from '../tools/backoff.ts';
import { joinSignals } from './abort.ts';
import { isWorthRepeating } from './caller.ts';
import type { Core } from './core.ts';
import { HoldfastError } from './errors.ts';
import { pause } from './runtime.ts';
import { requestTicket } from './sockets.ts';

/** Which locks to watch: one, or all whose names begin so. */
export type WatchTarget =
  | { readonly lock: string; readonly signal?: AbortSignal | undefined }
  | { readonly prefix: string; readonly signal?: AbortSignal | undefined };

/**
 * What a watch yields. `connected` comes first, and again after each reconnection. Events in between are missing, so a caller that
 * keeps its own view should read the state again then.
 */
export type WatchEvent =
  | { readonly type: 'connected'; readonly connectionId: string }
  | (LockEvent & { readonly lock: string })
  | WatchGrant;

/** Only to the one who parked with this connection: its grant, to be taken up by {@link Holdfast.adopt}. It has a `leaseId`. */
export interface WatchGrant {
  readonly type: 'granted';
  readonly lock: string;
  readonly leaseId: string;
  readonly fence: number;
  readonly remainingMs: number;
}

const reconnectBaseMs = 250;
/** A service that is away for long is not asked more often than this. */
const reconnectMsMax = 15_000;
/** A reader that is this far behind loses its connection, so that events do not fill the memory. The next `connected` says so. */
const backlogMax = 10_000;

/** The events of a watch, over as many connections as it takes. Ends when the signal fires, the loop is left, or the client is closed. */
export async function* watchEvents(core: Core, target: WatchTarget): AsyncGenerator<WatchEvent, void, undefined> {
  const { runtime, closing } = core;
  const { signal, ...what } = target;
  let failures = 0;
  while (!signal?.aborted && !closing.aborted) {
    const connection = new Connection(await opener(core, what), [signal, closing]);
    try {
      for await (const event of connection.events()) {
        failures = 0;
        yield event;
      }
    } finally {
      connection.close();
    }
    if (signal?.aborted || closing.aborted) return;
    const delayMs = backoffMs(failures++, reconnectBaseMs, reconnectMsMax, runtime.random);
    const joined = joinSignals(signal, closing);
    await pause(runtime, delayMs, joined.signal).catch(() => undefined);
    joined.letGo();
  }
}

type Open = (handlers: { message: (body: unknown) => void; closed: () => void }) => () => void;

/** With a ticket, which says who watches and where; without one where the transport has a way of its own, as the twin has. */
async function opener(core: Core, what: Readonly<Record<string, string>>): Promise<Open> {
  const { transport, namespace } = core;
  if (transport.socket !== undefined) {
    try {
      const { ticket, url } = await requestTicket(core);
      return (handlers) => {
        const socket = transport.socket?.(url, { ticket, ...what }, { open: () => {}, ...handlers });
        return () => socket?.close();
      };
    } catch (error) {
      if (isWorthRepeating(error)) return endedAtOnce;
      if (!(error instanceof HoldfastError) || error.code !== 'not-found' || transport.watch === undefined) throw error;
    }
  }
  if (transport.watch === undefined) {
    throw new HoldfastError('unsupported', 'Watching needs the service: this transport has no WebSocket.');
  }
  return (handlers) => transport.watch?.({ namespace, ...what }, handlers) ?? (() => {});
}

/** The service is away: as if a connection had broken, so that it is tried again after a while. */
const endedAtOnce: Open = ({ closed }) => {
  closed();
  return () => {};
};

/** One connection as a queue that one reader empties. */
class Connection {
  readonly #queue: WatchEvent[] = [];
  readonly #signals: readonly (AbortSignal | undefined)[];
  readonly #shut: () => void;
  readonly #onAbort = () => this.close();
  #ended = false;
  #wake: () => void = () => {};

  constructor(open: Open, signals: readonly (AbortSignal | undefined)[]) {
    this.#signals = signals;
    this.#shut = open({ message: (body) => this.#push(body as WatchEvent), closed: () => this.#end() });
    for (const signal of signals) signal?.addEventListener('abort', this.#onAbort, { once: true });
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
    for (const signal of this.#signals) signal?.removeEventListener('abort', this.#onAbort);
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
