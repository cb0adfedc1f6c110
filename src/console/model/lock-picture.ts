/** What is known of one lock, kept up to date between two looks at it by the events that arrive. */
import type { HolderDetail, LockSummary, LockView, WaiterView } from '../../client/index.ts';
import { type Happening, isBrokenWait, isEnding, merged } from './events.ts';

export interface HolderPicture {
  readonly owner: string;
  readonly fence: number;
  readonly permits: number;
  readonly since: number;
  /** When the lease ends unless it is renewed; null where that isn't known yet, or a session bounds it. */
  readonly endsAt: number | null;
  /** What a full lease is, as far as one can tell. */
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
  /** The front of the queue, where it was looked at. */
  readonly queue: readonly WaiterPicture[];
  /** Since when the next one waits. */
  readonly waitingSince: number | null;
  /** By the service's clock, when the facts above were read: older events change nothing about them. */
  readonly lookedAt: number;
  /** Whether events came since: the facts above are then a good guess. */
  readonly isGuess: boolean;
  /** Leases that ran out while nobody wanted the lock: there is no event about that before somebody does. */
  readonly lapsed: readonly { readonly fence: number; readonly at: number }[];
  /** What happened, oldest first. */
  readonly events: readonly Happening[];
  /** Whether the history was read, so that `events` reaches back before this page was opened. */
  readonly hasHistory: boolean;
}

/** Enough for the picture of a few busy minutes. The lock that is looked at closely keeps more. */
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

/** When something last happened to it, as far as is known. */
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

/** The service does not tell how long a lease was asked for. Until it is renewed, it is the span from the grant to the end. */
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

/** Takes over what a look at the lock, or a list with it, has shown. */
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
  // A list does not show the queue; what was known of it is better than nothing while its length is the same.
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

/** Takes in an event that has arrived. */
export function withEvent(known: LockPicture, event: Happening, max = eventsKept): LockPicture {
  const events = merged(known.events, [event], max);
  if (events === known.events) return known;
  const next = { ...known, events, isGuess: true };
  // What was read after it happened has it in it already, as far as two clocks can tell: so it is looked at again all the same.
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

/** A mutex has one holder: the end of the one before is told by an event of its own, which may still be on its way. */
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
