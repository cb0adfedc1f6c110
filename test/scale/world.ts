/**
 * The deployed service under AWS's own limits, in virtual time.
 *
 *     SDK ──> API Gateway ──> Lambda: acquire, http, websocket ──> DynamoDB ──> stream ──> Lambda: notifier, publisher
 *      ^                                                                                        │
 *      └────────────────────── posts to sockets <── the granting process <── reaper <── timers <─┘
 *
 * The code is the deployed code, including its requests to DynamoDB. The services around it are modelled: `facts.ts` has every number.
 */
import type {
  APIGatewayProxyStructuredResultV2,
  DynamoDBBatchResponse,
  DynamoDBStreamEvent,
  ScheduledEvent,
  SQSBatchResponse,
  SQSEvent,
} from 'aws-lambda';
import { Holdfast } from '../../src/client/holdfast.ts';
import type { Runtime } from '../../src/client/runtime.ts';
import type { Answer, Call, Transport } from '../../src/client/transport.ts';
import type { EventBus } from '../../src/notify/ports.ts';
import { notifierFilter, publisherFilter } from '../../src/notify/stream-filter.ts';
import { tableDefinition } from '../../src/table/shape.ts';
import { VirtualTime } from '../../src/testing/virtual-time.ts';
import { pauseFor } from '../../src/time/timers.ts';
import type { WebsocketEvent } from '../../src/websocket/api-gateway.ts';
import { Chance } from '../world/chance.ts';
import { Bill } from './bill.ts';
import { delayOf } from './delays.ts';
import { amountOf } from './facts.ts';
import { Account, FunctionFailed, LambdaFunction, NoExecutionLeft } from './lambda.ts';
import { Metrics } from './metrics.ts';
import { ModelledTable } from './modelled-table.ts';
import {
  directIn,
  handlerIn,
  notifierIn,
  type ProcessParts,
  publisherIn,
  reaperIn,
  tableName,
  websocketIn,
} from './service.ts';
import { ModelledSockets } from './sockets.ts';
import { readStream, StreamReader } from './stream.ts';
import { TimerQueue } from './timer-queue.ts';
import { TokenBucket } from './token-bucket.ts';

/** The ways to wait that are compared. */
export const ways = ['long poll', 'push', 'direct'] as const;
export type Waiting = (typeof ways)[number];

const acquiring = new Set(['acquireLock', 'acquireLocks']);

export interface WorldOptions {
  /** Executions of the account, and of the acquire function alone. */
  readonly concurrency?: number;
  readonly acquireMax?: number;
  /** Only a table, as in direct mode. Nobody reads its stream. */
  readonly tableOnly?: boolean;
  /** Every event is published there. */
  readonly bus?: EventBus;
}

type Reader = LambdaFunction<DynamoDBStreamEvent, DynamoDBBatchResponse>;

export class ScaleWorld {
  readonly time = new VirtualTime({ turnsToSettle: 1 });
  readonly bill = new Bill();
  readonly metrics = new Metrics(this.time);
  readonly account: Account;
  readonly table: ModelledTable;
  readonly chance: Chance;
  readonly sockets: ModelledSockets;
  readonly timers: TimerQueue;
  /** Waiting requests have their own function, so that a release always gets an execution. */
  readonly acquire: LambdaFunction<Call, Answer>;
  readonly http: LambdaFunction<Call, Answer>;
  readonly websocket: LambdaFunction<WebsocketEvent, APIGatewayProxyStructuredResultV2>;
  readonly notifier: Reader;
  readonly publisher: Reader;
  readonly reaper: LambdaFunction<SQSEvent | ScheduledEvent, SQSBatchResponse>;
  readonly #gatewayDelay: () => number;
  readonly #routes = new Map<string, TokenBucket>();
  readonly #process: () => ProcessParts;
  /** How often a client got an answer of API Gateway or Lambda: a throttled route, or no execution left. */
  refusedByGateway = 0;
  #clients = 0;

  constructor(seed: number, { concurrency, acquireMax, tableOnly = false, bus }: WorldOptions = {}) {
    this.chance = new Chance(seed);
    this.account = new Account(concurrency);
    const { time, bill, metrics, account, chance } = this;
    this.table = new ModelledTable({ time, chance: chance.branch(), bill, metrics });
    this.table.engine.call('CreateTable', tableDefinition(tableName));
    this.#gatewayDelay = delayOf(chance.branch(), 'gatewayMsP50', 'gatewayMsP99');
    this.sockets = new ModelledSockets({ time, chance: chance.branch(), bill, target: () => this.websocket });
    this.timers = new TimerQueue({ time, bill, metrics, reaper: () => this.reaper });
    const { table, sockets, timers } = this;
    this.#process = () => ({ time, metrics, chance: chance.branch(), table, sockets, timers, bus });
    const lambda = <Input, Output>(
      name: string,
      timeoutMs: number,
      create: (parts: ProcessParts) => (input: Input) => Promise<Output>,
      concurrencyMax?: number,
    ) =>
      new LambdaFunction<Input, Output>({
        ...{ name, timeoutMs, concurrencyMax, time, bill, account, metrics },
        create: () => create(this.#process()),
      });
    this.acquire = lambda('AcquireFunction', amountOf('httpMsMax'), handlerIn, acquireMax);
    this.http = lambda('HttpFunction', amountOf('httpMsMax'), handlerIn);
    this.websocket = lambda('WebsocketFunction', amountOf('websocketMsMax'), websocketIn);
    this.notifier = lambda('NotificationsNotifierFunction', amountOf('readerMsMax'), notifierIn);
    this.publisher = lambda('NotificationsPublisherFunction', amountOf('readerMsMax'), publisherIn);
    this.reaper = lambda('ExpiryReaperFunction', amountOf('reaperMsMax'), reaperIn);
    if (!tableOnly) this.#startReaders();
  }

  get functions(): readonly { replaceAll(): void; readonly coldStarts: number }[] {
    return [this.acquire, this.http, this.websocket, this.notifier, this.publisher, this.reaper];
  }

  /** A process with the SDK: through API Gateway, with or without sockets, or straight on the table. */
  client(waiting: Waiting, namespace = 'scale'): Holdfast {
    this.#clients += 1;
    const { time, sockets } = this;
    const name = `client-${this.#clients}`;
    const chance = this.chance.branch();
    let ids = 0;
    const runtime: Runtime = {
      monotonicMs: () => time.now() - time.startAt,
      wallMs: () => time.now(),
      after: time.after,
      random: chance.next,
      newId: () => `L-${name}-${String(++ids).padStart(12, '0')}`,
    };
    const request = waiting === 'direct' ? directIn(this.#process()) : (call: Call) => this.#throughGateway(call);
    const transport: Transport = {
      request,
      ...(waiting === 'push' ? { socket: (_url, query, handlers) => sockets.connect(query, handlers) } : {}),
    };
    return new Holdfast({ namespace, owner: name, transport, runtime });
  }

  #startReaders(): void {
    const { time, metrics, table } = this;
    const reader = (name: string, target: Reader, filter: typeof notifierFilter) =>
      new StreamReader({ time, metrics, name: `${name}Function`, deadLetters: `${name}DeadLetters`, target, filter });
    readStream({ time, engine: table.engine, isAway: () => table.isAway }, [
      reader('NotificationsNotifier', this.notifier, notifierFilter),
      reader('NotificationsPublisher', this.publisher, publisherFilter),
    ]);
    const everyMinute = () => {
      this.reaper.invoke({} as ScheduledEvent).catch(() => undefined);
      time.after(60_000, everyMinute);
    };
    time.after(60_000, everyMinute);
    const everySecond = () => {
      this.sockets.chargeMinutes(1_000);
      time.after(1_000, everySecond);
    };
    time.after(1_000, everySecond);
  }

  async #throughGateway(call: Call): Promise<Answer> {
    const { time, metrics } = this;
    const startedAt = time.now();
    const halfMs = this.#gatewayDelay() / 2;
    await this.pause(halfMs);
    const answer = await this.#answer(call);
    await this.pause(halfMs);
    metrics.add('Count', 'HttpApi');
    metrics.add('4xx', 'HttpApi', answer.status >= 400 && answer.status < 500 ? 1 : 0);
    metrics.add('5xx', 'HttpApi', answer.status >= 500 ? 1 : 0);
    metrics.add('Latency', 'HttpApi', time.now() - startedAt);
    return answer;
  }

  async #answer(call: Call): Promise<Answer> {
    const { bill, time } = this;
    bill.requests += 1;
    const route = this.#routes.get(call.operation) ?? new TokenBucket(amountOf('gatewayRate'), time.now());
    this.#routes.set(call.operation, route);
    if (route.isEmpty(time.now())) return this.#refused(429);
    route.take(1);
    try {
      return await (acquiring.has(call.operation) ? this.acquire : this.http).invoke(call);
    } catch (error) {
      if (error instanceof NoExecutionLeft) return this.#refused(503);
      if (error instanceof FunctionFailed) return this.#refused(500);
      throw error;
    }
  }

  /** API Gateway's own words, which are not ours. */
  #refused(status: number): Answer {
    this.refusedByGateway += 1;
    return { status, headers: { 'content-type': 'application/json' }, body: { message: 'Service Unavailable' } };
  }

  pause(ms: number): Promise<void> {
    return pauseFor(this.time, ms);
  }
}
