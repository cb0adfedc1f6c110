import { parse as parseQuery } from 'node:querystring';
import type {
  APIGatewayEventWebsocketRequestContextV2,
  APIGatewayProxyWebsocketEventV2WithRequestContext,
} from 'aws-lambda';
import type { EpochMs } from '../time/clock.ts';
import { formatLogTime, splitTarget } from './http-event.ts';
import { createGatewayId } from './request-id.ts';

export interface WebsocketRequestContext extends Omit<APIGatewayEventWebsocketRequestContextV2, 'messageId'> {
  readonly messageId?: string;
  readonly identity: { readonly sourceIp: string };
  readonly disconnectStatusCode?: number;
  readonly disconnectReason?: string;
}

/** The event of a WebSocket API. Unlike in an HTTP API's event, header names keep the case in which they were sent. */
export interface WebsocketEvent extends APIGatewayProxyWebsocketEventV2WithRequestContext<WebsocketRequestContext> {
  headers?: Record<string, string>;
  multiValueHeaders?: Record<string, string[]>;
}

/** What an event says about its connection. */
export interface ConnectionFacts {
  readonly connectionId: string;
  readonly connectedAt: EpochMs;
  readonly sourceIp: string;
}

function createContext(
  facts: ConnectionFacts,
  routeKey: '$connect' | '$default' | '$disconnect',
  eventType: 'CONNECT' | 'MESSAGE' | 'DISCONNECT',
  now: EpochMs,
): WebsocketRequestContext {
  const requestId = createGatewayId();
  return {
    routeKey,
    eventType,
    extendedRequestId: requestId,
    requestTime: formatLogTime(now),
    messageDirection: 'IN',
    // A WebSocket API has no `$default` stage; its stages are named.
    stage: 'local',
    connectedAt: facts.connectedAt,
    requestTimeEpoch: now,
    requestId,
    domainName: 'localhost',
    connectionId: facts.connectionId,
    apiId: 'local',
    identity: { sourceIp: facts.sourceIp },
  };
}

function collectValues(pairs: Iterable<readonly [string, string]>): {
  last: Record<string, string>;
  all: Record<string, string[]>;
} {
  const last = Object.create(null) as Record<string, string>;
  const all = Object.create(null) as Record<string, string[]>;
  for (const [name, value] of pairs) {
    last[name] = value;
    const values = all[name];
    if (values === undefined) all[name] = [value];
    else values.push(value);
  }
  return { last, all };
}

function* pairUp(rawHeaders: readonly string[]): Generator<readonly [string, string]> {
  for (let index = 0; index + 1 < rawHeaders.length; index += 2) {
    yield [rawHeaders[index] as string, rawHeaders[index + 1] as string];
  }
}

function* pairQuery(rawQueryString: string): Generator<readonly [string, string]> {
  for (const [name, value] of Object.entries(parseQuery(rawQueryString))) {
    if (Array.isArray(value)) for (const one of value) yield [name, one];
    else if (value !== undefined) yield [name, value];
  }
}

/** A repeated header or parameter shows its last value in the plain field and all of them in the multi-value one. */
export function toConnectEvent(
  facts: ConnectionFacts,
  request: { readonly target: string; readonly rawHeaders: readonly string[] },
): WebsocketEvent {
  const headers = collectValues(pairUp(request.rawHeaders));
  const event: WebsocketEvent = {
    headers: headers.last,
    multiValueHeaders: headers.all,
    requestContext: createContext(facts, '$connect', 'CONNECT', facts.connectedAt),
    isBase64Encoded: false,
  };
  const { rawQueryString } = splitTarget(request.target);
  if (rawQueryString !== '') {
    const query = collectValues(pairQuery(rawQueryString));
    event.queryStringParameters = query.last;
    event.multiValueQueryStringParameters = query.all;
  }
  return event;
}

export function toMessageEvent(facts: ConnectionFacts, bytes: Buffer, isBinary: boolean, now: EpochMs): WebsocketEvent {
  const context = createContext(facts, '$default', 'MESSAGE', now);
  return {
    requestContext: { ...context, messageId: createGatewayId() },
    body: bytes.toString(isBinary ? 'base64' : 'utf8'),
    isBase64Encoded: isBinary,
  };
}

export function toDisconnectEvent(facts: ConnectionFacts, code: number, reason: string, now: EpochMs): WebsocketEvent {
  const context = createContext(facts, '$disconnect', 'DISCONNECT', now);
  return {
    requestContext: { ...context, disconnectStatusCode: code, disconnectReason: reason },
    isBase64Encoded: false,
  };
}
