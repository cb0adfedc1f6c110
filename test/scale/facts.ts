/**
 * What AWS does and charges, one number a line, each with its source. "Documented" and "price list" are AWS's own pages.
 * "Assumed" is our guess at a usual value: change it here, and the whole report follows.
 */
import { dollarsPerMillion } from '../../infra/prices.ts';

export interface Fact {
  readonly value: number;
  readonly unit: string;
  readonly source: string;
}

const fact = (value: number, unit: string, source: string): Fact => ({ value, unit, source });

export const facts = {
  writeUnitsPerKey: fact(1_000, 'units/s', 'documented: DynamoDB, partition throughput'),
  readUnitsPerKey: fact(3_000, 'units/s', 'documented: DynamoDB, partition throughput'),
  tableWriteUnits: fact(40_000, 'units/s', 'documented: DynamoDB default quota per table'),
  writeMsP50: fact(4, 'ms', 'assumed: a write from Lambda in the same Region, "single-digit milliseconds"'),
  writeMsP99: fact(12, 'ms', 'assumed'),
  readMsP50: fact(2, 'ms', 'assumed: a consistent read from Lambda in the same Region'),
  readMsP99: fact(8, 'ms', 'assumed'),

  concurrencyPerAccount: fact(1_000, 'executions', 'documented: Lambda default quota'),
  concurrencyGrowth: fact(1_000, 'executions/10 s', 'documented: Lambda scaling rate per function'),
  coldStartMs: fact(350, 'ms', 'assumed: a bundle of this size on Node 24, ARM, 512 MB'),
  handlerMs: fact(2, 'ms', 'assumed: our own code per request, beside the store'),
  memoryMb: fact(512, 'MB', 'infra/props.ts'),

  gatewayMsP50: fact(8, 'ms', 'assumed: an HTTP API in front of Lambda, one request'),
  gatewayMsP99: fact(30, 'ms', 'assumed'),
  httpMsMax: fact(29_000, 'ms', 'infra/lock-service.ts: timeout of acquire and http'),
  websocketMsMax: fact(28_000, 'ms', 'infra/lock-service.ts'),
  readerMsMax: fact(60_000, 'ms', 'infra/notifications.ts: timeout of notifier and publisher'),
  reaperMsMax: fact(30_000, 'ms', 'infra/expiry.ts'),

  gatewayRate: fact(2_000, 'requests/s', 'infra/props.ts: our own throttle per route'),
  postMsP50: fact(15, 'ms', 'assumed: PostToConnection and the way to the client'),
  postMsP99: fact(60, 'ms', 'assumed'),
  connectionRate: fact(500, 'connections/s', 'documented: API Gateway, new WebSocket connections per account'),

  streamPollMs: fact(250, 'ms', 'documented: Lambda polls a DynamoDB stream four times a second'),
  streamShards: fact(
    4,
    'shards',
    'documented: a new on-demand table takes 4,000 write units a second, so 4 partitions',
  ),
  streamBatch: fact(100, 'records', 'infra/notifications.ts'),
  streamLanes: fact(4, 'batches per shard', 'infra/notifications.ts: parallelizationFactor'),
  streamRetries: fact(5, 'retries', 'infra/notifications.ts'),
  streamRetryMs: fact(1_000, 'ms', 'assumed: the first pause of a batch that failed; it doubles'),
  streamRetryMsMax: fact(60_000, 'ms', 'assumed'),

  queueMs: fact(20, 'ms', 'assumed: SQS takes a message, and shows it when its delay is over'),
  timerBatch: fact(10, 'messages', 'infra/expiry.ts'),
  timerReaders: fact(5, 'executions', 'infra/expiry.ts: maxConcurrency'),
  timerReceives: fact(3, 'receives', 'infra/expiry.ts'),
  timerHiddenMs: fact(180_000, 'ms', 'infra/expiry.ts: visibilityTimeout'),

  dollarsPerWriteUnit: fact(dollarsPerMillion.writeUnit / 1e6, 'dollars', 'price list: DynamoDB on demand, us-east-1'),
  dollarsPerReadUnit: fact(dollarsPerMillion.readUnit / 1e6, 'dollars', 'price list'),
  dollarsPerRequest: fact(dollarsPerMillion.httpRequest / 1e6, 'dollars', 'price list: HTTP API'),
  dollarsPerInvocation: fact(dollarsPerMillion.invocation / 1e6, 'dollars', 'price list: Lambda'),
  dollarsPerGigabyteSecond: fact(dollarsPerMillion.gigabyteSecond / 1e6, 'dollars', 'price list: Lambda on ARM'),
  dollarsPerSocketMessage: fact(1e-6, 'dollars', 'price list: WebSocket API, 32 KB a message'),
  dollarsPerSocketMinute: fact(0.25e-6, 'dollars', 'price list: WebSocket API, connection minutes'),
  dollarsPerQueueRequest: fact(0.4e-6, 'dollars', 'price list: SQS, standard queue'),
} as const satisfies Record<string, Fact>;

export type FactName = keyof typeof facts;

export const amountOf = (name: FactName): number => facts[name].value;
