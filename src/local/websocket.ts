import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { type WebSocket, WebSocketServer } from 'ws';
import { readHeaders, readQuery, splitTarget } from '../http/node-http.ts';
import { epochMs } from '../time/clock.ts';
import { type Limited, withinLimit } from '../tools/time-limit.ts';
import type { WebsocketHandler } from '../websocket/handler.ts';
import type { SocketRule } from './access.ts';
import { Connection, type ConnectionFacts, type ConnectionTable, goingAwayCode, tooLargeCode } from './connections.ts';
import type { GatewayLogger } from './exchange.ts';
import { FrameSizeCheck } from './frame-size.ts';
import { failedAnswer, formatRawAnswer, refusalAnswer, timedOutAnswer } from './http-answer.ts';
import { createGatewayId } from './request-id.ts';

export interface WebsocketOptions {
  readonly handler: WebsocketHandler;
  readonly connections: ConnectionTable;
}

/** In AWS the WebSocket API has its own URL. Locally it shares the HTTP server, at this path. */
export const watchPath = '/v1/watch';

/** The WebSocket side of the gateway. Connections come in through `upgrade`, and the handler learns of each end. */
export class Websockets {
  readonly #handler: WebsocketHandler;
  readonly #connections: ConnectionTable;
  readonly #access: SocketRule;
  readonly #logger: GatewayLogger;
  readonly #server: WebSocketServer;
  /** Handler calls in progress, and connections whose end the handler does not know yet. */
  readonly #running = new Set<Promise<unknown>>();
  #heartbeat: NodeJS.Timeout | undefined;
  #isClosing = false;

  constructor(options: WebsocketOptions, access: SocketRule, logger: GatewayLogger) {
    this.#handler = options.handler;
    this.#connections = options.connections;
    this.#access = access;
    this.#logger = logger;
    const serverOptions = {
      noServer: true,
      clientTracking: false,
      // API Gateway does not compress either. A small compressed message could also unpack to a very large one.
      perMessageDeflate: false,
      maxPayload: this.#connections.limits.messageBytesMax,
      closeTimeout: this.#connections.limits.closingMs,
    };
    this.#server = new WebSocketServer(serverOptions);
  }

  accepts(request: IncomingMessage): boolean {
    return (
      request.method === 'GET' &&
      request.headers.upgrade?.toLowerCase() === 'websocket' &&
      splitTarget(request.url ?? '/').encodedPath === watchPath
    );
  }

  async upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    // Until `ws` takes over, nothing else listens for errors of this socket, and an unhandled error would end the
    // process.
    const onError = (): void => void socket.destroy();
    socket.on('error', onError);
    const requestId = createGatewayId();
    const query = readQuery(splitTarget(request.url ?? '/').rawQueryString);
    const refusal = this.#access(readHeaders(request.rawHeaders), query.ticket !== undefined);
    if (refusal !== undefined) {
      this.#refuse(socket, formatRawAnswer(refusalAnswer(refusal, requestId)));
      return;
    }
    const facts: ConnectionFacts = {
      connectionId: createGatewayId(),
      connectedAt: epochMs(Date.now()),
    };
    const refused = await this.#connect(facts, query, requestId);
    if (refused !== undefined) {
      this.#refuse(socket, refused);
      return;
    }
    let isOpen = false;
    if (!this.#isClosing) {
      socket.off('error', onError);
      this.#server.handleUpgrade(request, socket, head, (webSocket) => {
        isOpen = true;
        this.#open(new Connection(facts, webSocket), socket);
      });
    }
    if (!isOpen) {
      // The handler was told of a connection that never opened, because the client left or its handshake was wrong.
      if (this.#isClosing) socket.destroy();
      await this.#disconnect(facts);
    }
  }

  /** Tells every peer that the service is going away. The handler learns of the end of each connection. */
  close(): void {
    this.#isClosing = true;
    clearInterval(this.#heartbeat);
    for (const connection of this.#connections) connection.socket.close(goingAwayCode, 'Going away');
  }

  async settle(limitMs: number): Promise<void> {
    await withinLimit(Promise.allSettled(this.#running), limitMs);
  }

  /** Asks the handler. Returns the refusal as bytes for the socket, or undefined if the connection is accepted. */
  async #connect(
    facts: ConnectionFacts,
    query: Readonly<Record<string, string>>,
    requestId: string,
  ): Promise<Buffer | undefined> {
    try {
      const outcome = await this.#call(this.#handler.connect({ requestId, ...facts, query }));
      if (outcome.kind === 'late') return formatRawAnswer(timedOutAnswer(requestId));
      return outcome.value.status >= 400 ? formatRawAnswer(outcome.value) : undefined;
    } catch (error) {
      this.#logger.error('Opening a connection failed.', error);
      return formatRawAnswer(failedAnswer(requestId));
    }
  }

  #refuse(socket: Duplex, answer: Buffer): void {
    socket.end(answer, () => socket.destroy());
  }

  #open(connection: Connection, socket: Duplex): void {
    const { limits } = this.#connections;
    const webSocket: WebSocket = connection.socket;
    this.#connections.add(connection);
    this.#heartbeat ??= setInterval(() => this.#checkAll(), limits.heartbeatMs).unref();

    const check = new FrameSizeCheck(limits.frameBytesMax);
    // Runs before `ws` sees the bytes: a frame that is too large must not become a message.
    socket.prependListener('data', (chunk: Buffer) => {
      if (connection.isRefused || check.isWithin(chunk)) return;
      connection.isRefused = true;
      webSocket.close(tooLargeCode, 'Frame too large');
    });
    webSocket.on('message', () => this.#receive(connection));
    webSocket.on('pong', () => {
      connection.isAwaitingPong = false;
    });
    // `ws` itself closes a connection after an error. The 'close' event that follows has all that we need.
    webSocket.on('error', () => undefined);
    const disconnected = new Promise<void>((resolve) => {
      webSocket.once('close', () => {
        this.#connections.remove(connection);
        resolve(connection.tail.then(() => this.#disconnect(connection.facts)));
      });
    });
    this.#running.add(disconnected);
    void disconnected.finally(() => this.#running.delete(disconnected));
  }

  #checkAll(): void {
    const now = epochMs(Date.now());
    for (const connection of this.#connections) connection.check(now, this.#connections.limits);
  }

  /**
   * Handles one message of a connection at a time, in order. Meanwhile nothing is read from the socket. If a client
   * sends faster than the handler answers, its own buffers fill up, not this process.
   */
  #receive(connection: Connection): void {
    if (connection.isRefused) return;
    connection.lastMessageAtMs = Date.now();
    connection.isAwaitingPong = false;
    connection.unanswered += 1;
    connection.socket.pause();
    connection.tail = connection.tail.then(async () => {
      await this.#answer(connection);
      connection.unanswered -= 1;
      if (connection.unanswered === 0) connection.socket.resume();
    });
  }

  async #answer(connection: Connection): Promise<void> {
    const { connectionId } = connection.facts;
    try {
      const outcome = await this.#call(this.#handler.message(connectionId));
      if (outcome.kind === 'late') throw new Error(`No answer within ${this.#connections.limits.answerMs} ms.`);
      connection.send(outcome.value, this.#connections.limits);
    } catch (error) {
      this.#logger.error('Answering a message failed.', error);
      // API Gateway's own message to a WebSocket client.
      const failure = { message: 'Internal server error', connectionId, requestId: createGatewayId() };
      connection.send(JSON.stringify(failure), this.#connections.limits);
    }
  }

  async #disconnect({ connectionId }: ConnectionFacts): Promise<void> {
    try {
      await this.#call(this.#handler.disconnect(connectionId));
    } catch (error) {
      this.#logger.error('The end of a connection could not be handled.', error);
    }
  }

  async #call<T>(work: Promise<T>): Promise<Limited<T>> {
    this.#running.add(work);
    try {
      return await withinLimit(work, this.#connections.limits.answerMs);
    } finally {
      this.#running.delete(work);
    }
  }
}
