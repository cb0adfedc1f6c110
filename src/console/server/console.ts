/** The server part of the console. It serves the page and asks the service for it. Credentials stay here. */
import { randomBytes } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { unescape as decode } from 'node:querystring';
import { Holdfast, isHoldfastError, type Transport } from '../../client/index.ts';
import { reasonOf, rootCauseOf } from '../../tools/error-text.ts';
import { checkOrigin, type Refusal, TokenAccess } from './access.ts';
import { type Asset, loadAssets } from './assets.ts';
import { ask, permission } from './questions.ts';
import { EventRelay, type Message } from './relay.ts';

export interface ConsoleOptions {
  /** Sends requests to the service with the console's credentials. */
  readonly transport: Transport;
  /** The address of the service, for people and for the shell command that makes the first lock. */
  readonly serviceUrl: string;
  /** How that command must authorize. */
  readonly auth: 'none' | 'bearer' | 'sigv4';
  readonly token: string;
  /** The namespace that is shown first. */
  readonly namespace: string;
  /** Other namespaces in use. */
  readonly namespaces?: () => readonly string[];
  /** How far the service's deliveries are behind the writes to its table, if that is known. */
  readonly behindMs?: () => number;
  /** Whether the page may do more than read. */
  readonly mayChange: boolean;
}

/** A secret that nobody can guess, in characters that an address may have. */
export const newConsoleToken = (): string => randomBytes(24).toString('base64url');

/** A person waits for the answer. A service that restarts is back in this time. With more, the page would seem to hang. */
const patience = { requestMs: 8_000, retryMs: 3_000, releaseMs: 1_000 };
/** The breaker never opens, because each page should show why the service can't be reached. */
const breaker = { failuresMax: Number.POSITIVE_INFINITY };
/** A reason has at most a few hundred characters. */
const bodyBytesMax = 8 * 1024;
/** A page gets a message at least this often. If three are missing, it knows that its connection is broken. */
const beatMs = 10_000;
/** If a page is this far behind, its connection is closed. It gets the missed events when it connects again. */
const unreadBytesMax = 4 * 1024 * 1024;
/** A shorter delay of deliveries is not worth a line on the page. */
const shownBehindMs = 5_000;
/** Each relay has a connection to the service. Nobody watches more namespaces on one machine. */
const relaysMax = 20;

/** No other hosts, no inline scripts or styles, no frames. Only the templates of lit-html make markup. */
const pagePolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  'trusted-types lit-html',
].join('; ');

const headers: Readonly<Record<string, string>> = {
  'content-security-policy': pagePolicy,
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  // The content changes all the time, and must not be stored on a disk.
  'cache-control': 'no-store',
};

/** The status for each error code of the service. All other codes count as failures of the service. */
const statusOf: Readonly<Record<string, number>> = {
  'invalid-request': 400,
  'not-found': 404,
  'lease-lost': 409,
  unavailable: 503,
};

export class Console {
  readonly #options: ConsoleOptions;
  readonly #access: TokenAccess;
  readonly #clients = new Map<string, Holdfast>();
  readonly #relays = new Map<string, EventRelay>();
  readonly #streams = new Set<ServerResponse>();
  #isClosed = false;

  constructor(options: ConsoleOptions) {
    this.#options = options;
    this.#access = new TokenAccess(options.token);
  }

  /** True if the request was for the console. It is then answered here. */
  handle(request: IncomingMessage, response: ServerResponse): boolean {
    const url = new URL(`http://console${request.url ?? '/'}`);
    if (url.pathname !== '/console' && !url.pathname.startsWith('/console/')) return false;
    if (this.#isClosed) {
      refuseForGood(response);
      return true;
    }
    this.#answer(request, response, url).catch((error: unknown) => {
      const message = error instanceof Error ? error.message : String(error);
      if (!response.headersSent) sendJson(response, 500, { error: { code: 'internal', message } });
      else response.destroy();
    });
    return true;
  }

  close(): void {
    this.#isClosed = true;
    for (const relay of this.#relays.values()) relay.close();
    for (const stream of this.#streams) stream.end();
    for (const client of this.#clients.values()) void client.close();
  }

  async #answer(request: IncomingMessage, response: ServerResponse, url: URL): Promise<void> {
    const foreign = checkOrigin(request);
    if (foreign !== undefined) return refuse(response, foreign);
    const parts = url.pathname
      .split('/')
      .slice(2)
      .map((part) => decode(part));
    if (parts[0] === 'api') return this.#answerApi(request, response, parts.slice(1), url.searchParams);
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      return sendJson(response, 405, { error: { code: 'method-not-allowed', message: 'The page is read by GET.' } });
    }
    const assets = await loadAssets();
    const name = parts.join('/');
    if (name !== '') {
      const asset = assets.get(name);
      if (asset === undefined || name === 'page.html') return notFound(response);
      return sendAsset(response, 200, asset);
    }
    // The page itself has no secrets. Without the token, it says what to do.
    const cookie = this.#access.admit(request, url.searchParams.get('token'));
    const admitted = cookie !== undefined || this.#access.check(request) === undefined;
    const more: Record<string, string> = cookie === undefined ? {} : { 'set-cookie': cookie };
    sendAsset(response, admitted ? 200 : 401, assets.get('page.html') as Asset, more);
  }

  async #answerApi(
    request: IncomingMessage,
    response: ServerResponse,
    [namespace = '', ...path]: readonly string[],
    query: URLSearchParams,
  ): Promise<void> {
    const refusal = this.#access.check(request);
    if (refusal !== undefined) return refuse(response, refusal);
    if (namespace === 'about' && path.length === 0) return sendJson(response, 200, this.#about());
    const changes = request.method !== 'GET';
    if (changes && !(this.#options.mayChange && request.method === 'POST')) {
      return sendJson(response, 403, { error: { code: 'read-only', message: permission.refusal } });
    }
    try {
      const client = this.#clientOf(namespace);
      if (path[0] === 'events') return this.#stream(response, namespace, query.get('after'));
      const gone = new AbortController();
      response.on('close', () => gone.abort());
      const body = changes ? { body: await readJson(request) } : {};
      const answer = ask({ client, path, query, signal: gone.signal, ...body });
      if (answer === undefined) return notFound(response);
      // `at` is the time of this answer, by the clock of the events.
      const at = Date.now();
      const behindMs = this.#options.behindMs?.() ?? 0;
      sendJson(response, 200, { ...(await answer), at, ...(behindMs < shownBehindMs ? {} : { behindMs }) });
    } catch (error) {
      if (response.destroyed) return;
      if (!isHoldfastError(error)) throw error;
      const { code, message } = error;
      const why = error.cause instanceof Error ? ` (${reasonOf(rootCauseOf(error))})` : '';
      sendJson(response, statusOf[code] ?? 502, { error: { code, message: `${message}${why}` } });
    }
  }

  #about(): object {
    const { namespace, namespaces, serviceUrl, auth, mayChange } = this.#options;
    const known = [...new Set([namespace, ...(namespaces?.() ?? []), ...this.#relays.keys()])].sort();
    return { namespace, namespaces: known, serviceUrl, auth, mayChange };
  }

  #clientOf(namespace: string): Holdfast {
    const known = this.#clients.get(namespace);
    if (known !== undefined) return known;
    const client = this.#open(this.#options.transport, namespace);
    this.#clients.set(namespace, client);
    return client;
  }

  #open(transport: Transport, namespace: string): Holdfast {
    return new Holdfast({ transport, namespace, patience, breaker });
  }

  #stream(response: ServerResponse, namespace: string, after: string | null): void {
    response.writeHead(200, { ...headers, 'content-type': 'text/event-stream', 'x-accel-buffering': 'no' });
    this.#streams.add(response);
    const send = (message: Message) => {
      if (response.writableLength > unreadBytesMax) response.destroy();
      else response.write(frameOf(message));
    };
    const beat = setInterval(() => response.write('event: beat\ndata: 0\n\n'), beatMs);
    const leave = this.#relayOf(namespace).subscribe(send, after);
    response.on('close', () => {
      clearInterval(beat);
      leave();
      this.#streams.delete(response);
    });
  }

  #relayOf(namespace: string): EventRelay {
    const known = this.#relays.get(namespace);
    if (known !== undefined) return known;
    if (this.#relays.size >= relaysMax) {
      const idle = [...this.#relays].find(([, relay]) => relay.isIdle) ?? [...this.#relays][0];
      idle?.[1].close();
      this.#relays.delete(idle?.[0] ?? '');
    }
    const open = (transport: Transport) => this.#open(transport, namespace);
    const relay = new EventRelay(this.#options.transport, open, randomBytes(6).toString('hex'));
    this.#relays.set(namespace, relay);
    return relay;
  }
}

const frameOf = (message: Message): string =>
  `event: ${message.kind}\n${message.kind === 'events' ? `id: ${message.id}\n` : ''}data: ${JSON.stringify(message.body)}\n\n`;

async function readJson(request: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes <= bodyBytesMax) chunks.push(chunk);
  }
  try {
    return bytes > bodyBytesMax ? {} : JSON.parse(Buffer.concat(chunks).toString('utf8'));
  } catch {
    return {};
  }
}

function sendAsset(response: ServerResponse, status: number, { type, body, isGzip }: Asset, more: object = {}): void {
  const encoding = isGzip ? { 'content-encoding': 'gzip' } : {};
  const of = { 'content-type': type, 'content-length': body.length };
  response.writeHead(status, { ...headers, ...more, ...encoding, ...of });
  response.end(body);
}

function sendJson(response: ServerResponse, status: number, body: object): void {
  if (response.destroyed) return;
  const bytes = Buffer.from(JSON.stringify(body));
  response.writeHead(status, { ...headers, 'content-type': 'application/json', 'content-length': bytes.length });
  response.end(bytes);
}

const refuse = (response: ServerResponse, { status, code, message }: Refusal): void =>
  sendJson(response, status, { error: { code, message } });

/** A page connects again at once, on its open connection. A stream on it would keep the process alive. */
function refuseForGood(response: ServerResponse): void {
  response.setHeader('connection', 'close');
  sendJson(response, 503, { error: { code: 'unavailable', message: 'The console is stopping.' } });
}

const notFound = (response: ServerResponse): void =>
  sendJson(response, 404, { error: { code: 'not-found', message: 'There is nothing at this address.' } });
