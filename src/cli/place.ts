import type { AcquireOptions, LockView, Waiting } from '../client/index.ts';
import type { Invocation } from './command.ts';
import { formatMs } from './duration.ts';
import { harmless } from './table.ts';

/**
 * The service reports the place about every 20 s, and a person at a terminal wants to know sooner. Without a terminal
 * these reads do not happen.
 */
const lookMs = 2_000;

/** What we know about a wait. All times are on this process's clock. */
export interface Place {
  readonly position: number | undefined;
  readonly queueDepth: number;
  readonly holder: string | undefined;
  /** When the lock is expected to be granted to us. */
  readonly etaAtMs: number | undefined;
  /** The latest time at which the lock becomes free, if its holder does not renew. */
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

/** The place that a 202 answer reports. */
export const placeOfWaiting = (waiting: Waiting, nowMs: number): Place => ({
  position: waiting.position,
  queueDepth: waiting.queueDepth,
  holder: waiting.holders[0]?.owner,
  etaAtMs: waiting.etaMs === null ? undefined : nowMs + waiting.etaMs,
  endsAtMs: endOf(waiting.holders, nowMs),
});

/**
 * The place according to a view that every caller may see. Our waiter is the one with our owner name. This is wrong
 * only if another caller uses the same name.
 */
export function placeOfView(view: LockView, owner: string, nowMs: number): Place {
  const mine = view.queue.find((waiter) => waiter.owner === owner);
  return {
    position: mine?.position,
    queueDepth: view.queueDepth,
    holder: view.holders[0]?.owner,
    etaAtMs: undefined,
    // The end of the current lease says something only to the first waiter.
    endsAtMs: mine?.position === 1 ? endOf(view.holders, nowMs) : undefined,
  };
}

const endOf = (holders: readonly { readonly remainingMs: number | null }[], nowMs: number): number | undefined => {
  const left = holders.map(({ remainingMs }) => remainingMs).filter((ms) => ms !== null);
  return left.length === 0 ? undefined : nowMs + Math.min(...left);
};

/** Waits with a spinner that shows the place in the queue. A signal that asks to end also ends the wait. */
export async function showingPlace<T>(
  { connection, terminal, signals }: Invocation,
  lock: string,
  wait: (options: Pick<AcquireOptions, 'onWaiting' | 'signal'>) => Promise<T>,
): Promise<T> {
  const { service, owner } = connection();
  const beganMs = performance.now();
  let place: Place | undefined;
  const spinner = terminal.spinner(() => {
    const nowMs = performance.now();
    return describePlace(lock, place, nowMs - beganMs, nowMs);
  });
  const look = async () => {
    try {
      const seen = placeOfView(await service.inspect(lock), owner, performance.now());
      // Keep the service's estimate until the queue has moved.
      const etaAtMs = seen.position === place?.position ? place?.etaAtMs : undefined;
      place = { ...seen, etaAtMs };
    } catch {
      // A caller that may wait may still not be allowed to look. The wait goes on, and no place is shown.
    }
  };
  const looking = spinner.visible ? setInterval(() => void look(), lookMs) : undefined;
  // A short time after the start, so that our request has reached the queue.
  const first = spinner.visible ? setTimeout(() => void look(), 300) : undefined;
  try {
    return await wait({
      signal: signals.interrupted,
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
