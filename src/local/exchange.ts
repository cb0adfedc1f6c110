import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import type { APIGatewayProxyEventV2 } from 'aws-lambda';
import { epochMs } from '../time/clock.ts';
import { withinLimit } from '../tools/time-limit.ts';
import type { AccessRule } from './access.ts';
import {
  type HttpAnswer,
  handlerFailedAnswer,
  handlerTimedOutAnswer,
  problemAnswer,
  toHttpAnswer,
} from './http-answer.ts';
import { type RequestHeaders, readHeaders, toHttpEvent } from './http-event.ts';
import { Invocation, type LocalContext } from './invocation.ts';
import { createGatewayId } from './request-id.ts';
import type { RouteTable } from './route-table.ts';

/** A Lambda handler behind an HTTP API: what it returns is read as API Gateway reads it. */
export type HttpHandler = (event: APIGatewayProxyEventV2, context: LocalContext) => Promise<unknown>;

/** Powertools' logger and the console both fit. Paths are never logged: some hold a session's id, which is secret. */
export interface GatewayLogger {
  error(message: string, cause: unknown): void;
}

export interface ExchangeOptions {
  readonly routes: RouteTable;
  readonly handler: HttpHandler;
  readonly access: AccessRule;
  readonly logger: GatewayLogger;
  readonly bodyBytesMax: number;
  readonly answerMs: number;
}

interface Running {
  readonly socket: Duplex;
  readonly done: Promise<void>;
}

export const toSourceIp = (remoteAddress: string | undefined): string =>
  // A dual-stack socket shows IPv4 clients in IPv6 notation; API Gateway shows them as they are.
  remoteAddress?.startsWith('::ffff:') === true ? remoteAddress.slice(7) : (remoteAddress ?? '');

/** HTTP requests on their way through a handler, from the request line to the last byte of the answer. */
export class Exchanges {
  readonly #options: ExchangeOptions;
  readonly #running = new Set<Running>();
  /** Once set, each answer is the last of its connection, so that a closing server runs dry. */
  isClosing = false;

  constructor(options: ExchangeOptions) {
    this.#options = options;
  }

  /** True while a handler works for this connection: anything written to it now would be taken for that answer. */
  isRunningOn(socket: Duplex): boolean {
    for (const running of this.#running) if (running.socket === socket) return true;
    return false;
  }

  async settle(limitMs: number): Promise<void> {
    await withinLimit(Promise.all(Array.from(this.#running, (running) => running.done)), limitMs);
  }

  receive(request: IncomingMessage, response: ServerResponse): void {
    const requestId = createGatewayId();
    const headers = readHeaders(request.rawHeaders);
    const refusal = this.#options.access(headers.values);
    if (refusal !== undefined) {
      this.#send(response, problemAnswer(refusal, requestId));
      return;
    }
    const length = headers.values['content-length'];
    if (length === undefined && headers.values['transfer-encoding'] === undefined) {
      this.#start(request, response, headers, undefined, requestId);
    } else if (length !== undefined && Number(length) > this.#options.bodyBytesMax) {
      this.#refuseBody(request, response, requestId);
    } else {
      this.#readBody(request, response, headers, requestId);
    }
  }

  #readBody(request: IncomingMessage, response: ServerResponse, headers: RequestHeaders, requestId: string): void {
    const chunks: Buffer[] = [];
    let bytes = 0;
    const onData = (chunk: Buffer): void => {
      bytes += chunk.length;
      if (bytes <= this.#options.bodyBytesMax) {
        chunks.push(chunk);
        return;
      }
      // A chunked body tells its length only by arriving. What has come is dropped at once.
      chunks.length = 0;
      request.off('data', onData);
      request.off('end', onEnd);
      this.#refuseBody(request, response, requestId);
    };
    const onEnd = (): void => {
      const body = chunks.length === 1 ? chunks[0] : Buffer.concat(chunks, bytes);
      this.#start(request, response, headers, body, requestId);
    };
    request.on('data', onData);
    request.on('end', onEnd);
  }

  /**
   * The rest of a refused body is read and thrown away, within the server's time limit for a request: closing with
   * unread bytes resets the connection, and the client would see that instead of the 413.
   */
  #refuseBody(request: IncomingMessage, response: ServerResponse, requestId: string): void {
    request.resume();
    const problem = {
      status: 413,
      title: 'Request Entity Too Large',
      code: 'too-large',
      detail: `A body has at most ${this.#options.bodyBytesMax} bytes.`,
    };
    this.#send(response, problemAnswer(problem, requestId));
  }

  #start(
    request: IncomingMessage,
    response: ServerResponse,
    headers: RequestHeaders,
    body: Buffer | undefined,
    requestId: string,
  ): void {
    const receivedAt = epochMs(Date.now());
    const event = toHttpEvent(
      {
        method: request.method ?? 'GET',
        target: request.url ?? '/',
        httpVersion: request.httpVersion,
        sourceIp: toSourceIp(request.socket.remoteAddress),
        headers,
        body,
      },
      this.#options.routes,
      requestId,
      receivedAt,
    );
    const invocation = new Invocation(requestId, receivedAt + this.#options.answerMs);
    // 'close' comes for every response. Before 'finish' it means that the connection broke; a connection that is kept
    // alive stays open behind its response and closes only that.
    response.on('close', () => {
      if (!response.writableFinished) invocation.markClientGone();
    });
    const running: Running = {
      socket: request.socket,
      done: this.#run(event, invocation, response).finally(() => this.#running.delete(running)),
    };
    this.#running.add(running);
  }

  async #run(event: APIGatewayProxyEventV2, invocation: Invocation, response: ServerResponse): Promise<void> {
    const { handler, logger, answerMs } = this.#options;
    const timer = setTimeout(() => {
      logger.error(`The handler of ${event.routeKey} did not answer within ${answerMs} ms.`, undefined);
      this.#send(response, handlerTimedOutAnswer(invocation.awsRequestId));
      invocation.markClientGone();
    }, answerMs);
    try {
      const answer = toHttpAnswer(await handler(event, invocation));
      this.#send(response, answer);
    } catch (error) {
      logger.error(`The handler of ${event.routeKey} failed.`, error);
      this.#send(response, handlerFailedAnswer(invocation.awsRequestId));
    } finally {
      clearTimeout(timer);
    }
  }

  /** Sends once: what comes after a timeout, or to a client that left, has no reader. */
  #send(response: ServerResponse, answer: HttpAnswer): void {
    if (response.headersSent || response.destroyed) return;
    if (this.isClosing) response.shouldKeepAlive = false;
    response.writeHead(answer.statusCode, answer.headers);
    response.end(answer.body);
  }
}
