import type { WebSocket } from 'ws';
import type { Connections } from '../notify/ports.ts';
import type { EpochMs } from '../time/clock.ts';

export const defaultWebsocketLimits = {
  /** API Gateway's limits: the size of a message and of a frame, the idle time and the longest life of a connection. */
  messageBytesMax: 128 * 1024,
  frameBytesMax: 32 * 1024,
  idleMs: 600_000,
  lifeMs: 7_200_000,
  /** The longest that a WebSocket API waits for a Lambda function. */
  answerMs: 29_000,
  /** A peer that vanished is found at the second ping: within a minute, well before its connection counts as idle. */
  heartbeatMs: 30_000,
  /** Eight messages of the largest size. A watcher that is further behind than this does not read. */
  bufferedBytesMax: 1024 * 1024,
  /** How long a peer may take to answer the closing frame. */
  closingMs: 5_000,
} as const;

export type WebsocketLimits = { readonly [Name in keyof typeof defaultWebsocketLimits]: number };

/**
 * RFC 6455: the endpoint is going away. API Gateway sends this code to connections that were idle or open for too long.
 */
export const goingAwayCode = 1001;
export const tooLargeCode = 1009;

/** The facts about a connection that never change. */
export interface ConnectionFacts {
  readonly connectionId: string;
  readonly connectedAt: EpochMs;
}

export class Connection {
  readonly facts: ConnectionFacts;
  readonly socket: WebSocket;
  lastMessageAtMs: number;
  isAwaitingPong = false;
  /** True after the peer broke a limit and was told so. Everything that still arrives is then ignored. */
  isRefused = false;
  /** Messages that a handler has not answered yet. */
  unanswered = 0;
  /** The last handler call of this connection. Its calls run one after the other. */
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
    // While a handler works, the socket is paused, so a pong can't be read.
    if (this.unanswered > 0) return;
    if (this.isAwaitingPong) {
      this.socket.terminate();
      return;
    }
    this.isAwaitingPong = true;
    this.socket.ping();
  }
}

/**
 * The open connections by id. In AWS, the ApiGatewayManagementApi does the same. Made before the gateway, because the
 * handlers that post to connections need it.
 */
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

  /**
   * Resolves when the message is accepted for sending, not when it is read: one slow watcher must not delay the others.
   * `gone` is the 410 of the management API. A connection also counts as gone until its `$connect` has ended.
   */
  async post(connectionId: string, text: string): Promise<'sent' | 'gone'> {
    return this.#byId.get(connectionId)?.send(text, this.limits) ?? 'gone';
  }

  close(connectionId: string): void {
    // 1000 is a normal end. Clients see the same code after DeleteConnection.
    this.#byId.get(connectionId)?.socket.close(1000);
  }
}
