import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { type WebSocket, WebSocketServer } from 'ws';
import { epochMs } from '../time/clock.ts';
import { type Limited, withinLimit } from '../tools/time-limit.ts';
import type { AccessRule } from './access.ts';
import { Connection, type ConnectionTable, goingAwayCode, tooLargeCode } from './connections.ts';
import { type GatewayLogger, toSourceIp } from './exchange.ts';
import { FrameSizeGuard } from './frame-size.ts';
import {
  formatRawAnswer,
  type HttpAnswer,
  handlerFailedAnswer,
  handlerTimedOutAnswer,
  InvalidAnswerError,
  problemAnswer,
  toHttpAnswer,
} from './http-answer.ts';
import { readHeaders, splitTarget } from './http-event.ts';
import { Invocation, type LocalContext } from './invocation.ts';
import { createGatewayId } from './request-id.ts';
import {
  type ConnectionFacts,
  toConnectEvent,
  toDisconnectEvent,
  toMessageEvent,
  type WebsocketEvent,
} from './websocket-event.ts';

/** A Lambda handler behind a WebSocket API, for the routes `$connect`, `$default` and `$disconnect`. */
export type WebsocketHandler = (event: WebsocketEvent, context: LocalContext) => Promise<unknown>;

export interface WebsocketOptions {
  readonly handler: WebsocketHandler;
  readonly connections: ConnectionTable;
}

/** Deployed, the WebSocket API has a URL of its own; locally it shares the HTTP server, at this path. */
export const watchPath = '/v1/watch';

/** A WebSocket API has no implicit success: a result without a status refuses the connection. */
function readConnectAnswer(result: unknown): HttpAnswer {
  if (typeof result === 'object' && result !== null && 'statusCode' in result) return toHttpAnswer(result);
  throw new InvalidAnswerError('The $connect handler must return an object with a statusCode.');
}

function readReply(result: unknown): string | undefined {
  if (typeof result !== 'object' || result === null || !('body' in result)) return undefined;
  return typeof result.body === 'string' && result.body !== '' ? result.body : undefined;
}

/** The WebSocket side of the gateway: connections come in by `upgrade` and leave by a `$disconnect`. */
export class Websockets {
  readonly #handler: WebsocketHandler;
  readonly #connections: ConnectionTable;
  readonly #access: AccessRule;
  readonly #logger: GatewayLogger;
  readonly #server: WebSocketServer;
  /** Calls of the handler, and connections up to the end of their `$disconnect`. */
  readonly #running = new Set<Promise<unknown>>();
  #heartbeat: NodeJS.Timeout | undefined;
  #isClosing = false;

  constructor(options: WebsocketOptions, access: AccessRule, logger: GatewayLogger) {
    this.#handler = options.handler;
    this.#connections = options.connections;
    this.#access = access;
    this.#logger = logger;
    const serverOptions = {
      noServer: true,
      clientTracking: false,
      // API Gateway does not compress either, and a compressed message could unpack to far more than it weighs.
      perMessageDeflate: false,
      maxPayload: this.#connections.limits.messageBytesMax,
      closeTimeout: this.#connections.limits.goodbyeMs,
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
    // Until `ws` takes over, nobody else listens for the errors of this socket, and an unheard one ends the process.
    const onError = (): void => void socket.destroy();
    socket.on('error', onError);
    const requestId = createGatewayId();
    const refusal = this.#access(readHeaders(request.rawHeaders).values);
    if (refusal !== undefined) {
      this.#refuse(socket, formatRawAnswer(problemAnswer(refusal, requestId)));
      return;
    }
    const facts: ConnectionFacts = {
      connectionId: createGatewayId(),
      connectedAt: epochMs(Date.now()),
      sourceIp: toSourceIp((socket as Socket).remoteAddress),
    };
    const refused = await this.#connect(facts, request, requestId);
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
      // The handler knows of a connection that never came to be (the client left, or its handshake was wrong).
      if (this.#isClosing) socket.destroy();
      await this.#disconnect(facts, 1006, '');
    }
  }

  /** Tells every peer that the service goes away. Each connection then ends with its own `$disconnect`. */
  close(): void {
    this.#isClosing = true;
    clearInterval(this.#heartbeat);
    for (const connection of this.#connections) connection.socket.close(goingAwayCode, 'Going away');
  }

  async settle(limitMs: number): Promise<void> {
    await withinLimit(Promise.allSettled(this.#running), limitMs);
  }

  /** Asks the handler; what comes back, if anything, is the refusal as it goes onto the wire. */
  async #connect(facts: ConnectionFacts, request: IncomingMessage, requestId: string): Promise<Buffer | undefined> {
    try {
      const event = toConnectEvent(facts, { target: request.url ?? '/', rawHeaders: request.rawHeaders });
      const outcome = await this.#call(event);
      if (outcome.kind === 'late') return formatRawAnswer(handlerTimedOutAnswer(requestId));
      const answer = readConnectAnswer(outcome.value);
      return answer.statusCode >= 400 ? formatRawAnswer(answer) : undefined;
    } catch (error) {
      this.#logger.error('The handler of $connect failed.', error);
      return formatRawAnswer(handlerFailedAnswer(requestId));
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

    const guard = new FrameSizeGuard(limits.frameBytesMax);
    // Before `ws` sees the bytes: a frame that is too large must not get as far as a message.
    socket.prependListener('data', (chunk: Buffer) => {
      if (connection.isRefused || guard.isWithin(chunk)) return;
      connection.isRefused = true;
      webSocket.close(tooLargeCode, 'Frame too large');
    });
    webSocket.on('message', (bytes: Buffer, isBinary) => this.#receive(connection, bytes, isBinary));
    webSocket.on('pong', () => {
      connection.isAwaitingPong = false;
    });
    // `ws` closes a connection that erred by itself; 'close' follows and says all that is of interest.
    webSocket.on('error', () => undefined);
    const farewell = new Promise<void>((resolve) => {
      webSocket.once('close', (code, reason) => {
        this.#connections.remove(connection);
        resolve(connection.tail.then(() => this.#disconnect(connection.facts, code, reason.toString())));
      });
    });
    this.#running.add(farewell);
    void farewell.finally(() => this.#running.delete(farewell));
  }

  #checkAll(): void {
    const now = epochMs(Date.now());
    for (const connection of this.#connections) connection.check(now, this.#connections.limits);
  }

  /**
   * One message of a connection at a time, in order. Nothing is read from the socket in the meantime, so a client that
   * sends faster than the handler answers fills its own buffers, not this process.
   */
  #receive(connection: Connection, bytes: Buffer, isBinary: boolean): void {
    if (connection.isRefused) return;
    connection.lastMessageAtMs = Date.now();
    connection.isAwaitingPong = false;
    connection.unanswered += 1;
    connection.socket.pause();
    connection.tail = connection.tail.then(async () => {
      await this.#answer(connection, bytes, isBinary);
      connection.unanswered -= 1;
      if (connection.unanswered === 0) connection.socket.resume();
    });
  }

  async #answer(connection: Connection, bytes: Buffer, isBinary: boolean): Promise<void> {
    const { facts } = connection;
    const event = toMessageEvent(facts, bytes, isBinary, epochMs(Date.now()));
    try {
      const outcome = await this.#call(event);
      if (outcome.kind === 'late') throw new Error(`No answer within ${this.#connections.limits.answerMs} ms.`);
      const reply = readReply(outcome.value);
      if (reply !== undefined) connection.send(reply, this.#connections.limits);
    } catch (error) {
      this.#logger.error('The handler of $default failed.', error);
      // The words in which API Gateway tells a WebSocket client.
      const { connectionId } = facts;
      const { requestId } = event.requestContext;
      const failure = JSON.stringify({ message: 'Internal server error', connectionId, requestId });
      connection.send(failure, this.#connections.limits);
    }
  }

  async #disconnect(facts: ConnectionFacts, code: number, reason: string): Promise<void> {
    try {
      await this.#call(toDisconnectEvent(facts, code, reason, epochMs(Date.now())));
    } catch (error) {
      this.#logger.error('The handler of $disconnect failed.', error);
    }
  }

  async #call(event: WebsocketEvent): Promise<Limited<unknown>> {
    const { answerMs } = this.#connections.limits;
    const invocation = new Invocation(event.requestContext.requestId, event.requestContext.requestTimeEpoch + answerMs);
    const work = this.#handler(event, invocation);
    this.#running.add(work);
    try {
      const outcome = await withinLimit(work, answerMs);
      if (outcome.kind === 'late') invocation.markClientGone();
      return outcome;
    } finally {
      this.#running.delete(work);
    }
  }
}
