/**
 * The functions as they are deployed (functions/*.ts), in a process of a virtual world. Only what is around them is not AWS: the table
 * behind its port, time, chance, and the services that they call.
 */
import type { APIGatewayProxyStructuredResultV2, DynamoDBBatchResponse, DynamoDBStreamEvent } from 'aws-lambda';
import { type Answer, type Call, pathOf } from '../../src/client/transport.ts';
import { type Operation, operations } from '../../src/contract/operations.ts';
import { createHandler, type HandlerOptions } from '../../src/http/handler.ts';
import { anonymous } from '../../src/http/request.ts';
import type { Service } from '../../src/http/service.ts';
import { createReaperHandler } from '../../src/notify/aws/reaper-handler.ts';
import { HandOffs } from '../../src/notify/hand-offs.ts';
import { notifierEffects } from '../../src/notify/notifier.ts';
import type { Completions, Connections, EventBus, LockTimers, Meter } from '../../src/notify/ports.ts';
import { publisherEffects } from '../../src/notify/publisher.ts';
import { createReaper, type Reaper } from '../../src/notify/reaper.ts';
import { createStreamHandler } from '../../src/notify/stream-handler.ts';
import { serviceOn } from '../../src/process/wiring.ts';
import type { QueueSizes } from '../../src/queue/pages.ts';
import { HistoryStore } from '../../src/store/history.ts';
import { AwaitedLocks, DeliveryStore } from '../../src/store/notices.ts';
import { SocketStore } from '../../src/store/sockets.ts';
import { WatcherStore } from '../../src/store/watchers.ts';
import type { TableAccess } from '../../src/table/item-table.ts';
import type { Clock } from '../../src/time/clock.ts';
import type { Timers } from '../../src/time/timers.ts';
import type { Log } from '../../src/tools/log.ts';
import { apiGatewayWebsocketHandler, type WebsocketEvent } from '../../src/websocket/api-gateway.ts';
import { createWebsocketHandler, type Opening } from '../../src/websocket/handler.ts';

export const silent: Log = { info: () => {}, warn: () => {}, error: () => {} };

/** The table, time and chance of one process. */
export interface ProcessAccess extends TableAccess {
  readonly clock: Clock;
  readonly timers: Timers;
  readonly random: () => number;
}

export interface ServiceParts {
  readonly access: ProcessAccess;
  readonly alone?: boolean;
  readonly sizes?: QueueSizes | undefined;
  /** If missing, there are no WebSockets. */
  readonly socketUrl?: string | undefined;
  /** The ids that a process makes, so that each run has the same. */
  readonly newId: (kind: 'L' | 'S' | 'W') => string;
}

/** The service of one process, with its own memory. */
export function serviceIn({ access, alone = false, sizes, socketUrl, newId }: ServiceParts): Service {
  const url = socketUrl === undefined ? undefined : () => socketUrl;
  const service = serviceOn({ access, alone, engine: 'virtual', sizes, socketUrl: url });
  return {
    ...service,
    locks: { ...service.locks, newLeaseId: () => newId('L'), newSessionId: () => newId('S') },
    records: { ...service.records, newWriteId: () => newId('W') },
    version: 'virtual',
  };
}

/** The caller of a request. The gateway has checked its name. */
export interface Caller {
  readonly name?: string | undefined;
  /** Fires if the caller is gone. Lambda never learns that. */
  readonly signal?: AbortSignal | undefined;
}

const never = new AbortController().signal;

/** Every route, as behind API Gateway. */
export function httpIn(
  service: Service,
  { log = silent, ...options }: HandlerOptions & { readonly log?: Log } = {},
): (call: Call, caller?: Caller) => Promise<Answer> {
  const handle = createHandler(service, log, options);
  return async (call, { name: caller = anonymous, signal = never } = {}) => {
    const { operation, method, parameters, query = {}, headers, body } = call;
    const answer = await handle({
      id: 'request',
      operation: operation in operations ? (operation as Operation) : undefined,
      method,
      path: pathOf(call),
      parameters,
      query,
      headers: { 'content-type': 'application/json', ...headers },
      body: body === undefined ? undefined : JSON.stringify(body),
      caller,
      signal,
    });
    return { ...answer, headers: { ...answer.headers }, body: answer.body && JSON.parse(answer.body) };
  };
}

export const websocketIn = (service: Service, access: ProcessAccess) =>
  apiGatewayWebsocketHandler(
    createWebsocketHandler({
      watchers: new WatcherStore(access),
      sockets: new SocketStore(access),
      locks: service.locks,
      needsTicket: true,
      log: silent,
    }),
  );

type WebsocketHandler = (event: WebsocketEvent) => Promise<APIGatewayProxyStructuredResultV2>;

/** The events that the gateway sends for one connection. */
export const socketRoutes = (handle: WebsocketHandler) => ({
  /** The status of the answer to the opening. */
  connect: async ({ requestId, connectionId, connectedAt, query }: Opening): Promise<number> => {
    const requestContext = { routeKey: '$connect', connectionId, connectedAt, requestId };
    const { statusCode = 200 } = await handle({ requestContext, queryStringParameters: query });
    return statusCode;
  },
  /** The answer to a message of the client. */
  message: async (connectionId: string): Promise<string | undefined> => {
    const requestContext = { routeKey: '$default', connectionId, connectedAt: 0, requestId: 'message' };
    return (await handle({ requestContext })).body;
  },
  disconnect: async (connectionId: string): Promise<void> => {
    await handle({
      requestContext: { routeKey: '$disconnect', connectionId, connectedAt: 0, requestId: 'disconnect' },
    });
  },
});

export const handOffsIn = (service: Service, access: ProcessAccess, connections: Connections): HandOffs =>
  new HandOffs({ locks: service.locks, connections, deliveries: new DeliveryStore(access), log: silent });

/** What the notifier and the publisher call. */
export interface NotifyingPorts {
  readonly connections: Connections;
  readonly timers: LockTimers;
  readonly bus: EventBus;
  readonly tasks: Completions;
  readonly callbacks: Completions;
  readonly meter: Meter;
}

type StreamReader = (event: DynamoDBStreamEvent) => Promise<DynamoDBBatchResponse>;

export const notifierEffectsIn = (service: Service, access: ProcessAccess, ports: NotifyingPorts) =>
  notifierEffects({ ...ports, locks: service.locks, deliveries: new DeliveryStore(access), log: silent });

export const publisherEffectsIn = (
  access: ProcessAccess,
  ports: Pick<NotifyingPorts, 'connections' | 'meter'> & { readonly bus?: EventBus | undefined },
) =>
  publisherEffects({
    bus: ports.bus,
    connections: ports.connections,
    meter: ports.meter,
    clock: access.clock,
    pauses: access.timers,
    history: new HistoryStore(access),
    watchers: new WatcherStore(access),
    log: silent,
  });

/** A function that reads the stream, for some effects or for all of them. */
export const streamReaderIn = (
  effects: Parameters<typeof createStreamHandler>[0],
  meter: Meter,
  log: Log = silent,
): StreamReader => createStreamHandler(effects, log, meter);

export function reaperIn(service: Service, access: ProcessAccess, timers: LockTimers) {
  const reaper: Reaper = createReaper({
    locks: service.locks,
    timers,
    awaited: new AwaitedLocks(access),
    log: silent,
  });
  return { reaper, handle: createReaperHandler(reaper, { clock: access.clock, log: silent }) };
}
