/** What the page knows of one lock. Between two reads of the lock, events keep it up to date. */
import type { HolderDetail, LockSummary, LockView, WaiterView } from '../../client/index.ts';
import { type Happening, isBrokenWait, isEnding, merged } from './events.ts';

export interface HolderPicture {
  readonly owner: string;
  readonly fence: number;
  readonly permits: number;
  readonly since: number;
  /** When the lease ends unless it is renewed. Null if that isn't known yet, or if the lease ends with a session. */
  readonly endsAt: number | null;
  /** The length of the whole lease. It may be an estimate. */
  readonly leaseMs: number | null;
  readonly sessionId?: string | undefined;
  readonly metadata?: Readonly<Record<string, string>> | undefined;
}

export interface WaiterPicture {
  readonly owner: string;
  readonly since: number;
  readonly permits: number;
  readonly sessionId?: string | undefined;
}

export interface LockPicture {
  readonly lock: string;
  readonly fence: number;
  readonly limit: number;
  readonly holders: readonly HolderPicture[];
  readonly queueDepth: number;
  /** The front of the queue, if it was read. */
  readonly queue: readonly WaiterPicture[];
  /** Since when the next waiter waits. */
  readonly waitingSince: number | null;
  /** When the fields above were read, by the service's clock. Older events do not change them. */
  readonly lookedAt: number;
  /** True if events came since then. The fields above are then a guess. */
  readonly isGuess: boolean;
  /** Leases that expired while nobody waited. There is no event for that until another caller comes. */
  readonly lapsed: readonly { readonly fence: number; readonly at: number }[];
  /** Oldest first. */
  readonly events: readonly Happening[];
  /** True if the history was read. Then `events` has events from before this page was opened. */
  readonly hasHistory: boolean;
}

/** Enough to draw a few busy minutes. The lock that has its own view keeps more. */
export const eventsKept = 300;
export const eventsKeptOfOne = 2_000;

export const unknownLock = (lock: string): LockPicture => ({
  lock,
  fence: 0,
  limit: 1,
  holders: [],
  queueDepth: 0,
  queue: [],
  waitingSince: null,
  lookedAt: 0,
  isGuess: true,
  lapsed: [],
  events: [],
  hasHistory: false,
});

export const isHeld = ({ holders }: LockPicture): boolean => holders.length > 0;
export const isReadWrite = ({ limit }: LockPicture): boolean => limit > 1_000;

export const permitsHeld = ({ holders }: LockPicture): number => holders.reduce((sum, { permits }) => sum + permits, 0);

/** The time of the last known event. */
export const lastEventAt = ({ events }: LockPicture): number => events.at(-1)?.at ?? 0;

function pictureHolder(holder: HolderDetail, at: number, known: HolderPicture | undefined): HolderPicture {
  const { owner, fence, permits, remainingMs, sessionId, metadata } = holder;
  const since = Date.parse(holder.acquiredAt);
  const endsAt = remainingMs === null ? null : at + remainingMs;
  return {
    owner,
    fence,
    permits,
    since,
    endsAt,
    leaseMs: leaseOf(since, endsAt, at, known),
    sessionId,
    metadata,
  };
}

/** The service does not show the length of a lease. Before the first renewal, it is the time from the grant to the end. */
function leaseOf(since: number, endsAt: number | null, at: number, known: HolderPicture | undefined): number | null {
  if (endsAt === null) return null;
  const seenMs = Math.max(known?.leaseMs ?? 0, endsAt - at);
  const wasRenewed = known?.endsAt != null && endsAt - known.endsAt > 500;
  const wholeMs = endsAt - since;
  if (wasRenewed) return Math.max(endsAt - at, Math.min(known?.leaseMs ?? wholeMs, wholeMs));
  return known?.leaseMs == null ? Math.max(wholeMs, endsAt - at) : seenMs;
}

const pictureWaiter = ({ owner, waitingMs, permits, sessionId }: WaiterView, at: number): WaiterPicture => ({
  owner,
  since: at - waitingMs,
  permits,
  sessionId,
});

/** Takes the state of the lock from `inspect` or from a list. */
export function withLook(known: LockPicture, seen: LockView | LockSummary, at: number): LockPicture {
  if (at < known.lookedAt) return known;
  const byFence = new Map(known.holders.map((holder) => [holder.fence, holder]));
  const holders = seen.holders.map((holder) => pictureHolder(holder, at, byFence.get(holder.fence)));
  const { fence, limit, queueDepth } = seen;
  const shared = {
    ...known,
    fence,
    limit,
    holders,
    queueDepth,
    lookedAt: at,
    isGuess: false,
    lapsed: lapsedBy(known, holders, at),
  };
  if ('queue' in seen) {
    const queue = seen.queue.map((waiter) => pictureWaiter(waiter, at));
    return { ...shared, queue, waitingSince: queue[0]?.since ?? null };
  }
  // A list does not show the queue. If the length is the same, the known queue is probably still right.
  const queue = queueDepth === known.queueDepth ? known.queue : [];
  return { ...shared, queue, waitingSince: queueDepth > 0 ? at - seen.longestWaitMs : null };
}

const lapsedKept = 50;

function lapsedBy({ lapsed, holders: before }: LockPicture, holders: readonly HolderPicture[], at: number) {
  const still = new Set(holders.map(({ fence }) => fence));
  const gone = before.filter(({ fence, endsAt }) => !still.has(fence) && endsAt && endsAt <= at);
  return [...lapsed, ...gone.map(({ fence, endsAt }) => ({ fence, at: endsAt ?? at }))].slice(-lapsedKept);
}

export const withHistory = (known: LockPicture, events: readonly Happening[], max = eventsKept): LockPicture => ({
  ...known,
  events: merged(known.events, events, max),
  hasHistory: true,
});

export function withEvent(known: LockPicture, event: Happening, max = eventsKept): LockPicture {
  const events = merged(known.events, [event], max);
  if (events === known.events) return known;
  const next = { ...known, events, isGuess: true };
  // If the lock was read after the event, it already shows the event. The two clocks may differ, so the lock is read again anyway.
  return event.at <= known.lookedAt ? next : changed(next, event);
}

function changed(known: LockPicture, event: Happening): LockPicture {
  if (event.type === 'granted') return granted(known, event);
  if (isEnding(event.type)) {
    return { ...known, holders: known.holders.filter(({ fence }) => fence !== event.fence) };
  }
  if (isBrokenWait(event.type)) return withoutWaiter(known, event.owner);
  const waiter = { owner: event.owner, since: event.at, permits: 1 };
  return {
    ...known,
    queueDepth: known.queueDepth + 1,
    queue: known.queue.length === known.queueDepth ? [...known.queue, waiter] : known.queue,
    waitingSince: known.waitingSince ?? event.at,
  };
}

function granted(known: LockPicture, { owner, fence = 0, at, waitedMs = 0 }: Happening): LockPicture {
  const holder = { owner, fence, permits: 1, since: at, endsAt: null, leaseMs: null };
  const next = {
    ...known,
    fence: Math.max(known.fence, fence),
    holders: withHolder(known, holder),
  };
  return waitedMs > 0 || known.queue[0]?.owner === owner ? withoutWaiter(next, owner) : next;
}

/** A mutex has one holder. The event about the end of the holder before may still be on its way. */
function withHolder({ holders, limit, fence }: LockPicture, holder: HolderPicture): readonly HolderPicture[] {
  if (limit === 1) return holder.fence > fence ? [holder] : holders;
  return holders.some((one) => one.fence === holder.fence) ? holders : [...holders, holder];
}

function withoutWaiter(known: LockPicture, owner: string): LockPicture {
  const queueDepth = Math.max(0, known.queueDepth - 1);
  const at = known.queue.findIndex((waiter) => waiter.owner === owner);
  const queue = at < 0 ? known.queue : known.queue.toSpliced(at, 1);
  return {
    ...known,
    queueDepth,
    queue,
    waitingSince: queueDepth ? (queue[0]?.since ?? known.waitingSince) : null,
  };
}
