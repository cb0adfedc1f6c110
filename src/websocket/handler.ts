import * as z from 'zod';
import { namePrefix, namespaceName, resourceName } from '../contract/fields.ts';
import { type Answer, problemAnswer } from '../http/handler.ts';
import { Problem, toProblem } from '../http/problems.ts';
import { anonymous, validate } from '../http/request.ts';
import { connectedMessage } from '../notify/watchers.ts';
import type { LockContext } from '../service/context.ts';
import { leaveConnection } from '../service/sockets.ts';
import type { Connection, SocketStore } from '../store/sockets.ts';
import type { Subject, WatcherStore } from '../store/watchers.ts';
import { epochMs } from '../time/clock.ts';
import type { Log } from '../tools/log.ts';

const watched = { lock: resourceName.optional(), prefix: namePrefix.optional() };

/**
 * The query with a ticket, which says the namespace. Without a lock or a prefix, the connection is only for the
 * caller's own waits.
 */
const ticketQuery = z
  .strictObject({ ticket: z.string().max(128), ...watched })
  .refine(({ lock, prefix }) => lock === undefined || prefix === undefined, {
    path: ['lock'],
    error: 'must not be given together with prefix',
  });

/**
 * The query without a ticket: one lock, or all locks whose names begin with the prefix. An empty prefix means every
 * lock of the namespace.
 */
const watchQuery = z
  .strictObject({ namespace: namespaceName, ...watched })
  .refine(({ lock, prefix }) => (lock === undefined) !== (prefix === undefined), {
    path: ['lock'],
    error: 'must be given if prefix is not, and not together with it',
  });

/** A request to open a connection. */
export interface Opening {
  readonly requestId: string;
  readonly connectionId: string;
  readonly connectedAt: number;
  readonly query: Readonly<Record<string, string | undefined>>;
}

/** What the service does for a WebSocket connection, whichever adapter it came through. */
export interface WebsocketHandler {
  /** A status of 400 or above refuses the connection. */
  connect(opening: Opening): Promise<Answer>;
  /** The answer to a message. */
  message(connectionId: string): Promise<string>;
  disconnect(connectionId: string): Promise<void>;
}

export interface WebsocketParts {
  readonly watchers: WatcherStore;
  readonly sockets: SocketStore;
  readonly locks: LockContext;
  /** False only if every program on this machine is trusted without a token. */
  readonly needsTicket: boolean;
  readonly log: Pick<Log, 'info' | 'error'>;
}

export function createWebsocketHandler(parts: WebsocketParts): WebsocketHandler {
  const { watchers, sockets, locks, log } = parts;
  return {
    async connect(opening) {
      const { requestId, connectionId, connectedAt } = opening;
      try {
        const wanted = await admit(parts, opening);
        await watchers.add({ ...wanted, connectionId, connectedAt: epochMs(connectedAt) });
        return { status: 200, headers: {}, body: undefined };
      } catch (error) {
        const problem = toProblem(error);
        if (problem.status >= 500) log.error('connect', { requestId, code: problem.code, error: String(error) });
        return problemAnswer(problem, requestId);
      }
    },
    // Any message keeps the connection from being idle, and the client gets its id again.
    message: async (connectionId) => connectedMessage(connectionId),
    async disconnect(connectionId) {
      const connection = await sockets.connection(connectionId);
      if (connection === undefined) return;
      await watchers.remove(connectionId);
      await leaveConnection(locks, sockets, connectionId, connection.namespace);
    },
  };
}

/** Checks who may connect, and what the connection watches. */
async function admit(
  { sockets, locks, needsTicket }: WebsocketParts,
  { query }: Opening,
): Promise<Connection & { readonly subject: Subject }> {
  if (query.ticket === undefined && !needsTicket) {
    const { namespace, ...subject } = validate(watchQuery, query, 'query');
    return { namespace, caller: anonymous, subject: subjectOf(subject) };
  }
  if (query.ticket === undefined) throw new Problem('unauthorized', 'A ticket is required to open a connection.');
  const { ticket, ...subject } = validate(ticketQuery, query, 'query');
  const owner = await sockets.redeem(ticket, locks.clock.now());
  // The answer must not reveal whether a ticket was wrong, used or too old.
  if (owner !== undefined) return { ...owner, subject: subjectOf(subject) };
  throw new Problem('forbidden', 'The ticket is not valid. A ticket opens one connection, once, within a short time.');
}

function subjectOf({ lock, prefix }: { lock?: string | undefined; prefix?: string | undefined }): Subject {
  if (lock !== undefined) return { lock };
  return prefix === undefined ? 'nothing' : { prefix };
}
