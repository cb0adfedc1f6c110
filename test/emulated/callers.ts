import { setTimeout as pause } from 'node:timers/promises';
import { WebSocket } from 'ws';
import { type Route, routes } from '../../src/contract/operations.ts';

export interface Answer {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: answers are read by what the contract says of them.
  readonly body: any;
}

/** A function's first call starts a process, which takes seconds on a busy machine. */
const requestMsMax = 60_000;

/** Calls the deployed HTTP API, and remembers which routes it called. */
export class Caller {
  readonly #url: string;
  readonly #called = new Set<string>();

  constructor(url: string) {
    this.#url = url;
  }

  async call(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Answer> {
    const route = routes.find((one) => one.method === method && patternOf(one).test(path));
    if (route !== undefined) this.#called.add(route.operation);
    const response = await fetch(`${this.#url}${path}`, {
      method,
      headers: { ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(requestMsMax),
    });
    const text = await response.text();
    return { status: response.status, body: text.startsWith('{') ? JSON.parse(text) : text };
  }

  get(path: string): Promise<Answer> {
    return this.call('GET', path);
  }

  post(path: string, body: unknown = {}): Promise<Answer> {
    return this.call('POST', path, body);
  }

  uncalled(): string[] {
    return routes.map(({ operation }) => operation).filter((operation) => !this.#called.has(operation));
  }
}

/** The longest path that fits is the route, as API Gateway chooses; queries do not count. */
const patternOf = ({ path }: Route): RegExp => new RegExp(`^${path.replaceAll(/\{\w+\}/g, '[^/?]+')}(\\?.*)?$`);

/** AWS sends text. The emulator sends what a function posts as binary frames, which the SDK is right to ignore. */
export class TextSocket extends WebSocket {
  constructor(url: string, options: { headers?: Record<string, string> } = {}) {
    super(url, options);
  }

  override emit(name: string | symbol, ...args: unknown[]): boolean {
    return super.emit(name, ...(name === 'message' ? [args[0], false] : args));
  }
}

/** A WebSocket and what came over it. */
export class Socket {
  // biome-ignore lint/suspicious/noExplicitAny: messages are read by what the contract says of them.
  readonly messages: any[] = [];
  readonly #socket: WebSocket;

  constructor(url: string) {
    this.#socket = new TextSocket(url);
    this.#socket.on('message', (data) => this.messages.push(JSON.parse(String(data))));
    this.#socket.on('error', (error) => this.messages.push({ type: 'error', error: error.message }));
  }

  async message(type: string): Promise<Record<string, unknown>> {
    return eventually(`a message ${type} on the socket`, () => this.messages.find((message) => message.type === type));
  }

  onOpen(run: () => void): void {
    this.#socket.on('open', run);
  }

  send(text: string): void {
    this.#socket.send(text);
  }

  close(): void {
    this.#socket.close();
  }
}

/** Asks until there is an answer. Streams, queues and cold functions take their time here: half a minute is plenty. */
export async function eventually<T>(what: string, ask: () => Promise<T | undefined> | T | undefined): Promise<T> {
  const giveUpAt = Date.now() + 30_000;
  for (;;) {
    const found = await ask();
    if (found !== undefined && found !== false) return found;
    if (Date.now() > giveUpAt) throw new Error(`Expected ${what} within 30 s.`);
    await pause(200);
  }
}
