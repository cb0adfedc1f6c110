import type { APIGatewayProxyStructuredResultV2 } from 'aws-lambda';
import * as z from 'zod';
import { connectedMessage } from '../notify/watchers.ts';
import type { Watcher, WatcherStore } from '../store/watcher-store.ts';
import { epochMs } from '../time/clock.ts';
import type { ServiceLog } from './logger.ts';
import { toProblem } from './problems.ts';
import { namespaceName, resourceName } from './schemas.ts';
import { validate } from './validation.ts';

const namePrefix = z.string().regex(/^[A-Za-z0-9._:@=+~-]{0,255}$/, 'must be the beginning of a name');

/** What a watcher asks for: one lock, or all whose names begin so. An empty prefix is every lock of the namespace. */
export const watchQuery = z
  .strictObject({ namespace: namespaceName, lock: resourceName.optional(), prefix: namePrefix.optional() })
  .check((check) => {
    const { lock, prefix } = check.value;
    if ((lock === undefined) === (prefix === undefined)) {
      const message = 'must be given, or else prefix, and not both';
      check.issues.push({ code: 'custom', input: lock ?? null, path: ['lock'], message });
    }
  });

/** The parts of a WebSocket API's event that matter here. */
export interface WebsocketCall {
  readonly requestContext: {
    readonly routeKey: string;
    readonly connectionId: string;
    readonly connectedAt: number;
    readonly requestId: string;
  };
  readonly queryStringParameters?: Record<string, string | undefined> | undefined;
}

type Answer = APIGatewayProxyStructuredResultV2;

/** The function behind `$connect`, `$disconnect` and `$default`. */
export function createWebsocketHandler(watchers: WatcherStore, log: ServiceLog) {
  return async (event: WebsocketCall): Promise<Answer> => {
    const { routeKey, connectionId } = event.requestContext;
    switch (routeKey) {
      case '$connect':
        return connect(watchers, event, log);
      case '$disconnect':
        await watchers.remove(connectionId);
        return { statusCode: 200 };
      default:
        // A client keeps its connection from being idle by any message, and learns its id again.
        return { statusCode: 200, body: connectedMessage(connectionId) };
    }
  };
}

async function connect(watchers: WatcherStore, event: WebsocketCall, log: ServiceLog): Promise<Answer> {
  const { connectionId, connectedAt, requestId } = event.requestContext;
  try {
    await watchers.add(watcherOf(event.queryStringParameters ?? {}, connectionId, connectedAt));
    return { statusCode: 200 };
  } catch (error) {
    const problem = toProblem(error);
    if (problem.status >= 500) log.error('connect', { requestId, code: problem.code, error: String(error) });
    const instance = `urn:holdfast:request:${requestId}`;
    return {
      statusCode: problem.status,
      headers: { 'content-type': 'application/problem+json', 'x-request-id': requestId },
      body: JSON.stringify({ ...problem.toJSON(), instance }),
    };
  }
}

function watcherOf(query: Record<string, string | undefined>, connectionId: string, connectedAt: number): Watcher {
  const { namespace, lock, prefix = '' } = validate(watchQuery, query, 'query');
  return {
    namespace,
    connectionId,
    connectedAt: epochMs(connectedAt),
    subject: lock === undefined ? { prefix } : { lock },
  };
}
