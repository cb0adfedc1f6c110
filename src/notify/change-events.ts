/**
 * The events, deliveries and ended waits of a change of a lock. They are derived only here, and only from the old and the new image. So if
 * the stream shows a change twice, the result is the same.
 */
import { eventsBetween, grantOf } from '../lock/events.ts';
import {
  type Holder,
  isAlwaysNotified,
  type LockKey,
  type LockState,
  type Notify,
  unusedLock,
  type Waiter,
} from '../lock/state.ts';
import { eventsInPage } from '../queue/page-events.ts';
import { movingUp } from '../queue/pages.ts';
import type { HistoryEntry, HistoryEvent } from '../store/history.ts';
import { endedHold, isShown, placeIn, placeOf } from '../store/history-rules.ts';
import { epochMs, toIso } from '../time/clock.ts';
import type { LockChange, PageChange } from './lock-change.ts';
import type { BusEvent } from './ports.ts';

/** A claim whose owner asked to be notified. */
export type Parked<T> = T & { readonly notify: Notify };

/** A parked waiter that left the queue without a grant. */
export interface EndedWait {
  readonly waiter: Parked<Waiter>;
  readonly how: 'cancelled' | 'wait-timeout' | 'deadlock' | 'session-lost';
}

export interface ChangeEvents {
  /** If the record is about a page, the lock itself is not known. */
  readonly change: LockChange;
  /** Waiters that have just parked in a page. Each needs a timer for its deadline. */
  readonly parked?: readonly Parked<Waiter>[];
  /** For the bus, watchers and metrics. */
  readonly entries: readonly HistoryEntry[];
  /** For the history: one entry for each hold that ended, and one for each waiter that joined or left the queue. */
  readonly kept: readonly HistoryEntry[];
  /** The grants that must be delivered. */
  readonly grants: readonly Parked<Holder>[];
  readonly endedWaits: readonly EndedWait[];
}

export function eventsOfChange(change: LockChange): ChangeEvents {
  const { key, before, after } = change;
  const entries = eventsBetween(before, after)
    .filter(isShown)
    .map((event, index) => ({ key, place: placeIn(before, after, event, index), event }));
  return {
    change,
    entries,
    kept: entries.flatMap((entry) => keptOf(entry, before)),
    grants: grantsToDeliver(before, after),
    endedWaits: endedWaits(before, after),
  };
}

/** A grant is kept when its hold ends. Until then the lock itself shows it. */
function keptOf(entry: HistoryEntry, before: LockState): HistoryEntry[] {
  const { type, fence, heldMs } = entry.event;
  if (type === 'granted') return [];
  const holder = heldMs === undefined ? undefined : before.holders.find((candidate) => candidate.fence === fence);
  return holder === undefined ? [entry] : endedHold(entry, grantOf(holder), before.fence - fence);
}

/** A page shows only waiters that join or leave. Grants are in the lock. */
export function eventsOfPage({ key, before, after, at }: PageChange): ChangeEvents {
  const changed = eventsInPage(before, after, at);
  const takenBefore = before.waiters.length + before.left.length;
  // A page has fewer than a hundred waiters, and each joins once and leaves once.
  const kinds = { queued: 0, 'wait-cancelled': 100, 'wait-timeout': 200 } as const;
  const entries = changed.filter(isShown).map((event, index) => {
    const nth = event.type === 'queued' ? takenBefore + index : before.left.length + index;
    const place = placeOf({ fence: event.fence, rev: after.number }, (kinds[event.type as 'queued'] ?? 300) + nth);
    return { key, place, event };
  });
  const staying = new Set(
    (before.closedAt === null && after.closedAt !== null ? movingUp(after) : after.waiters).map(
      ({ leaseId }) => leaseId,
    ),
  );
  const parkedBefore = new Set(before.waiters.filter(isParked).map(({ leaseId }) => leaseId));
  const left = new Map(after.left.map(({ leaseId, how }) => [leaseId, how]));
  const howOf = ({ leaseId, deadlineAt }: Waiter): EndedWait['how'] => {
    if (left.get(leaseId) === 'released') return 'cancelled';
    // A parked wait is given up at its deadline, or earlier because of a deadlock.
    return left.get(leaseId) === 'gave-up' && at < deadlineAt ? 'deadlock' : 'wait-timeout';
  };
  return {
    change: { key, before: unusedLock, after: unusedLock },
    entries,
    kept: entries,
    grants: [],
    endedWaits: before.waiters
      .filter(isParked)
      .filter(({ leaseId }) => !staying.has(leaseId))
      .map((waiter) => ({ waiter, how: howOf(waiter) })),
    // The SDK polls for a while before it parks, so most of them already have their place in the page.
    parked: after.waiters.filter(isParked).filter(({ leaseId }) => !parkedBefore.has(leaseId)),
  };
}

const isParked = <T extends Holder | Waiter>(claim: T): claim is Parked<T> => claim.notify !== undefined;

function grantsToDeliver(before: LockState, after: LockState): Parked<Holder>[] {
  const fences = new Set(before.holders.map(({ fence }) => fence));
  // A holder that got the lock at once was answered directly. It is notified only if it asked for that.
  return after.holders
    .filter(isParked)
    .filter((holder) => holder.queuedAt !== undefined || isAlwaysNotified(holder))
    .filter(({ fence }) => !fences.has(fence));
}

function endedWaits(before: LockState, after: LockState): EndedWait[] {
  const parked = before.queue.filter(isParked);
  if (parked.length === 0) return [];
  const staying = new Set([...after.queue, ...after.holders].map(({ leaseId }) => leaseId));
  return parked
    .filter(({ leaseId }) => !staying.has(leaseId))
    .map((waiter) => {
      const ended = after.ended.find(({ leaseId }) => leaseId === waiter.leaseId)?.how;
      if (ended === 'released') return { waiter, how: 'cancelled' };
      if (ended === 'deadlock') return { waiter, how: 'deadlock' };
      // Without an ending of its own, a waiter that is present is dropped before its deadline only if its session is over.
      const isEarly = after.changedAt < Math.min(waiter.deadlineAt, waiter.presentUntil);
      return { waiter, how: isEarly && waiter.sessionId !== undefined ? 'session-lost' : 'wait-timeout' };
    });
}

/** An event in the shape in which history and watchers show it: instants are ISO 8601. */
export const historyView = ({ at, ...event }: HistoryEvent) => ({ at: toIso(epochMs(at)), ...event });

/**
 * The same event for the bus. A bus has events of all namespaces and may deliver twice. So the event has the names, and an
 * id that is always the same.
 */
export const busEventOf = ({ key, place, event }: HistoryEntry): BusEvent => ({
  detailType: event.type,
  time: epochMs(event.at),
  detail: { id: `${key.namespace}/${key.name}/${place}`, ...namesOf(key), ...historyView(event) },
});

export const namesOf = ({ namespace, name }: LockKey) => ({ namespace, lock: name });
