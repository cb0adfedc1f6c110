/** The deployed functions on the modelled table, queue and sockets. */
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
import { countRefusals } from '../../src/http/refusals.ts';
import type { Service } from '../../src/http/service.ts';
import { SqsTimers } from '../../src/notify/aws/timers.ts';
import type { Completions, EventBus, LockTimers, Meter } from '../../src/notify/ports.ts';
import { DirectTransport } from '../../src/server/direct-transport.ts';
import { TimerNotes } from '../../src/store/notices.ts';
import { defaultTableName } from '../../src/table/shape.ts';
import type { VirtualTime } from '../../src/testing/virtual-time.ts';
import type { WebsocketEvent } from '../../src/websocket/api-gateway.ts';
import type { Chance } from '../world/chance.ts';
import {
  handOffsIn,
  httpIn,
  notifierEffectsIn,
  type ProcessAccess,
  publisherEffectsIn,
  reaperIn as reaperOn,
  serviceIn as serviceOn,
  streamReaderIn,
  websocketIn as websocketOn,
} from '../world/functions.ts';
import { amountOf } from './facts.ts';
import type { Metrics } from './metrics.ts';
import type { ModelledTable } from './modelled-table.ts';
import type { ModelledSockets } from './sockets.ts';
import type { TimerQueue } from './timer-queue.ts';

export const tableName = defaultTableName;
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

/** The signal of a broken connection. Lambda never sees one, so it never fires. */
const never = new AbortController().signal;

/** Nobody waits by event, task or callback in these scenarios. */
const noCompletions: Completions = { succeed: async () => 'gone', fail: async () => 'gone' };
const noBus: EventBus = { publish: async () => [] };

const accessOf = ({ table, time, chance }: ProcessParts): ProcessAccess => ({
  table,
  tableName,
  clock: time,
  timers: time,
  random: chance.next,
});

function serviceIn({ chance }: ProcessParts, access: ProcessAccess): Service {
  return serviceOn({ access, socketUrl, newId: (kind) => `${kind}${chance.next()}` });
}

/** Direct mode, in the caller's own process. */
export function directIn(parts: ProcessParts): (call: Call) => Promise<Answer> {
  const operations = new DirectTransport(serviceIn(parts, accessOf(parts)));
  return (call) => operations.request(call, never);
}

/** `acquire` and `http`: the same code, on different routes. */
export function handlerIn(parts: ProcessParts): (call: Call) => Promise<Answer> {
  const access = accessOf(parts);
  const service = serviceIn(parts, access);
  const handOffs = handOffsIn(service, access, parts.sockets);
  return httpIn(service, { handOffs, onProblem: countRefusals(meterOf(parts, 'http')) });
}

type StreamReader = (event: DynamoDBStreamEvent) => Promise<DynamoDBBatchResponse>;

export function notifierIn(parts: ProcessParts): StreamReader {
  const access = accessOf(parts);
  const meter = meterOf(parts, 'notifier');
  const ports = {
    bus: parts.bus ?? noBus,
    tasks: noCompletions,
    callbacks: noCompletions,
    connections: parts.sockets,
    timers: timersOf(parts, access),
    meter,
  };
  return streamReaderIn(notifierEffectsIn(serviceIn(parts, access), access, ports), meter);
}

export function publisherIn(parts: ProcessParts): StreamReader {
  const meter = meterOf(parts, 'publisher');
  const { sockets: connections, bus } = parts;
  return streamReaderIn(publisherEffectsIn(accessOf(parts), { connections, bus, meter }), meter);
}

export function reaperIn(parts: ProcessParts): (event: SQSEvent | ScheduledEvent) => Promise<SQSBatchResponse> {
  const access = accessOf(parts);
  const service = serviceIn(parts, access);
  const handOffs = handOffsIn(service, access, parts.sockets);
  const { handle } = reaperOn(service, access, timersOf(parts, access));
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
  return websocketOn(serviceIn(parts, access), access);
}

const timersOf = ({ timers, time }: ProcessParts, access: ProcessAccess): LockTimers =>
  new SqsTimers({ client: timers.client, queueUrl: 'timers', notes: new TimerNotes(access), clock: time });

const meterOf = ({ metrics }: ProcessParts, service: string): Meter => ({
  record: (measures) => {
    for (const { name, value } of measures) metrics.add(name, service, value);
  },
  flush: () => {},
});
