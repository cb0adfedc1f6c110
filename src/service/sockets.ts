/** Waiting by push: tickets open connections, waits park on them, and a connection that ends makes its waits absent. */
import { randomBytes } from 'node:crypto';
import { type LockKey, lockIdOf } from '../store/lock-store.ts';
import type { Connection, SocketStore } from '../store/socket-store.ts';
import { after, type Clock } from '../time/clock.ts';
import { forEachAtMost } from '../tools/pool.ts';
import { type Acquired, type AcquireRequest, acquire } from './acquire.ts';
import { apply } from './apply.ts';
import type { LockContext } from './context.ts';
import { placesIn } from './pages.ts';

/** Long enough to open a connection over a slow network, short enough that a ticket that leaks is soon of no use. */
const ticketMs = 60_000;
/** One container's sockets serve fifty writes at a time well: ten thousand waits of one connection take a few seconds. */
const stepsAtOnceMax = 50;

export interface TicketIssued {
  readonly ticket: string;
  readonly expiresInMs: number;
}

/** 192 bits: nobody guesses it. */
const newTicket = (): string => randomBytes(24).toString('base64url');

export async function issueTicket(sockets: SocketStore, clock: Clock, owner: Connection): Promise<TicketIssued> {
  const ticket = newTicket();
  await sockets.issue(ticket, { ...owner, expiresAt: after(clock.now(), ticketMs) });
  return { ticket, expiresInMs: ticketMs };
}

type ParkRequest = AcquireRequest & { readonly notify: { readonly type: 'websocket'; readonly connectionId: string } };

/** Undefined: the connection is not one of this namespace and caller, or it has ended. */
export async function acquireOnSocket(
  context: LockContext,
  sockets: SocketStore,
  key: LockKey,
  request: ParkRequest,
  caller: string,
): Promise<Acquired | undefined> {
  const { connectionId } = request.notify;
  const { leaseId } = request;
  const connection = await sockets.connection(connectionId);
  if (connection?.namespace !== key.namespace || connection.caller !== caller) return undefined;
  // Noted before the wait begins. So whenever the connection ends, either its end finds the wait or the look below finds its end.
  await sockets.noteWait(connectionId, { key, leaseId }, after(context.clock.now(), request.waitMs));
  const acquired = await acquire(context, key, request);
  if (acquired.answer.kind === 'waiting' && (await sockets.connection(connectionId)) === undefined) {
    const { page } = acquired.answer;
    const absence = { kind: 'step-away', leaseId, connectionId } as const;
    await apply(context, key, page === undefined ? absence : { ...absence, place: page });
  }
  return acquired;
}

/** The connection has ended: its waits have as long to come back as any absent waiter has. Call it after the connection was removed. */
export async function leaveConnection(
  context: LockContext,
  sockets: SocketStore,
  connectionId: string,
  namespace: string,
): Promise<void> {
  const waits = await sockets.waitsOn(connectionId, namespace);
  // The pages of a lock are searched once, however many of its waiters were parked here.
  const searches = new Map<string, Promise<ReadonlyMap<string, number>>>();
  await forEachAtMost(waits, stepsAtOnceMax, async ({ key, leaseId }) => {
    const search = searches.get(lockIdOf(key)) ?? placesIn(context, key);
    searches.set(lockIdOf(key), search);
    const place = (await search).get(leaseId);
    const absence = { kind: 'step-away', leaseId, connectionId } as const;
    await apply(context, key, place === undefined ? absence : { ...absence, place });
  });
}
