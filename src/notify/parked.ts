/** Deliveries to parked waiters: their grant, or the end of their wait. */
import type { Facts } from '../lock/commands.ts';
import type { Holder, LockKey, Notify } from '../lock/state.ts';
import { isLive } from '../lock/validity.ts';
import { endsAt, remainingMs, waitedMs } from '../lock/view.ts';
import { apply } from '../service/apply.ts';
import { factsAbout, factsAmong } from '../service/context.ts';
import { toIso } from '../time/clock.ts';
import { requireWithin } from '../tools/time-limit.ts';
import { type EndedWait, namesOf, type Parked } from './change-events.ts';
import type { Delivered, NotifierPorts } from './ports.ts';

export const grantedToWaiter = 'granted-to-waiter';

/** How a wait ended without a lease: the error that a state machine or a durable function can catch, and its cause in words. */
const taskErrors: Readonly<Record<EndedWait['how'] | 'lease-lost', readonly [error: string, cause: string]>> = {
  cancelled: ['Holdfast.WaitCancelled', 'The place in the queue was given up.'],
  'wait-timeout': ['Holdfast.WaitTimeout', 'The lock was not granted within waitMs.'],
  deadlock: ['Holdfast.Deadlock', 'Sessions wait for each other. This waiter queued last, so its wait was ended.'],
  'session-lost': ['Holdfast.SessionLost', 'The session of this waiter has ended.'],
  'lease-lost': ['Holdfast.LeaseLost', 'The lock was granted, but the lease ended before the delivery.'],
};

/** AWS answers in tens of milliseconds. A call that takes this long is tried again with its record. */
const deliveryMsMax = 5_000;

/**
 * Delivers a grant to its waiter. The stream may show a change late and more than once, so the lock is read again. The grant is delivered
 * only if the waiter still has it and was not notified before. A waiter that can't be reached any more would block all waiters behind it,
 * so its grant is given up.
 */
export async function deliverGrant(ports: NotifierPorts, key: LockKey, granted: Parked<Holder>): Promise<void> {
  const { locks } = ports;
  const { fence, leaseId, notify } = granted;
  const state = await locks.store.read(key);
  const facts = await factsAbout(locks, key, state);
  const holder = state.holders.find((candidate) => candidate.fence === fence && candidate.leaseId === leaseId);
  if (holder === undefined || !isLive(holder, facts)) return deliverLoss(ports, granted);
  await deliverOnce(ports, key, granted, () => deliver(ports, key, { ...holder, notify }, facts));
}

type Shared = Pick<NotifierPorts, 'locks' | 'deliveries' | 'log'>;

/** The ports for a delivery to a waiter on a WebSocket. */
export type SocketPorts = Shared & Pick<NotifierPorts, 'connections'>;

/**
 * Delivers a grant that was just written, so the lock is not read again. The try is counted while the message is being sent, so the waiter
 * does not wait for a write. The process may end before the count is written. The client renews before it closes its connection, so it
 * keeps its lease even then.
 */
export async function deliverBySocket(ports: SocketPorts, key: LockKey, holder: OnSocket<Holder>): Promise<void> {
  const { deliveries, locks } = ports;
  const facts = await factsAmong(locks, key.namespace, [], holder.sessionId);
  // The read of the session may have taken long.
  if (!isLive(holder, facts)) throw new Error('The lease ended before the delivery.');
  const posting = requireWithin(postGrant(ports, key, holder, facts), deliveryMsMax, locks.timers);
  const [delivered] = await Promise.all([posting, deliveries.begin(key, holder.fence)]);
  await conclude(ports, key, holder, delivered);
}

/** The try is counted before the delivery, and the delivery is marked after it. If the process ends in between, the delivery is made again. */
async function deliverOnce(
  ports: Shared,
  key: LockKey,
  granted: Parked<Holder>,
  send: () => Promise<Delivered>,
): Promise<void> {
  const { locks, deliveries } = ports;
  if ((await deliveries.begin(key, granted.fence)).delivered) return;
  await conclude(ports, key, granted, await requireWithin(send(), deliveryMsMax, locks.timers));
}

async function conclude(ports: Shared, key: LockKey, granted: Parked<Holder>, delivered: Delivered): Promise<void> {
  const { locks, deliveries, log } = ports;
  const { fence, notify, acquiredAt } = granted;
  if (delivered === 'gone') return giveUp(ports, key, granted);
  await deliveries.markDelivered(key, fence);
  const afterMs = Math.max(0, locks.clock.now() - acquiredAt);
  log.info('A grant was delivered to its waiter.', { ...namesOf(key), fence, by: notify.type, afterMs });
}

/**
 * The delivery found nobody. Still, the owner may know of the grant: a task that got its delivery is over too, and a client that got it may
 * have closed its connection. So if an earlier or a parallel try may have arrived, the lease is not ended, but expires. The tries are read
 * after the delivery failed, because no later try can arrive. The rules of the lock say in which other cases a grant is kept.
 */
async function giveUp({ deliveries, locks, log }: Shared, key: LockKey, granted: Parked<Holder>): Promise<void> {
  const { fence, leaseId, notify } = granted;
  const names = { ...namesOf(key), fence, by: notify.type };
  const { tries } = await deliveries.read(key, fence);
  if (tries === 1) {
    await apply(locks, key, { kind: 'undelivered', leaseId, fence });
    log.warn('A waiter cannot be reached. Its grant is given up, unless its owner has asked again or renewed.', names);
  } else log.warn('A waiter cannot be reached, but may know of its grant. Its lease expires by itself.', names);
}

async function deliver(ports: NotifierPorts, key: LockKey, holder: Parked<Holder>, facts: Facts): Promise<Delivered> {
  const { notify, fence, owner } = holder;
  switch (notify.type) {
    case 'event': {
      // A bus has many readers, so it gets the waiter's own reference and not the leaseId.
      const detail = { ...namesOf(key), ref: notify.ref, owner, fence, remainingMs: remainingMs(holder, facts) };
      const [untaken] = await ports.bus.publish([{ detailType: grantedToWaiter, time: facts.now, detail }]);
      if (untaken === undefined) return 'sent';
      if (untaken.isFinal) return 'gone';
      throw new Error('The event bus did not take the event.');
    }
    case 'task-token':
      return ports.tasks.succeed(notify.token, grantOutput(key, holder, facts));
    case 'durable-callback':
      return ports.callbacks.succeed(notify.id, grantOutput(key, holder, facts));
    case 'websocket':
      return postGrant(ports, key, { ...holder, notify }, facts);
  }
}

type OnSocket<T> = T & { readonly notify: Extract<Notify, { type: 'websocket' }> };

/** Only the waiter's own connection gets it, so it has the leaseId. */
function postGrant(
  { connections }: SocketPorts,
  key: LockKey,
  holder: OnSocket<Holder>,
  facts: Facts,
): Promise<Delivered> {
  const { fence, notify } = holder;
  const { leaseId } = notify;
  const message = { type: 'granted', lock: key.name, leaseId, fence, remainingMs: remainingMs(holder, facts) };
  return connections.post(notify.connectionId, JSON.stringify(message));
}

function grantOutput(key: LockKey, holder: Parked<Holder>, facts: Facts): Record<string, unknown> {
  const end = endsAt(holder, facts);
  return {
    status: 'granted',
    ...namesOf(key),
    leaseId: holder.notify.leaseId,
    owner: holder.owner,
    fence: holder.fence,
    remainingMs: remainingMs(holder, facts),
    expiresAt: end === null ? null : toIso(end),
    waitedMs: waitedMs(holder, holder.acquiredAt),
  };
}

/** The grant ended before it could be delivered. */
function deliverLoss(ports: NotifierPorts, { notify }: Parked<Holder>): Promise<void> {
  return deliverFailure(ports, notify, 'lease-lost');
}

/** The wait ended without a grant. If a client on a WebSocket does not get this message, it asks itself when its wait should be over. */
export async function deliverEndedWait(ports: NotifierPorts, key: LockKey, { waiter, how }: EndedWait): Promise<void> {
  const { notify } = waiter;
  if (notify.type === 'websocket') {
    const { connections, locks } = ports;
    const { leaseId } = notify;
    const message = { type: 'wait-ended', lock: key.name, leaseId, reason: how };
    await requireWithin(connections.post(notify.connectionId, JSON.stringify(message)), deliveryMsMax, locks.timers);
    return;
  }
  return deliverFailure(ports, notify, how);
}

/**
 * A task or a callback would wait for ever, so it is failed. If it is already gone, there is nothing to do. The other kinds of delivery have
 * nothing that waits.
 */
async function deliverFailure(
  { tasks, callbacks, locks }: NotifierPorts,
  notify: Notify,
  how: keyof typeof taskErrors,
): Promise<void> {
  const failing =
    notify.type === 'task-token'
      ? tasks.fail(notify.token, ...taskErrors[how])
      : notify.type === 'durable-callback'
        ? callbacks.fail(notify.id, ...taskErrors[how])
        : undefined;
  if (failing !== undefined) await requireWithin(failing, deliveryMsMax, locks.timers);
}
