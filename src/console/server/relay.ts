/** Sends the events of one namespace from one watch to every open page. */
import type { Holdfast, LockEvent, Transport } from '../../client/index.ts';
import type { WatchHandlers } from '../../client/transport.ts';

export type SeenEvent = LockEvent & { readonly lock: string };

/** `live`: events arrive. `reconnecting`: no events for the moment. `unwatched`: this service can't be watched. */
export type LinkState = 'live' | 'reconnecting' | 'unwatched';

/** A message to a page. */
export type Message =
  | { readonly kind: 'events'; readonly id: string; readonly body: readonly SeenEvent[] }
  /** `missed` is true if the page has missed events. It should then read the state and the history again. */
  | { readonly kind: 'link'; readonly body: { readonly state: LinkState; readonly missed: boolean } };

export type Listener = (message: Message) => void;

/** The latest events are kept for pages that reload or whose connection broke for a moment. */
const keptMax = 2_000;
/** Events that come within this time go into one message, because a busy lock has too many events. */
const gatherMs = 40;
/** The relay goes on for this time after the last page left. A page that is reloaded comes back sooner. */
const lingerMs = 30_000;

interface Kept {
  readonly number: number;
  readonly event: SeenEvent;
}

export class EventRelay {
  readonly #listeners = new Set<Listener>();
  readonly #client: Holdfast;
  /** The ids of this relay differ from those of an earlier one, for example before a restart. */
  readonly #name: string;
  readonly #kept: Kept[] = [];
  #gathered: SeenEvent[] = [];
  #number = 0;
  #state: LinkState = 'reconnecting';
  #wasLive = false;
  #stop: AbortController | undefined;
  #linger: NodeJS.Timeout | undefined;
  #gather: NodeJS.Timeout | undefined;

  constructor(transport: Transport, open: (transport: Transport) => Holdfast, name: string) {
    this.#client = open(observed(transport, () => this.#markDown()));
    this.#name = name;
  }

  get isIdle(): boolean {
    return this.#stop === undefined;
  }

  /** `after` is the last id that this page has seen. The function that it returns ends the subscription. */
  subscribe(listener: Listener, after: string | null): () => void {
    clearTimeout(this.#linger);
    this.#flush();
    this.#listeners.add(listener);
    const missed = this.#replay(listener, after);
    if (this.#stop === undefined) this.#start();
    listener({ kind: 'link', body: { state: this.#state, missed } });
    return () => {
      this.#listeners.delete(listener);
      if (this.#listeners.size > 0) return;
      this.#linger = setTimeout(() => this.close(), lingerMs).unref();
    };
  }

  close(): void {
    clearTimeout(this.#linger);
    clearTimeout(this.#gather);
    this.#stop?.abort();
    this.#stop = undefined;
    this.#state = 'reconnecting';
    this.#wasLive = false;
    this.#kept.length = 0;
    this.#gathered = [];
    // After a later start, ids from before must not look like new ones.
    this.#number += keptMax;
  }

  /** Sends the missed events. True if they are no longer kept. */
  #replay(listener: Listener, after: string | null): boolean {
    if (after === null) return false;
    const [name, text] = after.split('.');
    const last = Number(text);
    const oldest = this.#kept[0]?.number ?? this.#number + 1;
    if (name !== this.#name || !(last <= this.#number) || last + 1 < oldest || this.#stop === undefined) return true;
    const body = this.#kept.filter(({ number }) => number > last).map(({ event }) => event);
    if (body.length > 0) listener({ kind: 'events', id: this.#id(), body });
    return false;
  }

  #start(): void {
    const stop = new AbortController();
    this.#stop = stop;
    this.#follow(stop.signal).catch(() => {
      if (!stop.signal.aborted) this.#setState('unwatched', false);
    });
  }

  async #follow(signal: AbortSignal): Promise<void> {
    for await (const event of this.#client.watch({ prefix: '', signal })) {
      if (signal.aborted) return;
      if (event.type === 'connected') {
        this.#flush();
        this.#setState('live', this.#wasLive);
        this.#wasLive = true;
      } else if (!('leaseId' in event)) {
        this.#take(event as SeenEvent);
      }
    }
  }

  #take(event: SeenEvent): void {
    this.#gathered.push(event);
    this.#gather ??= setTimeout(() => this.#flush(), gatherMs);
  }

  #flush(): void {
    clearTimeout(this.#gather);
    this.#gather = undefined;
    const body = this.#gathered;
    if (body.length === 0) return;
    this.#gathered = [];
    for (const event of body) this.#kept.push({ number: ++this.#number, event });
    if (this.#kept.length > keptMax) this.#kept.splice(0, this.#kept.length - keptMax);
    this.#send({ kind: 'events', id: this.#id(), body });
  }

  #markDown(): void {
    if (this.#stop !== undefined && this.#state === 'live') this.#setState('reconnecting', false);
  }

  #setState(state: LinkState, missed: boolean): void {
    if (this.#state === state && !missed) return;
    this.#state = state;
    this.#send({ kind: 'link', body: { state, missed } });
  }

  #send(message: Message): void {
    for (const listener of [...this.#listeners]) listener(message);
  }

  #id(): string {
    return `${this.#name}.${this.#number}`;
  }
}

/** The SDK reconnects by itself and reports only the new connection. Pages must know at once that the old one broke. */
function observed(transport: Transport, onClosed: () => void): Transport {
  const watch = transport.watch?.bind(transport);
  const socket = transport.socket?.bind(transport);
  const watched = <Handlers extends WatchHandlers>(handlers: Handlers): Handlers => ({
    ...handlers,
    closed: (cause) => {
      onClosed();
      handlers.closed(cause);
    },
  });
  return {
    request: (call, signal) => transport.request(call, signal),
    ...(watch && { watch: (query, handlers) => watch(query, watched(handlers)) }),
    ...(socket && { socket: (url, query, handlers) => socket(url, query, watched(handlers)) }),
  };
}
