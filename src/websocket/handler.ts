import * as z from 'zod';
import { namePrefix, namespaceName, resourceName } from '../contract/fields.ts';
import { type Answer, problemAnswer, type RequestLog } from '../http/handler.ts';
import { toProblem } from '../http/problems.ts';
import { validate } from '../http/request.ts';
import { connectedMessage } from '../notify/watchers.ts';
import type { Watcher, WatcherStore } from '../store/watcher-store.ts';
import { epochMs } from '../time/clock.ts';

/** What a watcher asks for: one lock, or all whose names begin so. An empty prefix is every lock of the namespace. */
const watchQuery = z
  .strictObject({ namespace: namespaceName, lock: resourceName.optional(), prefix: namePrefix.optional() })
  .check((check) => {
    const { lock, prefix } = check.value;
    if ((lock === undefined) === (prefix === undefined)) {
      const message = 'must be given, or else prefix, and not both';
      check.issues.push({ code: 'custom', input: lock ?? null, path: ['lock'], message });
    }
  });

/** A connection that somebody wants to open. */
export interface Opening {
  readonly requestId: string;
  readonly connectionId: string;
  readonly connectedAt: number;
  readonly query: Readonly<Record<string, string | undefined>>;
}

/** What is done for a WebSocket connection, whatever it came by. */
export interface WebsocketHandler {
  /** A status of 400 or above refuses the connection. */
  connect(opening: Opening): Promise<Answer>;
  /** What a message is answered with. */
  message(connectionId: string): Promise<string>;
  disconnect(connectionId: string): Promise<void>;
}

export function createWebsocketHandler(watchers: WatcherStore, log: RequestLog): WebsocketHandler {
  return {
    async connect(opening) {
      const { requestId } = opening;
      try {
        await watchers.add(watcherOf(opening));
        return { status: 200, headers: {}, body: undefined };
      } catch (error) {
        const problem = toProblem(error);
        if (problem.status >= 500) log.error('connect', { requestId, code: problem.code, error: String(error) });
        return problemAnswer(problem, requestId);
      }
    },
    // A client keeps its connection from being idle by any message, and learns its id again.
    message: async (connectionId) => connectedMessage(connectionId),
    disconnect: (connectionId) => watchers.remove(connectionId),
  };
}

function watcherOf({ query, connectionId, connectedAt }: Opening): Watcher {
  const { namespace, lock, prefix = '' } = validate(watchQuery, query, 'query');
  return {
    namespace,
    connectionId,
    connectedAt: epochMs(connectedAt),
    subject: lock === undefined ? { prefix } : { lock },
  };
}
