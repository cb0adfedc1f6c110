import { byLease, type LockEvent, queuedEvent } from '../lock/events.ts';
import { waitedMs } from '../lock/view.ts';
import { movingUp, type Page } from './pages.ts';

/** What happened between two states of a page. When a page is closed, its absent waiters have left and the others move up. */
export function eventsInPage(before: Page, next: Page, at: number): LockEvent[] {
  const stayed = byLease(next.waiters);
  const known = byLease(before.waiters);
  const how = new Map(next.left.map((entry) => [entry.leaseId, entry.how]));
  const isClosedNow = before.closedAt === null && next.closedAt !== null;
  const moved = byLease(isClosedNow ? movingUp(next) : next.waiters);
  const { fence } = next;
  const left = before.waiters.filter(({ leaseId }) => !stayed.has(leaseId));
  const dropped = isClosedNow ? next.waiters.filter(({ leaseId }) => !moved.has(leaseId)) : [];
  return [
    ...[...left, ...dropped].map((waiter): LockEvent => {
      const type = how.get(waiter.leaseId) === 'released' ? 'wait-cancelled' : 'wait-timeout';
      return { at, type, fence, owner: waiter.owner, waitedMs: waitedMs(waiter, at) };
    }),
    ...next.waiters.filter(({ leaseId }) => !known.has(leaseId)).map((waiter) => queuedEvent(waiter, fence)),
  ];
}
