import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Handler } from '../http/handler.ts';
import { createAccessRule, createSocketRule } from './access.ts';
import { Exchanges, type GatewayLogger } from './exchange.ts';
import { formatRawAnswer, type Refusal, refusalAnswer } from './http-answer.ts';
import { createGatewayId } from './request-id.ts';
import { type WebsocketOptions, Websockets } from './websocket.ts';

export const defaultGatewayLimits = {
  /** API Gateway's own limit for a request body. */
  bodyBytesMax: 10 * 1024 * 1024,
  /** The longest that an HTTP API waits for a Lambda function. */
  answerMs: 30_000,
  /** Headers fit into one or two packets. A client that needs longer than this only keeps a socket busy. */
  headersMs: 10_000,
  /**
   * Headers and body together. The largest body needs 3 Mbit/s to arrive in time. The handler's time does not count.
   */
  requestMs: 30_000,
  /**
   * Common clients and proxies drop an idle connection after 60 s. This is longer, because the client should be the one
   * that closes.
   */
  keepAliveMs: 65_000,
  /** How often connections are checked against the limits above. A slow one is found at most this much later. */
  checkMs: 2_000,
  /**
   * For requests in progress when the gateway closes. Enough for all of them except a long poll, which its client
   * repeats.
   */
  closeGraceMs: 5_000,
  /** Far more than the clients of one machine open. It limits how much memory they can make this process use. */
  connectionsMax: 10_000,
} as const;

export type GatewayLimits = { readonly [Name in keyof typeof defaultGatewayLimits]: number };

/** Node's default, made explicit. API Gateway allows 10,240 bytes of request line and header values, without names. */
const headerBytesMax = 16 * 1024;

export interface GatewayOptions {
  readonly host: string;
  /** 0 takes any free port. */
  readonly port: number;
  readonly handler: Handler;
  /** If set, every request must carry it as a bearer token. */
  readonly token?: string | undefined;
  readonly websocket?: WebsocketOptions | undefined;
  readonly logger?: GatewayLogger | undefined;
  readonly limits?: Partial<GatewayLimits> | undefined;
}

/** Answers some paths beside the service, such as the console. It decides itself who has access. */
export interface Mount {
  /** True if the request was for this mount and is answered. */
  handle(request: IncomingMessage, response: ServerResponse): boolean;
  close(): void;
}

export interface Gateway {
  readonly url: string;
  readonly port: number;
  mount(mount: Mount): void;
  /** Stops accepting connections, gives requests in progress a limited time, then cuts the rest. */
  close(): Promise<void>;
}

/** Malformed HTTP never becomes a request object, so it is answered on the raw socket. */
const brokenRequests: Readonly<Record<string, Refusal>> = {
  HPE_HEADER_OVERFLOW: {
    status: 431,
    title: 'Request Header Fields Too Large',
    code: 'invalid-request',
    detail: `The request line and headers have at most ${headerBytesMax} bytes.`,
  },
  ERR_HTTP_REQUEST_TIMEOUT: {
    status: 408,
    title: 'Request Timeout',
    code: 'invalid-request',
    detail: 'The request did not arrive within its time.',
  },
};

const malformedRequest: Refusal = {
  status: 400,
  title: 'Bad Request',
  code: 'invalid-request',
  detail: 'Expected an HTTP/1.1 request, but got something else.',
};

function answerOnSocket(socket: Duplex, refusal: Refusal): void {
  socket.on('error', () => socket.destroy());
  socket.end(formatRawAnswer(refusalAnswer(refusal, createGatewayId())), () => socket.destroy());
}

/** A server can listen on a wildcard address, but nobody can connect to one. */
function toUrl(host: string, port: number): string {
  if (host === '0.0.0.0') return `http://127.0.0.1:${port}`;
  if (host === '::') return `http://[::1]:${port}`;
  return host.includes(':') ? `http://[${host}]:${port}` : `http://${host}:${port}`;
}

function createHttpServer(
  limits: GatewayLimits,
  exchanges: Exchanges,
  websockets: Websockets | undefined,
  mounts: readonly Mount[],
): Server {
  const server = createServer(
    {
      maxHeaderSize: headerBytesMax,
      headersTimeout: limits.headersMs,
      requestTimeout: limits.requestMs,
      keepAliveTimeout: limits.keepAliveMs,
      connectionsCheckingInterval: limits.checkMs,
      // Node then does not wait for the end of a body that a request does not have.
      optimizeEmptyRequests: true,
      // Some clients offer HTTP/2 on every plain request (`Upgrade: h2c`). The offer may be ignored. Only requests for
      // the WebSocket endpoint are upgraded, and all others are answered as usual.
      shouldUpgradeCallback: (request) => websockets?.accepts(request) ?? false,
    },
    (request, response) => {
      if (!mounts.some((mount) => mount.handle(request, response))) exchanges.receive(request, response);
    },
  );
  server.maxConnections = limits.connectionsMax;
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    if (error.code === 'ECONNRESET' || !socket.writable || exchanges.isRunningOn(socket)) socket.destroy();
    else answerOnSocket(socket, brokenRequests[error.code ?? ''] ?? malformedRequest);
  });
  if (websockets !== undefined) {
    server.on('upgrade', (request, socket, head) => void websockets.upgrade(request, socket, head));
  }
  return server;
}

/** Starts an HTTP server that does what API Gateway does in AWS. */
export async function startGateway(options: GatewayOptions): Promise<Gateway> {
  const limits: GatewayLimits = { ...defaultGatewayLimits, ...options.limits };
  const logger = options.logger ?? console;
  const access = createAccessRule(options.host, options.token);
  const exchanges = new Exchanges({
    handler: options.handler,
    access,
    logger,
    bodyBytesMax: limits.bodyBytesMax,
    answerMs: limits.answerMs,
  });
  const websockets =
    options.websocket === undefined
      ? undefined
      : new Websockets(options.websocket, createSocketRule(options.host, options.token), logger);

  const mounts: Mount[] = [];
  const server = createHttpServer(limits, exchanges, websockets, mounts);
  const sockets = new Set<Socket>();
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
  await once(server.listen(options.port, options.host), 'listening');
  const { port } = server.address() as AddressInfo;
  // Accepting can also fail later, for example if file descriptors run out. That costs one connection, not the process.
  server.on('error', (error) => logger.error('A connection could not be accepted.', error));

  async function stop(): Promise<void> {
    exchanges.isClosing = true;
    for (const mount of mounts) mount.close();
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    server.closeIdleConnections();
    // Node does not count a connection as idle before its first request. Browsers and pools open connections in
    // advance.
    for (const socket of sockets) if (socket.bytesRead === 0) socket.destroy();
    websockets?.close();
    // `closeAllConnections` does not close upgraded connections.
    const cut = setTimeout(() => {
      for (const socket of sockets) socket.destroy();
    }, limits.closeGraceMs);
    await closed;
    clearTimeout(cut);
    // Handlers may still run although their client was cut off. The caller closes their store next.
    await Promise.all([exchanges.settle(limits.closeGraceMs), websockets?.settle(limits.closeGraceMs)]);
  }

  let stopped: Promise<void> | undefined;
  return {
    url: toUrl(options.host, port),
    port,
    mount: (mount) => void mounts.push(mount),
    close() {
      stopped ??= stop();
      return stopped;
    },
  };
}
