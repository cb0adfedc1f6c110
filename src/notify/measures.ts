import type { LockState } from '../lock/state.ts';
import { pageCount, queueSizes } from '../queue/pages.ts';
import type { ChangeEvents } from './change-events.ts';

/** The CloudWatch namespace of the service's own metrics. */
export const metricsNamespace = 'Holdfast';

export type MeasureName =
  | 'Grants'
  | 'Expiries'
  | 'QueueDepth'
  | 'WaitTime'
  | 'HoldTime'
  | 'HandOffLatency'
  | 'Refusals'
  | 'StaleFences'
  | 'EventsRefused'
  | 'FailedBatches';

/** One value of a metric. It has the namespace of the lock, if there is a lock. */
export interface Measure {
  readonly namespace?: string;
  readonly name: MeasureName;
  readonly unit: 'Count' | 'Milliseconds';
  readonly value: number;
}

/** What one change adds to the metrics. */
export function measuresOf({ change, entries }: ChangeEvents): Measure[] {
  const { namespace } = change.key;
  const count = (name: MeasureName, value = 1): Measure => ({ namespace, name, unit: 'Count', value });
  const time = (name: MeasureName, value: number): Measure => ({ namespace, name, unit: 'Milliseconds', value });
  const measures = entries.flatMap(({ event: { type, waitedMs = 0, heldMs } }) => {
    if (type === 'granted') return [count('Grants'), time('WaitTime', waitedMs)];
    const held = heldMs === undefined ? [] : [time('HoldTime', heldMs)];
    return type === 'expired' || type === 'session-lost' ? [count('Expiries'), ...held] : held;
  });
  const depth = depthOf(change.after);
  if (depthOf(change.before) !== depth) measures.push(count('QueueDepth', depth));
  return [...measures, ...handOffs(change).map((ms) => time('HandOffLatency', ms))];
}

/**
 * How long nobody held the lock before the next holder got it. Zero after a release, which grants in the same write. Otherwise the time
 * since the lease expired.
 */
function handOffs({ before, after }: ChangeEvents['change']): number[] {
  const staying = new Set(after.holders.map(({ leaseId }) => leaseId));
  const ends = before.holders.filter(({ leaseId }) => !staying.has(leaseId)).map(({ expiresAt }) => expiresAt);
  const fences = new Set(before.holders.map(({ fence }) => fence));
  const served = after.holders.filter(({ fence, queuedAt }) => queuedAt !== undefined && !fences.has(fence));
  const since = Math.max(...ends.filter((end) => end !== null), Number.NEGATIVE_INFINITY);
  return served.map(({ acquiredAt }) => (Number.isFinite(since) ? Math.max(0, acquiredAt - since) : 0));
}

/** The waiters of the front, and all pages counted as full. It is an upper bound if there are pages. */
const depthOf = (state: LockState): number => state.queue.length + pageCount(state) * queueSizes.page;
