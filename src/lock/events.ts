import { type Holder, type LockState, leaseEndings, revocationOf, type Waiter } from './state.ts';
import { waitedMs } from './view.ts';

/** The events that others see: in the history, for watchers and on the bus. */
export const eventTypes = ['queued', 'granted', ...leaseEndings, 'wait-cancelled', 'wait-timeout'] as const;
export type EventType = (typeof eventTypes)[number];

/** One thing that happened to a lock. It never has a leaseId, because many people and programs read events. */
export interface LockEvent {
  readonly at: number;
  /** Renewals are not shown to others, because there are too many. */
  readonly type: EventType | 'renewed';
  readonly owner: string;
  /** The fence of the grant. For a waiter, the lock's fence at that time. */
  readonly fence: number;
  readonly waitedMs?: number;
  readonly heldMs?: number;
  readonly reason?: string;
  /** Who revoked the lease. */
  readonly by?: string;
}

export const byLease = <T extends { readonly leaseId: string }>(entries: readonly T[]): Map<string, T> =>
  new Map(entries.map((entry) => [entry.leaseId, entry]));

/**
 * What happened between two states of a lock. This is the only definition of its events. The notifier uses it for the
 * old and the new image in the stream. Endings come first, then grants, then arrivals.
 */
export function eventsBetween(before: LockState, next: LockState): LockEvent[] {
  const at = next.changedAt;
  const endings = byLease(next.ended);
  const holdersBefore = byLease(before.holders);
  const holdersNext = byLease(next.holders);
  const queueBefore = byLease(before.queue);
  const queueNext = byLease(next.queue);
  const events: LockEvent[] = [];

  for (const holder of before.holders) {
    if (holdersNext.has(holder.leaseId)) continue;
    const ended = endings.get(holder.leaseId);
    // A lock remembers only its latest endings. If a lease is gone but not among them, it expired together with many others.
    const how = ended?.how ?? 'expired';
    events.push({
      at,
      type: how === 'deadlock' ? 'released' : how,
      fence: holder.fence,
      owner: holder.owner,
      heldMs: Math.max(0, at - holder.acquiredAt),
      ...revocationOf(ended ?? {}),
    });
  }
  for (const waiter of before.queue) {
    if (queueNext.has(waiter.leaseId) || holdersNext.has(waiter.leaseId)) continue;
    const how = endings.get(waiter.leaseId)?.how;
    events.push({
      at,
      type: how === 'released' || how === 'deadlock' ? 'wait-cancelled' : 'wait-timeout',
      fence: next.fence,
      owner: waiter.owner,
      waitedMs: waitedMs(waiter, at),
      ...(how === 'deadlock' ? { reason: 'deadlock' } : {}),
    });
  }
  for (const holder of next.holders) {
    const earlier = holdersBefore.get(holder.leaseId);
    if (earlier === undefined) events.push(grantOf(holder));
    else if (earlier.expiresAt !== holder.expiresAt) {
      events.push({ at, type: 'renewed', fence: holder.fence, owner: holder.owner });
    }
  }
  // A waiter that moved up had its `queued` event when it joined behind the front. Nobody else joins in the same write.
  const isMovedUp = before.behind !== undefined && (next.behind?.first ?? 0) > before.behind.first;
  for (const waiter of isMovedUp ? [] : next.queue) {
    if (!queueBefore.has(waiter.leaseId)) events.push(queuedEvent(waiter, next.fence));
  }
  return events;
}

/** The event with which a hold begins. It is always the same, because none of its fields changes while the hold lasts. */
export const grantOf = (holder: Holder): LockEvent & { readonly type: 'granted' } => ({
  at: holder.acquiredAt,
  type: 'granted',
  fence: holder.fence,
  owner: holder.owner,
  waitedMs: waitedMs(holder, holder.acquiredAt),
});

export const queuedEvent = (waiter: Waiter, fence: number): LockEvent => ({
  at: waiter.queuedAt,
  type: 'queued',
  fence,
  owner: waiter.owner,
});
