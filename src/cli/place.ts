import type { AcquireOptions, LockView, Waiting } from '../client/index.ts';
import { defined } from '../tools/collections.ts';
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
  /** Since when the first holder has the lock, as the service says it. */
  readonly heldSince: string | undefined;
  /** When the lock is expected to be granted to us. Undefined if nobody knows. */
  readonly etaAtMs: number | undefined;
}

/** How long we have waited, and when we give up. The end is undefined if this wait has none. */
export interface Wait {
  readonly beganMs: number;
  readonly endsMs: number | undefined;
}

/**
 * The line that a spinner shows. A holder may renew for as long as it likes, so the end of its lease is no estimate of
 * ours, and is not shown.
 */
export function describePlace(lock: string, place: Place | undefined, wait: Wait, nowMs: number): string {
  const parts = [`waiting for ${lock}`];
  if (place?.position !== undefined) parts.push(`place ${place.position} of ${place.queueDepth}`);
  if (place?.holder !== undefined) parts.push(`held by ${harmless(place.holder)}${sinceOf(place.heldSince)}`);
  if (place?.etaAtMs !== undefined && place.etaAtMs > nowMs)
    parts.push(`about ${formatMs(place.etaAtMs - nowMs)} to go`);
  if (wait.endsMs === undefined) parts.push(`waited ${formatMs(nowMs - wait.beganMs)}`);
  else parts.push(`gives up in ${formatMs(Math.max(0, wait.endsMs - nowMs))}`);
  return parts.join(' · ');
}

/** The time of day here. A hold that began on another day also shows the day. */
function sinceOf(instant: string | undefined): string {
  if (instant === undefined) return '';
  const since = new Date(instant);
  const time = since.toTimeString().slice(0, 8);
  const isToday = since.toDateString() === new Date().toDateString();
  return ` since ${isToday ? time : `${since.toDateString().slice(4, 10)} ${time}`}`;
}

/** The place that a 202 answer reports. It does not say since when the lock is held. */
export const placeOfWaiting = (waiting: Waiting, nowMs: number): Place => ({
  position: waiting.position,
  queueDepth: waiting.queueDepth,
  holder: waiting.holders[0]?.owner,
  heldSince: undefined,
  etaAtMs: waiting.etaMs === null ? undefined : nowMs + waiting.etaMs,
});

/**
 * The place according to a view that every caller may see. Our waiter is the one with our owner name. This is wrong
 * only if another caller uses the same name.
 */
export function placeOfView(view: LockView, owner: string): Place {
  return {
    position: view.queue.find((waiter) => waiter.owner === owner)?.position,
    queueDepth: view.queueDepth,
    holder: view.holders[0]?.owner,
    heldSince: view.holders[0]?.acquiredAt,
    etaAtMs: undefined,
  };
}

/** Estimates from how fast the queue moved so far. While it does not move, there is no estimate. */
export class Progress {
  #first: { readonly position: number; readonly atMs: number } | undefined;
  #moved: { readonly position: number; readonly atMs: number } | undefined;

  /** Returns when our turn is expected. */
  note(position: number | undefined, atMs: number): number | undefined {
    if (position === undefined) return undefined;
    this.#first ??= { position, atMs };
    if (position < (this.#moved ?? this.#first).position) this.#moved = { position, atMs };
    if (this.#moved === undefined) return undefined;
    const perPlaceMs = (this.#moved.atMs - this.#first.atMs) / (this.#first.position - this.#moved.position);
    return this.#moved.atMs + this.#moved.position * perPlaceMs;
  }
}

/** Waits with a spinner that shows the place in the queue. A signal that asks to end also ends the wait. */
export async function showingPlace<T>(
  { connection, terminal, signals }: Invocation,
  lock: string,
  /** How long the wait may take. Undefined if it has no end, 0 if the lock is only tried. */
  waitMs: number | undefined,
  wait: (options: Pick<AcquireOptions, 'onWaiting' | 'signal'>) => Promise<T>,
): Promise<T> {
  const { service, owner } = connection();
  const beganMs = performance.now();
  const waited: Wait = { beganMs, endsMs: waitMs ? beganMs + waitMs : undefined };
  const progress = new Progress();
  let place: Place | undefined;
  const spinner = terminal.spinner(() => describePlace(lock, place, waited, performance.now()));
  const look = async () => {
    try {
      const seen = placeOfView(await service.inspect(lock), owner);
      const moving = progress.note(seen.position, performance.now());
      // Keep the service's estimate until the queue has moved.
      const kept = seen.position === place?.position ? place?.etaAtMs : undefined;
      place = { ...seen, etaAtMs: moving ?? kept };
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
        place = { ...placeOfWaiting(waiting, performance.now()), ...defined({ heldSince: place?.heldSince }) };
      },
    });
  } finally {
    clearInterval(looking);
    clearTimeout(first);
    spinner.stop();
  }
}
