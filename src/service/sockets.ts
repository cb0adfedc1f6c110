/** Waiting by push: tickets open connections, waits park on them, and a connection that ends makes its waits absent. */

import { randomBytes } from 'node:crypto';
import { type LockKey, lockIdOf } from '../lock/state.ts';
import { pagesByLease } from '../queue/finding.ts';
import type { Connection, SocketStore } from '../store/sockets.ts';
import { leaseNameOf } from '../table/digest.ts';
import { after, type Clock } from '../time/clock.ts';
import { defined } from '../tools/collections.ts';
import { forEachAtMost } from '../tools/pool.ts';
import { type Acquired, type AcquireRequest, acquire, askAgain } from './acquire.ts';
import { apply } from './apply.ts';
import type { LockContext } from './context.ts';

/** Long enough to open a connection over a slow network. Short enough that a stolen ticket is soon useless. */
const ticketMs = 60_000;
/** One process can make fifty writes at a time. Ten thousand waits of one connection then take a few seconds. */
const stepsAtOnceMax = 50;

export interface TicketIssued {
  readonly ticket: string;
  readonly expiresInMs: number;
}

/** 192 bits: nobody can guess it. */
const newTicket = (): string => randomBytes(24).toString('base64url');

export async function issueTicket(sockets: SocketStore, clock: Clock, owner: Connection): Promise<TicketIssued> {
  const ticket = newTicket();
  await sockets.issue(ticket, { ...owner, expiresAt: after(clock.now(), ticketMs) });
  return { ticket, expiresInMs: ticketMs };
}

type ParkRequest = AcquireRequest & { readonly notify: { readonly type: 'websocket'; readonly connectionId: string } };

/** Undefined if the connection has ended, or has another namespace or caller. */
export async function acquireOnSocket(
  context: LockContext,
  sockets: SocketStore,
  key: LockKey,
  request: ParkRequest,
  caller: string,
): Promise<Acquired | undefined> {
  const { connectionId } = request.notify;
  const leaseId = leaseNameOf(request.leaseId);
  const connection = await sockets.connection(connectionId);
  if (connection?.namespace !== key.namespace || connection.caller !== caller) return undefined;
  // A client asks again now and then, because a message may be lost. If it has its place on this connection, the wait was
  // noted before, and its presence is that of the connection.
  const unchanged = await askAgain(context, key, request);
  if (unchanged !== undefined) return unchanged;
  // The wait is written before it begins. If the connection ends, either its end finds this wait, or the read below finds that it has ended.
  await sockets.noteWait(connectionId, { key, leaseId }, after(context.clock.now(), request.waitMs));
  const acquired = await acquire(context, key, request);
  if (acquired.answer.kind === 'waiting' && (await sockets.connection(connectionId)) === undefined) {
    const { place } = acquired.answer;
    await apply(context, key, { kind: 'step-away', leaseId, connectionId, ...defined({ place }) });
  }
  return acquired;
}

/** The connection has ended, so its waiters are absent. They may come back as long as any absent waiter. Call it after the connection was removed. */
export async function leaveConnection(
  context: LockContext,
  sockets: SocketStore,
  connectionId: string,
  namespace: string,
): Promise<void> {
  const waits = await sockets.waitsOn(connectionId, namespace);
  // The pages of a lock are searched once for all its waiters on this connection.
  const searches = new Map<string, Promise<ReadonlyMap<string, number>>>();
  await forEachAtMost(waits, stepsAtOnceMax, async ({ key, leaseId }) => {
    const search = searches.get(lockIdOf(key)) ?? pagesByLease(context, key);
    searches.set(lockIdOf(key), search);
    const place = (await search).get(leaseId);
    await apply(context, key, { kind: 'step-away', leaseId, connectionId, ...defined({ place }) });
  });
}
