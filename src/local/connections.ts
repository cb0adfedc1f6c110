import type { WebSocket } from 'ws';
import type { EpochMs } from '../time/clock.ts';

export const defaultWebsocketLimits = {
  /** API Gateway's limits: a message, a frame of one, the silence that ends a connection, and its longest life. */
  messageBytesMax: 128 * 1024,
  frameBytesMax: 32 * 1024,
  idleMs: 600_000,
  lifeMs: 7_200_000,
  /** The longest that a WebSocket API waits for a Lambda function. */
  answerMs: 29_000,
  /** A peer that vanished without a word is found at the second ping: within a minute, well before it counts as idle. */
  heartbeatMs: 30_000,
  /** Eight messages of the largest size. A watcher that lags further behind than this is not reading. */
  bufferedBytesMax: 1024 * 1024,
  /** How long a closing peer may take for its part of the goodbye. */
  goodbyeMs: 5_000,
} as const;

export type WebsocketLimits = { readonly [Name in keyof typeof defaultWebsocketLimits]: number };

/** RFC 6455: the endpoint is going away. API Gateway closes with it when a connection was idle or lived too long. */
export const goingAwayCode = 1001;
export const tooLargeCode = 1009;

/** What the service may do with its WebSocket connections; deployed, the ApiGatewayManagementApi does it. */
export interface Connections {
  /**
   * Resolves when the message is accepted for sending, not when it was read: one slow watcher must not hold up the
   * others. `gone` is what the management API says by 410, also for a connection whose `$connect` has not ended yet.
   */
  post(connectionId: string, text: string): Promise<'sent' | 'gone'>;
  close(connectionId: string): void;
}

/** What is known of a connection from its beginning. */
export interface ConnectionFacts {
  readonly connectionId: string;
  readonly connectedAt: EpochMs;
}

/** One open connection. */
export class Connection {
  readonly facts: ConnectionFacts;
  readonly socket: WebSocket;
  lastMessageAtMs: number;
  isAwaitingPong = false;
  /** Once set, what still arrives is ignored: the peer broke a limit and has been told so. */
  isRefused = false;
  /** Messages that a handler has not answered yet. */
  unanswered = 0;
  /** The last of the handler calls of this connection, which run one after the other. */
  tail: Promise<void> = Promise.resolve();

  constructor(facts: ConnectionFacts, socket: WebSocket) {
    this.facts = facts;
    this.socket = socket;
    this.lastMessageAtMs = facts.connectedAt;
  }

  send(text: string, limits: WebsocketLimits): 'sent' | 'gone' {
    if (this.socket.readyState !== this.socket.OPEN) return 'gone';
    const bytes = Buffer.byteLength(text);
    if (bytes > limits.messageBytesMax) {
      throw new RangeError(`A message has at most ${limits.messageBytesMax} bytes, got ${bytes}.`);
    }
    if (this.socket.bufferedAmount + bytes > limits.bufferedBytesMax) {
      this.socket.terminate();
      return 'gone';
    }
    this.lastMessageAtMs = Date.now();
    this.socket.send(text);
    return 'sent';
  }

  /** Called at each heartbeat. */
  check(now: EpochMs, limits: WebsocketLimits): void {
    const isOver = now - this.facts.connectedAt >= limits.lifeMs || now - this.lastMessageAtMs >= limits.idleMs;
    if (isOver) {
      this.socket.close(goingAwayCode, 'Going away');
      return;
    }
    // While a handler works, the socket is paused and a pong could not be heard.
    if (this.unanswered > 0) return;
    if (this.isAwaitingPong) {
      this.socket.terminate();
      return;
    }
    this.isAwaitingPong = true;
    this.socket.ping();
  }
}

/** The open connections by id. Made before the gateway, because the handlers that post are made before it too. */
export class ConnectionTable implements Connections {
  readonly limits: WebsocketLimits;
  readonly #byId = new Map<string, Connection>();

  constructor(limits: Partial<WebsocketLimits> = {}) {
    this.limits = { ...defaultWebsocketLimits, ...limits };
  }

  get size(): number {
    return this.#byId.size;
  }

  add(connection: Connection): void {
    this.#byId.set(connection.facts.connectionId, connection);
  }

  remove(connection: Connection): void {
    this.#byId.delete(connection.facts.connectionId);
  }

  [Symbol.iterator](): IterableIterator<Connection> {
    return this.#byId.values();
  }

  async post(connectionId: string, text: string): Promise<'sent' | 'gone'> {
    return this.#byId.get(connectionId)?.send(text, this.limits) ?? 'gone';
  }

  close(connectionId: string): void {
    // 1000, a normal end: what DeleteConnection's clients see.
    this.#byId.get(connectionId)?.socket.close(1000);
  }
}

export const createConnections = (limits?: Partial<WebsocketLimits>): ConnectionTable => new ConnectionTable(limits);
