/**
 * What a change of a lock means to others: derived here and nowhere else, from the old and the new image alone, so
 * that a change which is shown twice means the same twice.
 */
import { eventsBetween, type LockEvent } from '../lock/events.ts';
import type { Holder, LockState, Notify, Waiter } from '../lock/state.ts';
import type { HistoryEntry, HistoryEvent, HistoryType } from '../store/history-store.ts';
import type { LockKey } from '../store/lock-store.ts';
import { epochMs, toIso } from '../time/clock.ts';
import type { LockChange } from './lock-change.ts';
import type { BusEvent } from './ports.ts';

export type Told<T> = T & { readonly notify: Notify };

/** A parked waiter that left the queue without a grant. */
export interface EndedWait {
  readonly waiter: Told<Waiter>;
  readonly how: 'cancelled' | 'timeout';
}

export interface LockNews {
  readonly change: LockChange;
  /** What goes into the history, onto the bus and to watchers. */
  readonly entries: readonly HistoryEntry[];
  /** Parked waiters whose turn has come. */
  readonly grants: readonly Told<Holder>[];
  readonly endedWaits: readonly EndedWait[];
}

export function newsOf(change: LockChange): LockNews {
  const { key, before, after } = change;
  const entries = eventsBetween(before, after)
    .filter(isOfInterest)
    .map((event, index) => ({ key, place: placeOf(after, index), event: shown(event) }));
  return { change, entries, grants: grantsToTell(before, after), endedWaits: endedWaits(before, after) };
}

type Interesting = LockEvent & { readonly type: HistoryType };
const isOfInterest = (event: LockEvent): event is Interesting => event.type !== 'renewed';

/** A fence never falls and each write raises the revision, so these sort as things happened, whatever the clocks said. */
const placeOf = ({ fence, rev }: LockState, index: number): string =>
  `${String(fence).padStart(16, '0')}.${String(rev).padStart(16, '0')}.${String(index).padStart(4, '0')}`;

/** Two hosts wrote the two ends of a span; their clocks may differ by more than it lasted. */
const span = (ms: number): number => Math.max(0, ms);

function shown({ at, type, fence, owner, heldMs, waitedMs, reason }: Interesting): HistoryEvent {
  return {
    at,
    type,
    fence,
    owner,
    ...(heldMs === undefined ? {} : { heldMs: span(heldMs) }),
    ...(waitedMs === undefined ? {} : { waitedMs: span(waitedMs) }),
    ...(reason === undefined ? {} : { reason }),
  };
}

const isParked = <T extends Holder | Waiter>(claim: T): claim is Told<T> => claim.notify !== undefined;

function grantsToTell(before: LockState, after: LockState): Told<Holder>[] {
  const fences = new Set(before.holders.map(({ fence }) => fence));
  // Who got the lock at once was answered directly; only who came from the queue has to be told.
  return after.holders.filter(isParked).filter(({ fence, queuedAt }) => queuedAt !== undefined && !fences.has(fence));
}

function endedWaits(before: LockState, after: LockState): EndedWait[] {
  const parked = before.queue.filter(isParked);
  if (parked.length === 0) return [];
  const staying = new Set([...after.queue, ...after.holders].map(({ leaseId }) => leaseId));
  return parked
    .filter(({ leaseId }) => !staying.has(leaseId))
    .map((waiter) => {
      const cancelled = after.ended.some(({ leaseId, how }) => leaseId === waiter.leaseId && how === 'released');
      return { waiter, how: cancelled ? 'cancelled' : 'timeout' };
    });
}

/** An event in the shape in which history and watchers show it: instants are ISO 8601. */
export const historyView = ({ at, ...event }: HistoryEvent) => ({ at: toIso(epochMs(at)), ...event });

/** The same event for the bus, which carries all namespaces and may deliver twice: hence the names, and an id to know it by. */
export const busEventOf = ({ key, place, event }: HistoryEntry): BusEvent => ({
  detailType: event.type,
  time: epochMs(event.at),
  detail: { id: `${key.namespace}/${key.name}/${place}`, ...namesOf(key), ...historyView(event) },
});

export const namesOf = ({ namespace, name }: LockKey) => ({ namespace, lock: name });
