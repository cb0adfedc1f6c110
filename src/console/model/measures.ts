/** Says whether a lock is a bottleneck: it compares how long callers wait with how long they hold. */
import { endings } from './events.ts';
import { isReadWrite, type LockPicture } from './lock-picture.ts';
import { holdsOf, waitsOf } from './timeline.ts';

export interface Measures {
  readonly grants: number;
  readonly meanHoldMs: number | null;
  /** Over all callers that were granted, left, or wait now. A caller that found the lock free counts as 0. */
  readonly meanWaitMs: number | null;
  readonly longestWaitMs: number;
  /** The part of the time in which it was held, from 0 to 1. */
  readonly heldShare: number;
  /** How many leases ended in each way, in the order of `endings`. */
  readonly ended: readonly number[];
  /** Says whether the lock is a bottleneck. `words` says the same to people. */
  readonly weight: 'idle' | 'easy' | 'some' | 'bottleneck';
  readonly words: string;
}

const meanOf = (values: readonly number[]): number | null =>
  values.length === 0 ? null : values.reduce((sum, value) => sum + value, 0) / values.length;

/** The time that at least one bar covers. */
function covered(bars: readonly { readonly from: number; readonly to: number }[], from: number): number {
  let total = 0;
  let until = from;
  for (const bar of bars) {
    total += Math.max(0, bar.to - Math.max(bar.from, until));
    until = Math.max(until, bar.to);
  }
  return total;
}

export function measuresOf(lock: LockPicture, windowMs: number, now: number): Measures {
  const from = now - windowMs;
  const holds = holdsOf(lock, from, now);
  const known = holds.filter(({ end }) => end !== 'unseen');
  const grants = lock.events.filter(({ type, at }) => type === 'granted' && at >= from);
  const waits = waitsOf(lock, from, now);
  const waitsMs = [
    ...grants.filter(({ waitedMs = 0 }) => waitedMs === 0).map(() => 0),
    ...waits.map((bar) => bar.to - bar.from),
  ];
  const meanHoldMs = meanOf(known.map((bar) => bar.to - bar.from));
  const meanWaitMs = meanOf(waitsMs);
  return {
    grants: grants.length,
    meanHoldMs,
    meanWaitMs,
    longestWaitMs: Math.max(0, ...waitsMs),
    heldShare: Math.min(1, covered(holds, from) / windowMs),
    ended: endings.map((how) => holds.filter((bar) => bar.end === how && bar.to >= from).length),
    ...verdictOf(meanWaitMs, meanHoldMs),
  };
}

/** Waits that are short compared with holds are no problem. If they are twice as long, the lock limits how fast its callers work. */
const shortWaits = 0.25;
const longWaits = 2;

function verdictOf(waitMs: number | null, holdMs: number | null): Pick<Measures, 'weight' | 'words'> {
  if (waitMs === null || holdMs === null) return { weight: 'idle', words: 'Nobody used this lock in this time.' };
  if (waitMs === 0) return { weight: 'easy', words: 'Nobody had to wait: this lock is not a bottleneck.' };
  const ratio = waitMs / Math.max(1, holdMs);
  if (ratio < shortWaits) return { weight: 'easy', words: 'Waits are short against holds: hardly a bottleneck.' };
  if (ratio < longWaits)
    return { weight: 'some', words: 'Waiting takes about as long as holding: this lock slows its users.' };
  const times = ratio >= 10 ? Math.round(ratio) : Math.round(ratio * 10) / 10;
  return {
    weight: 'bottleneck',
    words: `Waiting takes ${times} times as long as holding: this lock is the bottleneck.`,
  };
}

/** The estimate uses this many of the last leases. */
const estimateOver = 30;

/** Estimates how long each place in the queue will wait, from the length of recent leases. Undefined if nothing is known. */
export function estimator(lock: LockPicture, now: number): ((position: number) => number) | undefined {
  const ended = holdsOf(lock, 0, now)
    .filter(({ end }) => end !== 'holding' && end !== 'unseen')
    .slice(-estimateOver);
  const meanMs = meanOf(ended.map((bar) => bar.to - bar.from));
  if (meanMs === null) return undefined;
  const atOnce = isReadWrite(lock) ? 1 : Math.max(1, lock.limit);
  const soonest = lock.holders.reduce((left, { since }) => Math.min(left, Math.max(0, meanMs - (now - since))), meanMs);
  return (position) => soonest + (Math.max(0, position - 1) * meanMs) / atOnce;
}
