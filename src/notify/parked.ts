/** Telling parked waiters of their grant, or of the end of their wait. */
import type { Facts } from '../lock/commands.ts';
import { decide } from '../lock/decide.ts';
import type { Holder } from '../lock/state.ts';
import { isLive } from '../lock/validity.ts';
import { endsAt, remainingMs } from '../lock/view.ts';
import { announce, factsAbout } from '../service/context.ts';
import type { LockKey } from '../store/lock-store.ts';
import { toIso } from '../time/clock.ts';
import { within } from './bounded.ts';
import { type EndedWait, namesOf, type Told } from './news.ts';
import type { Delivered, NotifierPorts } from './ports.ts';

export const grantedToWaiter = 'granted-to-waiter';

/** The names by which a state machine catches what a task token was failed with. */
export const taskErrors = {
  cancelled: 'Holdfast.WaitCancelled',
  timeout: 'Holdfast.WaitTimeout',
  lost: 'Holdfast.LeaseLost',
} as const;

/** AWS answers in tens of milliseconds; what takes this long is tried again with the record. */
const deliveryMsMax = 5_000;
/** Others may write to the lock between a read and a swap; so often in a row only where it is busy, and then its lease may as well run out. */
const releaseTriesMax = 5;

/**
 * Tells a waiter that its turn has come. A change may be shown late and more than once, so the lock is read again: only
 * who still has that very grant, and was not told, is told. Who can't be told any more is in the way of all behind it, so its
 * grant is given up at once.
 */
export async function tellGrant(ports: NotifierPorts, key: LockKey, granted: Told<Holder>): Promise<void> {
  const { locks, tellings, log } = ports;
  const { fence, leaseId, notify } = granted;
  const state = await locks.store.read(key);
  const facts = await factsAbout(locks, key, state);
  const holder = state.holders.find((candidate) => candidate.fence === fence && candidate.leaseId === leaseId);
  if (holder === undefined || !isLive(holder, facts)) return tellLoss(ports, granted);
  if ((await tellings.begin(key, fence)).told) return;

  const names = { ...namesOf(key), fence, by: notify.type };
  const delivered = await within(locks.timers, deliveryMsMax, deliver(ports, key, { ...holder, notify }, facts));
  if (delivered === 'gone') return giveUp(ports, key, granted);
  await tellings.noteTold(key, fence);
  log.info('A waiter was told of its grant.', {
    ...names,
    afterMs: Math.max(0, locks.clock.now() - holder.acquiredAt),
  });
}

/**
 * Nobody is there to be told. But a task that was told is over too, and who knows of its grant may have closed its connection: where an
 * earlier try, or one beside this, may have been heard, or the lease was renewed by who learned of it from a repeated acquire, the
 * lock may be in use, and its lease is left to run out. The tries are read after nobody was found: nobody is told later.
 */
async function giveUp(ports: NotifierPorts, key: LockKey, granted: Told<Holder>): Promise<void> {
  const { tellings, log } = ports;
  const { fence, notify } = granted;
  const names = { ...namesOf(key), fence, by: notify.type };
  const { tries } = await tellings.read(key, fence);
  if (tries === 1 && (await releaseUntouched(ports, key, granted)))
    log.warn('A waiter could not be told of its grant, which is given up for the next one.', names);
  else log.warn('A waiter can not be found any more, but may know of its grant.', names);
}

/** Releases a lease as it was granted. Only a swap will do: who renews it in between knows of it, and must not lose it. */
async function releaseUntouched({ locks }: NotifierPorts, key: LockKey, granted: Told<Holder>): Promise<boolean> {
  const { leaseId, fence, expiresAt } = granted;
  for (let tries = 0; tries < releaseTriesMax; tries++) {
    const state = await locks.store.read(key);
    const holder = state.holders.find((candidate) => candidate.fence === fence);
    if (holder === undefined || holder.expiresAt !== expiresAt) return false;
    const { next } = decide(state, { kind: 'release', leaseId }, await factsAbout(locks, key, state));
    const written = await locks.store.swap(key, next);
    if (!written.applied) continue;
    announce(locks, key, written.state);
    return true;
  }
  return false;
}

async function deliver(ports: NotifierPorts, key: LockKey, holder: Told<Holder>, facts: Facts): Promise<Delivered> {
  const { notify, leaseId, fence, owner } = holder;
  const left = remainingMs(holder, facts);
  switch (notify.type) {
    case 'event': {
      // A bus has many readers: it gets the waiter's own reference in place of the lease.
      const detail = { ...namesOf(key), ref: notify.ref, owner, fence, remainingMs: left };
      const untaken = await ports.bus.publish([{ detailType: grantedToWaiter, time: facts.now, detail }]);
      if (untaken.length > 0) throw new Error('The event bus did not take the event.');
      return 'sent';
    }
    case 'task-token':
      return ports.tasks.succeed(notify.token, grantOutput(key, holder, facts));
    case 'websocket': {
      const message = { type: 'granted', lock: key.name, leaseId, fence, remainingMs: left };
      return ports.connections.post(notify.connectionId, JSON.stringify(message));
    }
  }
}

function grantOutput(key: LockKey, holder: Holder, facts: Facts): Record<string, unknown> {
  const end = endsAt(holder, facts);
  return {
    status: 'granted',
    ...namesOf(key),
    leaseId: holder.leaseId,
    owner: holder.owner,
    fence: holder.fence,
    remainingMs: remainingMs(holder, facts),
    expiresAt: end === null ? null : toIso(end),
    waitedMs: holder.queuedAt === undefined ? 0 : Math.max(0, holder.acquiredAt - holder.queuedAt),
  };
}

/** The grant ended before its waiter could be told. A task would wait for ever; the other ways have nobody who does. */
async function tellLoss({ tasks }: NotifierPorts, { notify }: Told<Holder>): Promise<void> {
  if (notify.type !== 'task-token') return;
  await tasks.fail(notify.token, taskErrors.lost, 'The lock was granted, but the lease ended before it could be told.');
}

/** A task that waits for a token has to be ended; where it is gone already, nothing is left to do. */
export async function tellEndedWait({ tasks, locks }: NotifierPorts, { waiter, how }: EndedWait): Promise<void> {
  if (waiter.notify.type !== 'task-token') return;
  const cause =
    how === 'cancelled' ? 'The place in the queue was given up.' : 'The lock was not granted within waitMs.';
  await within(locks.timers, deliveryMsMax, tasks.fail(waiter.notify.token, taskErrors[how], cause));
}
