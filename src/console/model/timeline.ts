/** The holders and waiters of a lock as bars over time. */
import { type Ending, type Happening, isBrokenWait, isEnding } from './events.ts';
import type { LockPicture } from './lock-picture.ts';

export interface HoldBar {
  readonly owner: string;
  readonly fence: number;
  readonly from: number;
  readonly to: number;
  /** `holding`: not over yet. `unseen`: over, but the page does not know how and when. */
  readonly end: Ending | 'holding' | 'unseen';
  readonly reason?: string | undefined;
  readonly lane: number;
}

export interface WaitBar {
  readonly owner: string;
  readonly from: number;
  readonly to: number;
  readonly end: 'granted' | 'wait-cancelled' | 'wait-timeout' | 'waiting';
  /** The fence of the grant that ended the wait. */
  readonly fence?: number | undefined;
  readonly reason?: string | undefined;
  readonly lane: number;
}

export interface Timeline {
  readonly from: number;
  readonly to: number;
  readonly holds: readonly HoldBar[];
  readonly holdLanes: number;
  readonly waits: readonly WaitBar[];
  readonly waitLanes: number;
  /** Waits without a lane. Only the length of the queue shows them. */
  readonly waitsHidden: number;
  /** The length of the queue from each instant on. */
  readonly depths: readonly { readonly at: number; readonly depth: number }[];
  /** Each grant with its fence, oldest first. */
  readonly fences: readonly { readonly at: number; readonly fence: number }[];
}

/** More lanes would not fit on a screen. The length of the queue is drawn for all waiters. */
export const waitLanesMax = 12;
/** If more permits of a semaphore are held, they share the last lanes. */
const holdLanesMax = 8;

type Unplaced<T> = Omit<T, 'lane'>;

/** If the end of a lease was not seen, its bar is at most this long. */
const unseenMs = 1_000;

/** The leases between `from` and `now`, even if the event of their grant is not known. */
export function holdsOf(
  { events, holders, lapsed, lookedAt }: LockPicture,
  from: number,
  now: number,
): Unplaced<HoldBar>[] {
  const grants = new Map<number, Happening>();
  const bars = new Map<number, Unplaced<HoldBar>>();
  const add = (fence: number, owner: string, start: number, to: number, end: HoldBar['end'], reason?: string) =>
    bars.has(fence) || bars.set(fence, { owner, fence, from: start, to, end, reason });
  for (const event of events) {
    const { type, owner, at, fence = 0, heldMs = 0, reason } = event;
    if (type === 'granted') grants.set(fence, event);
    if (isEnding(type)) add(fence, owner, grants.get(fence)?.at ?? at - heldMs, at, type, reason);
  }
  for (const { owner, fence, since } of holders) add(fence, owner, since, now, 'holding');
  for (const [fence, { owner, at }] of grants) {
    const lapse = lapsed.find((one) => one.fence === fence);
    if (lapse) add(fence, owner, at, lapse.at, 'expired');
    else if (at <= lookedAt) add(fence, owner, at, Math.min(at + unseenMs, now), 'unseen');
    else add(fence, owner, at, now, 'holding');
  }
  return overlapping([...bars.values()], from, now);
}

/** The bars that overlap the given time, in the order in which they began. */
const overlapping = <T extends { readonly from: number; readonly to: number }>(
  bars: readonly T[],
  from: number,
  to: number,
): T[] => bars.filter((bar) => bar.to >= from && bar.from <= to).sort((one, other) => one.from - other.from);

/** The waits between `from` and `now`, including those that are not over. */
export function waitsOf({ events, queue }: LockPicture, from: number, now: number): Unplaced<WaitBar>[] {
  const bars: Unplaced<WaitBar>[] = [];
  for (const { type, owner, at, fence, waitedMs = 0, reason } of events) {
    if ((type === 'granted' && waitedMs > 0) || isBrokenWait(type))
      bars.push({ owner, from: at - waitedMs, to: at, reason, fence, end: type as WaitBar['end'] });
  }
  for (const { owner, since } of queue) bars.push({ owner, from: since, to: now, end: 'waiting' });
  return overlapping(bars, from, now);
}

/** Gives each bar the first free lane, so bars do not overlap. Null if all lanes are taken. */
function placed<T extends { readonly from: number; readonly to: number }>(
  bars: readonly T[],
  lanesMax: number,
  gapMs: number,
): (T & { readonly lane: number | null })[] {
  const ends: number[] = [];
  return bars.map((bar) => {
    const free = ends.findIndex((end) => end <= bar.from);
    const lane = free >= 0 ? free : ends.length < lanesMax ? ends.length : null;
    if (lane !== null) ends[lane] = bar.to + gapMs;
    return { ...bar, lane };
  });
}

function depthsOf(
  waits: readonly Unplaced<WaitBar>[],
  unread: { count: number; since: number },
  from: number,
  now: number,
) {
  const steps = [
    { at: Math.max(unread.since, from), by: unread.count },
    ...waits.flatMap(({ from: start, to, end }) => [
      { at: Math.max(start, from), by: 1 },
      ...(end === 'waiting' ? [] : [{ at: to, by: -1 }]),
    ]),
  ];
  steps.sort((one, other) => one.at - other.at || one.by - other.by);
  const depths: { at: number; depth: number }[] = [{ at: from, depth: 0 }];
  let depth = 0;
  for (const { at, by } of steps) {
    depth = Math.max(0, depth + by);
    if (depths.at(-1)?.at === at) depths.pop();
    depths.push({ at, depth });
  }
  depths.push({ at: now, depth });
  return depths;
}

export function timelineOf(lock: LockPicture, windowMs: number, now: number): Timeline {
  const from = now - windowMs;
  // Two bars in one lane need a visible gap.
  const gapMs = windowMs / 400;
  const holds = placed(holdsOf(lock, from, now), holdLanesMax, 0).map((bar) => ({
    ...bar,
    lane: bar.lane ?? holdLanesMax - 1,
  }));
  const unplaced = waitsOf(lock, from, now);
  const waits = placed(unplaced, waitLanesMax, gapMs);
  const shown = waits.filter((bar): bar is WaitBar => bar.lane !== null);
  // Only a part of the queue was read. The waiters behind it joined after the last known one.
  const count = Math.max(0, lock.queueDepth - lock.queue.length);
  const unread = { count, since: lock.queue.at(-1)?.since ?? lock.waitingSince ?? now };
  const lanesOf = (bars: readonly { readonly lane: number }[]) =>
    bars.reduce((most, { lane }) => Math.max(most, lane + 1), 0);
  return {
    from,
    to: now,
    holds,
    holdLanes: Math.max(1, lanesOf(holds)),
    waits: shown,
    waitLanes: lanesOf(shown),
    waitsHidden: waits.length - shown.length + count,
    depths: depthsOf(unplaced, unread, from, now),
    fences: lock.events
      .filter(({ type, at }) => type === 'granted' && at >= from)
      .map(({ at, fence = 0 }) => ({ at, fence })),
  };
}
