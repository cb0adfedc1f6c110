/** API Gateway's WebSocket API: connections, their messages, and posts to them. */
import type { APIGatewayProxyStructuredResultV2 } from 'aws-lambda';
import type { OpenSocket, SocketHandlers } from '../../src/client/transport.ts';
import type { Connections, Delivered } from '../../src/notify/ports.ts';
import type { VirtualTime } from '../../src/testing/virtual-time.ts';
import { pauseFor } from '../../src/time/timers.ts';
import type { WebsocketEvent } from '../../src/websocket/api-gateway.ts';
import type { Chance } from '../world/chance.ts';
import { socketRoutes } from '../world/functions.ts';
import type { Bill } from './bill.ts';
import { delayOf } from './delays.ts';
import { amountOf } from './facts.ts';
import type { LambdaFunction } from './lambda.ts';
import { TokenBucket } from './token-bucket.ts';

export interface SocketParts {
  readonly time: VirtualTime;
  readonly chance: Chance;
  readonly bill: Bill;
  readonly target: () => LambdaFunction<WebsocketEvent, APIGatewayProxyStructuredResultV2>;
}

type Query = Readonly<Record<string, string>>;

export class ModelledSockets implements Connections {
  readonly #parts: SocketParts;
  readonly #routes: ReturnType<typeof socketRoutes>;
  readonly #openings: TokenBucket;
  readonly #delay: () => number;
  readonly #postDelay: () => number;
  readonly #open = new Map<string, SocketHandlers>();
  #connections = 0;
  refused = 0;

  constructor(parts: SocketParts) {
    this.#parts = parts;
    this.#routes = socketRoutes((event) => parts.target().invoke(event));
    this.#openings = new TokenBucket(amountOf('connectionRate'), parts.time.now());
    this.#delay = delayOf(parts.chance.branch(), 'gatewayMsP50', 'gatewayMsP99');
    this.#postDelay = delayOf(parts.chance.branch(), 'postMsP50', 'postMsP99');
  }

  get openNow(): number {
    return this.#open.size;
  }

  connect(query: Query, handlers: SocketHandlers): OpenSocket {
    this.#connections += 1;
    const connectionId = `connection-${this.#connections}`;
    let isOver = false;
    const closed = (cause: unknown) => {
      if (isOver) return;
      isOver = true;
      handlers.closed(cause);
    };
    void this.#establish(connectionId, query, handlers).catch(closed);
    return {
      send: () => void this.#answer(connectionId).catch(() => undefined),
      close: () => {
        isOver = true;
        void this.#leave(connectionId).catch(() => undefined);
      },
      keepsAlive: () => true,
    };
  }

  /** Some of the open connections break, as with a network that fails. */
  breakAll(): void {
    for (const [connectionId, handlers] of [...this.#open]) {
      void this.#leave(connectionId).catch(() => undefined);
      handlers.closed(new Error('The connection broke.'));
    }
  }

  async post(connectionId: string, text: string): Promise<Delivered> {
    const { time, bill } = this.#parts;
    const delayMs = this.#postDelay();
    await pauseFor(time, delayMs / 2);
    const handlers = this.#open.get(connectionId);
    if (handlers === undefined) return 'gone';
    bill.socketMessages += 1;
    time.after(delayMs / 2, () => handlers.message(JSON.parse(text)));
    return 'sent';
  }

  /** Connections are billed by the minute. This charges the open ones since the last call. */
  chargeMinutes(sinceMs: number): void {
    this.#parts.bill.socketMinutes += (this.#open.size * sinceMs) / 60_000;
  }

  async #establish(connectionId: string, query: Query, handlers: SocketHandlers): Promise<void> {
    const { time } = this.#parts;
    await pauseFor(time, this.#delay());
    if (this.#openings.isEmpty(time.now())) {
      this.refused += 1;
      throw new Error('API Gateway opens no more connections now.');
    }
    this.#openings.take(1);
    const opening = { requestId: connectionId, connectionId, connectedAt: time.now(), query };
    const statusCode = await this.#routes.connect(opening);
    if (statusCode >= 400) throw new Error(`The connection was refused with ${statusCode}.`);
    this.#open.set(connectionId, handlers);
    handlers.open();
  }

  async #answer(connectionId: string): Promise<void> {
    const { time, bill } = this.#parts;
    const delayMs = this.#delay();
    bill.socketMessages += 2;
    await pauseFor(time, delayMs / 2);
    const body = await this.#routes.message(connectionId);
    await pauseFor(time, delayMs / 2);
    if (body !== undefined) this.#open.get(connectionId)?.message(JSON.parse(body));
  }

  async #leave(connectionId: string): Promise<void> {
    if (!this.#open.delete(connectionId)) return;
    await pauseFor(this.#parts.time, this.#delay());
    await this.#routes.disconnect(connectionId);
  }
}
