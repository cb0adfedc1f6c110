import type { LockKey } from '../../src/lock/state.ts';
import { toNotifyItem, toText } from '../../src/queue/claim-item.ts';
import { layoutKnown } from '../../src/queue/lock-item.ts';
import { pageItemKey } from '../../src/queue/page-item.ts';
import type { Page } from '../../src/queue/pages.ts';

/** A page as the store would have written it, one step after the other. */
export function toPageItem(lock: LockKey, page: Page, changedAt: number): Record<string, unknown> {
  const { number, waiters, left, closedAt, fence } = page;
  const gone = left.map(({ leaseId, queuedAt }) => JSON.stringify([leaseId, 'gone', 1, null, queuedAt, 0]));
  return {
    ...pageItemKey({ lock, number }),
    lv: layoutKnown,
    // A waiter whose wait had ended may have joined again, behind its earlier place.
    w: [...gone, ...waiters.map(toText)],
    ...Object.fromEntries(left.map(({ leaseId, how }) => [`k-${leaseId}`, how === 'released' ? 0 : -1])),
    ...Object.fromEntries(waiters.map(({ leaseId, presentUntil }) => [`k-${leaseId}`, presentUntil])),
    ...Object.fromEntries(
      waiters.flatMap(({ leaseId, notify }) => (notify === undefined ? [] : [[`n-${leaseId}`, toNotifyItem(notify)]])),
    ),
    ...(waiters.some(({ notify }) => notify !== undefined) ? { n: 'parked' } : {}),
    ...(closedAt === null ? {} : { c: closedAt }),
    f: fence,
    at: changedAt,
  };
}
