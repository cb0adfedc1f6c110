import { reasonOf } from '../tools/error-text.ts';
import type { Auth, Unsigned } from './auth/auth.ts';
import { HoldfastError, invalidField } from './errors.ts';
import {
  type Answer,
  type Call,
  type OpenSocket,
  pathOf,
  type SocketHandlers,
  type Transport,
  type WatchHandlers,
} from './transport.ts';

/** What the SDK needs of a WebSocket. The standard one has it, and that of the package `ws` too. */
export interface WebSocketLike {
  addEventListener(type: 'message', listener: (event: { data: unknown }) => void): void;
  addEventListener(type: 'close' | 'error' | 'open', listener: (event: unknown) => void): void;
  send?(text: string): void;
  close(code?: number): void;
}

export type WebSocketClass = new (url: string, options?: { headers?: Record<string, string> }) => WebSocketLike;

export interface HttpTransportOptions {
  /** Where the service is, such as `https://abc.execute-api.eu-west-1.amazonaws.com`. */
  readonly url: string | URL;
  /** Says who the caller is: {@link sigv4}, {@link bearer}, or a function that gives headers. The local service needs none. */
  readonly auth?: Auth | undefined;
  /** The URL for watches. If deployed, the WebSocket API has its own URL. */
  readonly watchUrl?: string | URL | undefined;
  readonly fetch?: typeof fetch | undefined;
  /** For a runtime without a built-in WebSocket. */
  readonly webSocket?: WebSocketClass | undefined;
}

/** Requests by `fetch`, watches by WebSocket. */
export class HttpTransport implements Transport {
  readonly #base: string;
  readonly #watchUrl: string;
  /** Set if the user gave one. It may be a proxy. */
  readonly #givenWatchUrl: string | undefined;
  readonly #auth: Auth | undefined;
  readonly #fetch: typeof fetch;
  readonly #webSocket: WebSocketClass | undefined;

  constructor({ url, auth, watchUrl, fetch: injected, webSocket }: HttpTransportOptions) {
    const base = readUrl(url);
    this.#base = `${base.origin}${base.pathname.replace(/\/+$/, '')}`;
    this.#givenWatchUrl = watchUrl === undefined ? undefined : String(watchUrl);
    this.#watchUrl = String(watchUrl ?? `${this.#base.replace(/^http/, 'ws')}/v1/watch`);
    this.#auth = auth;
    // A tracer or a test may replace the global `fetch` later, so it is looked up at each call.
    this.#fetch = injected ?? ((input, init) => globalThis.fetch(input, init));
    this.#webSocket = webSocket;
  }

  get target(): string {
    return this.#base;
  }

  async request(call: Call, signal: AbortSignal): Promise<Answer> {
    const url = new URL(`${this.#base}${pathOf(call)}`);
    for (const [name, value] of Object.entries(call.query ?? {})) url.searchParams.set(name, value);
    const body = call.body === undefined ? undefined : JSON.stringify(call.body);
    const headers: Record<string, string> = {
      accept: 'application/json',
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...call.headers,
    };
    const authorized = await this.#authorize({ method: call.method, url, headers, body });
    const response = await this.#fetch(url, {
      method: call.method,
      headers: { ...headers, ...authorized },
      ...(body === undefined ? {} : { body }),
      // A redirect must not send a leaseId to another host.
      redirect: 'manual',
      signal,
    });
    // The body is always read to its end. An unread body keeps its connection open, and the process alive.
    const text = await response.text();
    return { status: response.status, headers: Object.fromEntries(response.headers), body: parse(text) };
  }

  /** If the headers can't be made, the request can't be sent, and a retry does not help. */
  async #authorize(request: Unsigned): Promise<Readonly<Record<string, string>> | undefined> {
    try {
      return await this.#auth?.(request);
    } catch (error) {
      throw new HoldfastError('unauthorized', `The request could not be authorized: ${reasonOf(error)}`, {
        cause: error,
      });
    }
  }

  watch(query: Readonly<Record<string, string>>, handlers: WatchHandlers): () => void {
    const socket = this.#open(this.#watchUrl, query, {
      open: () => {},
      message: (body) => handlers.message(body),
      closed: (cause) => handlers.closed(cause),
    });
    return () => socket.close();
  }

  socket(url: string, query: Readonly<Record<string, string>>, handlers: SocketHandlers): OpenSocket {
    return this.#open(this.#givenWatchUrl ?? url, query, handlers);
  }

  #open(address: string, query: Readonly<Record<string, string>>, handlers: SocketHandlers): OpenSocket {
    const url = new URL(address);
    for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
    let socket: WebSocketLike | undefined;
    let closed = false;
    const end = (cause: unknown) => {
      if (closed) return;
      closed = true;
      handlers.closed(cause);
    };
    const open = async () => {
      const WebSocket = this.#webSocket ?? (await findWebSocket());
      const signed = await this.#authorize({ method: 'GET', url: asHttp(url), headers: {}, body: undefined });
      if (closed) return;
      // A browser's WebSocket takes no headers. That of Node and that of `ws` take them here.
      socket = signed === undefined ? new WebSocket(url.href) : new WebSocket(url.href, { headers: { ...signed } });
      socket.addEventListener('open', () => {
        if (!closed) handlers.open();
      });
      socket.addEventListener('message', ({ data }) => {
        const body = typeof data === 'string' ? parse(data) : undefined;
        if (!closed && body !== undefined) handlers.message(body);
      });
      socket.addEventListener('close', end);
      socket.addEventListener('error', end);
    };
    open().catch(end);
    return {
      send: (text) => {
        if (!closed) socket?.send?.(text);
      },
      close: () => {
        closed = true;
        socket?.close(1000);
      },
      keepsAlive: (wanted) => {
        // Only the package `ws` gives access to its TCP connection.
        const connection = (socket as { _socket?: { ref(): void; unref(): void } } | undefined)?._socket;
        if (wanted) connection?.ref();
        else connection?.unref();
        return connection !== undefined;
      },
    };
  }
}

function readUrl(url: string | URL | undefined): URL {
  const base = url !== undefined && URL.canParse(String(url)) ? new URL(url) : undefined;
  if (base?.protocol === 'http:' || base?.protocol === 'https:') return base;
  const message =
    url === undefined
      ? 'is missing: give the address of the service, such as http://127.0.0.1:4100'
      : `must be ${base ? 'http or https' : 'a URL'}, such as http://127.0.0.1:4100, got ${JSON.stringify(url)}`;
  throw invalidField('url', message);
}

/** The runtime's own WebSocket, or that of the package `ws` if it is installed. */
async function findWebSocket(): Promise<WebSocketClass> {
  const own = (globalThis as { WebSocket?: WebSocketClass }).WebSocket;
  if (own !== undefined) return own;
  // The name is in a variable, so a bundler does not look for the package, which is optional.
  const name = 'ws';
  const found = (await import(name).catch(() => undefined)) as { WebSocket?: WebSocketClass } | undefined;
  if (found?.WebSocket !== undefined) return found.WebSocket;
  throw new HoldfastError(
    'unsupported',
    'This runtime has no WebSocket. Install the package ws, or pass a class in the option webSocket.',
  );
}

/** The signature is over the URL with http, not ws. */
const asHttp = (url: URL): URL => new URL(url.href.replace(/^ws/, 'http'));

/** An answer that is not JSON does not come from the service, but from a proxy for example. The SDK ignores its body. */
function parse(text: string): unknown {
  if (text === '') return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
