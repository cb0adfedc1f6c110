import type { AcquireOptions, LockView, Waiting } from '../client/index.ts';
import type { Connection } from './connection.ts';
import { formatMs } from './duration.ts';
import { harmless } from './table.ts';
import type { Terminal } from './terminal.ts';

/** The service tells of the place about every 20 s; somebody who watches wants to know sooner. Only a terminal costs these reads. */
const lookMs = 2_000;

/** What is known of a wait, at a moment of this process's clock. */
export interface Place {
  readonly position: number | undefined;
  readonly queueDepth: number;
  readonly holder: string | undefined;
  /** When the turn is expected to come. */
  readonly etaAtMs: number | undefined;
  /** When the lock is free at the latest, unless its holder renews. */
  readonly endsAtMs: number | undefined;
}

/** The line that a spinner shows. */
export function describePlace(lock: string, place: Place | undefined, waitedMs: number, nowMs: number): string {
  const parts = [`waiting for ${lock}`];
  if (place?.position !== undefined) parts.push(`place ${place.position} of ${place.queueDepth}`);
  if (place?.holder !== undefined) parts.push(`held by ${harmless(place.holder)}`);
  if (place?.etaAtMs !== undefined) parts.push(`ETA ${formatMs(Math.max(0, place.etaAtMs - nowMs))}`);
  else if (place?.endsAtMs !== undefined) {
    parts.push(`ETA ${formatMs(Math.max(0, place.endsAtMs - nowMs))} unless renewed`);
  }
  parts.push(formatMs(waitedMs));
  return parts.join(' · ');
}

/** The place as a 202 tells it. */
export const placeOfWaiting = (waiting: Waiting, nowMs: number): Place => ({
  position: waiting.position,
  queueDepth: waiting.queueDepth,
  holder: waiting.holders[0]?.owner,
  etaAtMs: waiting.etaMs === null ? undefined : nowMs + waiting.etaMs,
  endsAtMs: endOf(waiting.holders, nowMs),
});

/** The place, from what every caller may see. Ours is the waiter with our owner. It is the only one unless another caller has the same name. */
export function placeOfView(view: LockView, owner: string, nowMs: number): Place {
  const mine = view.queue.find((waiter) => waiter.owner === owner);
  return {
    position: mine?.position,
    queueDepth: view.queueDepth,
    holder: view.holders[0]?.owner,
    etaAtMs: undefined,
    // Only the next waiter can tell its time from the present lease.
    endsAtMs: mine?.position === 1 ? endOf(view.holders, nowMs) : undefined,
  };
}

const endOf = (holders: readonly { readonly remainingMs: number | null }[], nowMs: number): number | undefined => {
  const left = holders.map(({ remainingMs }) => remainingMs).filter((ms) => ms !== null);
  return left.length === 0 ? undefined : nowMs + Math.min(...left);
};

/** Waits with a spinner that shows the place in the queue. */
export async function showingPlace<T>(
  { service, owner }: Pick<Connection, 'service' | 'owner'>,
  terminal: Terminal,
  lock: string,
  wait: (options: Required<Pick<AcquireOptions, 'onWaiting'>>) => Promise<T>,
): Promise<T> {
  const beganMs = performance.now();
  let place: Place | undefined;
  const spinner = terminal.spinner(() => {
    const nowMs = performance.now();
    return describePlace(lock, place, nowMs - beganMs, nowMs);
  });
  const look = async () => {
    try {
      const seen = placeOfView(await service.inspect(lock), owner, performance.now());
      // An estimate of the service is better than none, until the queue has moved.
      const etaAtMs = seen.position === place?.position ? place?.etaAtMs : undefined;
      place = { ...seen, etaAtMs };
    } catch {
      // Who waits may not be allowed to look; the wait goes on without a place to show.
    }
  };
  const looking = spinner.turns ? setInterval(() => void look(), lookMs) : undefined;
  // Soon after the start, when the request that queues us has arrived.
  const first = spinner.turns ? setTimeout(() => void look(), 300) : undefined;
  try {
    return await wait({
      onWaiting: (waiting) => {
        place = placeOfWaiting(waiting, performance.now());
      },
    });
  } finally {
    clearInterval(looking);
    clearTimeout(first);
    spinner.stop();
  }
}
