import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Answer, Handler } from '../http/handler.ts';
import { readHeaders, requestOfNode } from '../http/node-http.ts';
import { withinLimit } from '../tools/time-limit.ts';
import type { AccessRule } from './access.ts';
import { failedAnswer, framedHeaders, refusalAnswer, timedOutAnswer } from './http-answer.ts';
import { createGatewayId } from './request-id.ts';

/**
 * Both Powertools' logger and the console fit. Paths are never logged, because some contain the secret id of a session.
 */
export interface GatewayLogger {
  error(message: string, cause: unknown): void;
}

export interface ExchangeOptions {
  readonly handler: Handler;
  readonly access: AccessRule;
  readonly logger: GatewayLogger;
  readonly bodyBytesMax: number;
  readonly answerMs: number;
}

interface Running {
  readonly socket: Duplex;
  readonly done: Promise<void>;
}

type Headers = Readonly<Record<string, string>>;

/** HTTP requests in progress, from the request line to the last byte of the answer. */
export class Exchanges {
  readonly #options: ExchangeOptions;
  readonly #running = new Set<Running>();
  /** If true, each answer is the last one of its connection, so that a closing server loses its connections. */
  isClosing = false;

  constructor(options: ExchangeOptions) {
    this.#options = options;
  }

  /** True while the handler works for this connection. Anything written to it now would look like that answer. */
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
    const refusal = this.#options.access(headers);
    if (refusal !== undefined) {
      this.#send(response, refusalAnswer(refusal, requestId));
      return;
    }
    const length = headers['content-length'];
    if (length === undefined && headers['transfer-encoding'] === undefined) {
      this.#start(request, response, headers, undefined, requestId);
    } else if (length !== undefined && Number(length) > this.#options.bodyBytesMax) {
      this.#refuseBody(request, response, requestId);
    } else {
      this.#readBody(request, response, headers, requestId);
    }
  }

  #readBody(request: IncomingMessage, response: ServerResponse, headers: Headers, requestId: string): void {
    const chunks: Buffer[] = [];
    let bytes = 0;
    const onData = (chunk: Buffer): void => {
      bytes += chunk.length;
      if (bytes <= this.#options.bodyBytesMax) {
        chunks.push(chunk);
        return;
      }
      // A chunked body shows its length only as it arrives. The part that has arrived is dropped at once.
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
   * Reads and drops the rest of a refused body, within the server's time limit for a request. If the connection were
   * closed with unread bytes, it would be reset, and the client would see that instead of the 413.
   */
  #refuseBody(request: IncomingMessage, response: ServerResponse, requestId: string): void {
    request.resume();
    const refusal = {
      status: 413,
      title: 'Request Entity Too Large',
      code: 'too-large',
      detail: `A body has at most ${this.#options.bodyBytesMax} bytes.`,
    };
    this.#send(response, refusalAnswer(refusal, requestId));
  }

  #start(
    request: IncomingMessage,
    response: ServerResponse,
    headers: Headers,
    body: Buffer | undefined,
    requestId: string,
  ): void {
    const running: Running = {
      socket: request.socket,
      done: this.#run(request, response, headers, body, requestId).finally(() => this.#running.delete(running)),
    };
    this.#running.add(running);
  }

  async #run(
    { method = 'GET', url: target = '/' }: IncomingMessage,
    response: ServerResponse,
    headers: Headers,
    body: Buffer | undefined,
    id: string,
  ): Promise<void> {
    const { handler, logger, answerMs } = this.#options;
    // Aborts when nobody will read the answer any more: the connection broke, or a timeout was already answered.
    const gone = new AbortController();
    // 'close' comes for every response. Before 'finish' it means that the connection broke. After 'finish' it only ends
    // the response: a connection that is kept alive stays open.
    response.on('close', () => {
      if (!response.writableFinished) gone.abort();
    });
    const request = requestOfNode({ id, method, target, headers, body, gone: () => gone.signal });
    const name = request.operation ?? 'an unknown route';
    const timer = setTimeout(() => {
      logger.error(`${name} was not answered within ${answerMs} ms.`, undefined);
      this.#send(response, timedOutAnswer(id));
      gone.abort();
    }, answerMs);
    try {
      this.#send(response, await handler(request));
    } catch (error) {
      logger.error(`${name} failed.`, error);
      this.#send(response, failedAnswer(id));
    } finally {
      clearTimeout(timer);
    }
  }

  /** Sends only the first answer. After a timeout, or if the client left, nobody reads a second one. */
  #send(response: ServerResponse, answer: Answer): void {
    if (response.headersSent || response.destroyed) return;
    if (this.isClosing) response.shouldKeepAlive = false;
    response.writeHead(answer.status, framedHeaders(answer));
    response.end(answer.body ?? '');
  }
}
