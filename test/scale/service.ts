/** The functions as they are deployed (functions/*.ts), each on the modelled table, queue and sockets. */
import type {
  APIGatewayProxyStructuredResultV2,
  Context,
  DynamoDBBatchResponse,
  DynamoDBStreamEvent,
  ScheduledEvent,
  SQSBatchResponse,
  SQSEvent,
} from 'aws-lambda';
import type { Answer, Call } from '../../src/client/transport.ts';
import type { Problem } from '../../src/http/problems.ts';
import { countRefusals } from '../../src/http/refusals.ts';
import type { Request } from '../../src/http/request.ts';
import type { Service } from '../../src/http/service.ts';
import { createReaperHandler } from '../../src/notify/aws/reaper-handler.ts';
import { SqsTimers } from '../../src/notify/aws/timers.ts';
import { HandOffs } from '../../src/notify/hand-offs.ts';
import { createNotifier } from '../../src/notify/notifier.ts';
import type { Completions, EventBus, LockTimers, Meter } from '../../src/notify/ports.ts';
import { createPublisher } from '../../src/notify/publisher.ts';
import { createReaper } from '../../src/notify/reaper.ts';
import { DirectTransport } from '../../src/server/direct-transport.ts';
import { systemLockContext } from '../../src/service/context.ts';
import { WatcherStore } from '../../src/store/watchers.ts';
import { HistoryStore } from '../../src/store/history.ts';
import type { TableAccess } from '../../src/table/item-table.ts';
import { LockStore } from '../../src/queue/lock-store.ts';
import {
  AwaitedLocks,
  DeliveryStore,
  TimerNotes,
} from '../../src/store/notices.ts';
import { RecordStore } from '../../src/store/records.ts';
import { SessionStore } from '../../src/store/session-store.ts';
import { SocketStore } from '../../src/store/sockets.ts';
import type { VirtualTime } from '../../src/testing/virtual-time.ts';
import { type Clock, epochMs } from '../../src/time/clock.ts';
import type { Log } from '../../src/tools/log.ts';
import { apiGatewayWebsocketHandler, type WebsocketEvent } from '../../src/websocket/api-gateway.ts';
import { createWebsocketHandler } from '../../src/websocket/handler.ts';
import type { Chance } from '../simulation/chance.ts';
import { amountOf } from './facts.ts';
import type { Metrics } from './metrics.ts';
import type { ModelledTable } from './modelled-table.ts';
import type { ModelledSockets } from './sockets.ts';
import { accessTo } from './table-access.ts';
import type { TimerQueue } from './timer-queue.ts';

export const tableName = 'holdfast';
export const socketUrl = 'wss://sockets.modelled/v1';

/** What a process uses. */
export interface ProcessParts {
  readonly time: VirtualTime;
  readonly chance: Chance;
  readonly table: ModelledTable;
  readonly metrics: Metrics;
  readonly sockets: ModelledSockets;
  readonly timers: TimerQueue;
  /** Where events go. Missing if they are not published. */
  readonly bus?: EventBus | undefined;
}

const silent: Log = { info: () => {}, warn: () => {}, error: () => {} };
/** The signal of a broken connection. Lambda never sees one, so it never fires. */
const never = new AbortController().signal;

const clockOf = ({ time }: ProcessParts): Clock => ({ now: () => epochMs(time.now()) });
const accessOf = ({ table, chance }: ProcessParts): TableAccess => accessTo(table, tableName, chance.next);

/** Nobody waits by event, task or callback in these scenarios. */
const noCompletions: Completions = { succeed: async () => 'gone', fail: async () => 'gone' };
const noBus: EventBus = { publish: async () => [] };

function serviceIn(parts: ProcessParts): Service {
  const { time, chance } = parts;
  const clock = clockOf(parts);
  const access = accessOf(parts);
  const sessionStore = new SessionStore(access);
  const store = new LockStore(access);
  return {
    locks: systemLockContext({ store, sessionStore, alone: false, clock, timers: time, random: chance.next }),
    records: { store: new RecordStore(access), clock, newWriteId: () => `W${chance.next()}` },
    history: new HistoryStore({ ...access, clock }),
    sockets: { store: new SocketStore(access), url: () => socketUrl },
    probe: () => Promise.resolve(),
    engine: 'modelled',
    version: 'modelled',
  };
}

/** Direct mode, in the caller's own process. */
export function directIn(parts: ProcessParts): (call: Call) => Promise<Answer> {
  const operations = new DirectTransport(serviceIn(parts));
  return (call) => operations.request(call, never);
}

/** `acquire` and `http`: the same code, on different routes. */
export function handlerIn(parts: ProcessParts): (call: Call) => Promise<Answer> {
  const service = serviceIn(parts);
  const operations = new DirectTransport(service);
  const handOffs = handOffsOf(parts, service);
  const onProblem = countRefusals(meterOf(parts, 'http'));
  return async (call) => {
    const answer = await operations.request(call, never);
    const { code } = (answer.body ?? {}) as { code?: string };
    if (code !== undefined) onProblem({ code } as Problem, { parameters: call.parameters } as Request);
    await handOffs.settle();
    return answer;
  };
}

export function notifierIn(parts: ProcessParts): (event: DynamoDBStreamEvent) => Promise<DynamoDBBatchResponse> {
  const { sockets: connections, bus = noBus } = parts;
  return createNotifier({
    locks: serviceIn(parts).locks,
    bus,
    tasks: noCompletions,
    callbacks: noCompletions,
    connections,
    timers: timersOf(parts),
    deliveries: new DeliveryStore(accessOf(parts)),
    meter: meterOf(parts, 'notifier'),
    log: silent,
  });
}

export function publisherIn(parts: ProcessParts): (event: DynamoDBStreamEvent) => Promise<DynamoDBBatchResponse> {
  const { time, sockets: connections, bus } = parts;
  const [access, clock] = [accessOf(parts), clockOf(parts)];
  return createPublisher({
    clock,
    pauses: time,
    bus,
    history: new HistoryStore({ ...access, clock }),
    connections,
    watchers: new WatcherStore(access),
    meter: meterOf(parts, 'publisher'),
    log: silent,
  });
}

export function reaperIn(parts: ProcessParts): (event: SQSEvent | ScheduledEvent) => Promise<SQSBatchResponse> {
  const service = serviceIn(parts);
  const handOffs = handOffsOf(parts, service);
  const { locks } = service;
  const awaited = new AwaitedLocks(accessOf(parts));
  const reaper = createReaper({ locks, timers: timersOf(parts), awaited, log: silent });
  const handle = createReaperHandler(reaper, { clock: clockOf(parts), log: silent });
  const context = { getRemainingTimeInMillis: () => amountOf('reaperMsMax') } as Context;
  return async (event) => {
    const response = await handle(event, context);
    await handOffs.settle();
    return response;
  };
}

export function websocketIn(
  parts: ProcessParts,
): (event: WebsocketEvent) => Promise<APIGatewayProxyStructuredResultV2> {
  const access = accessOf(parts);
  return apiGatewayWebsocketHandler(
    createWebsocketHandler({
      watchers: new WatcherStore(access),
      sockets: new SocketStore(access),
      locks: serviceIn(parts).locks,
      needsTicket: true,
      log: silent,
    }),
  );
}

const handOffsOf = (parts: ProcessParts, { locks }: Service): HandOffs =>
  new HandOffs({
    locks,
    connections: parts.sockets,
    deliveries: new DeliveryStore(accessOf(parts)),
    log: silent,
  });

const timersOf = (parts: ProcessParts): LockTimers =>
  new SqsTimers({
    client: parts.timers.client,
    queueUrl: 'timers',
    notes: new TimerNotes(accessOf(parts)),
    clock: clockOf(parts),
  });

const meterOf = ({ metrics }: ProcessParts, service: string): Meter => ({
  record: (measures) => {
    for (const { name, value } of measures) metrics.add(name, service, value);
  },
  flush: () => {},
});
