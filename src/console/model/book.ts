/** Every lock that the page knows, and the order in which it shows them. */
import type { LockSummary, LockView } from '../../client/index.ts';
import type { Happening } from './events.ts';
import {
  eventsKept,
  eventsKeptOfOne,
  isHeld,
  type LockPicture,
  lastEventAt,
  unknownLock,
  withEvent,
  withHistory,
  withLook,
} from './lock-picture.ts';

export type SortBy = 'busy' | 'waiters' | 'wait' | 'hold' | 'name';
export type Shown = 'all' | 'held' | 'waited' | 'free';

/** The list that the server sends has at most this many locks. Events add no more. */
const locksMax = 5_000;

export class LockBook {
  readonly #locks = new Map<string, LockPicture>();
  /** The lock that has its own view. The page keeps more of its events. */
  focus: string | null = null;

  get size(): number {
    return this.#locks.size;
  }

  get(lock: string): LockPicture | undefined {
    return this.#locks.get(lock);
  }

  all(): LockPicture[] {
    return [...this.#locks.values()];
  }

  clear(): void {
    this.#locks.clear();
  }

  /** Takes a complete list. Returns the names of the locks that have changed. */
  takeList(list: readonly LockSummary[], at: number): string[] {
    const changed: string[] = [];
    for (const seen of list) {
      const known = this.#locks.get(seen.lock);
      const next = withLook(known ?? unknownLock(seen.lock), seen, at);
      this.#locks.set(seen.lock, next);
      if (known && differs(known, next)) changed.push(seen.lock);
    }
    return changed;
  }

  takeLook(seen: LockView, at: number): void {
    const next = withLook(this.#locks.get(seen.lock) ?? unknownLock(seen.lock), seen, at);
    // The service's list does not contain a lock that was never used.
    if (seen.fence > 0 || this.#locks.has(seen.lock)) this.#locks.set(seen.lock, next);
  }

  takeHistory(lock: string, events: readonly Happening[]): void {
    this.#locks.set(lock, withHistory(this.#locks.get(lock) ?? unknownLock(lock), events, this.#max(lock)));
  }

  takeEvent(event: Happening): void {
    const known = this.#locks.get(event.lock);
    if (!known && this.#locks.size >= locksMax) return;
    this.#locks.set(event.lock, withEvent(known ?? unknownLock(event.lock), event, this.#max(event.lock)));
  }

  #max(lock: string): number {
    return lock === this.focus ? eventsKeptOfOne : eventsKept;
  }
}

/** True if something happened. A page that missed events should then read the history. */
const differs = (known: LockPicture, next: LockPicture): boolean =>
  known.fence !== next.fence || known.queueDepth !== next.queueDepth || known.holders.length !== next.holders.length;

export const waitMs = ({ waitingSince }: LockPicture, now: number): number =>
  waitingSince ? Math.max(0, now - waitingSince) : 0;

export const holdMs = ({ holders }: LockPicture, now: number): number =>
  holders.reduce((longest, { since }) => Math.max(longest, now - since), 0);

/** The time over which recent grants are counted. */
const lately = 60_000;
const grantsLately = ({ events }: LockPicture, now: number): number =>
  events.filter(({ type, at }) => type === 'granted' && at > now - lately).length;

/** From 0, idle, to 1. A queue counts most, because waiters lose time. Ten waiters, or a wait of a minute, give the full value. */
export function busyness(lock: LockPicture, now: number): number {
  if (!lock.queueDepth) return isHeld(lock) ? Math.min(0.2, grantsLately(lock, now) / 100) : 0;
  const crowd = Math.min(1, Math.log2(1 + lock.queueDepth) / Math.log2(11));
  const wait = Math.min(1, waitMs(lock, now) / 60_000);
  return Math.min(1, 0.3 + 0.5 * crowd + 0.2 * wait);
}

/** A lock counts as recently free if nobody holds it now and it was used within this time. */
const freeLatelyMs = 15 * 60_000;

const isShown = (lock: LockPicture, shown: Shown, now: number): boolean => {
  if (shown === 'held') return isHeld(lock);
  if (shown === 'waited') return lock.queueDepth > 0;
  if (shown === 'free') return !isHeld(lock) && (lastEventAt(lock) || now) > now - freeLatelyMs;
  return true;
};

const byName = (one: LockPicture, other: LockPicture): number =>
  one.lock < other.lock ? -1 : one.lock > other.lock ? 1 : 0;

/** Each order shows the largest weight first. If two weights are equal, the names decide, so rows do not swap without a reason. */
const weights: Readonly<Record<Exclude<SortBy, 'name'>, (lock: LockPicture, now: number) => number>> = {
  // Rounded, so a row moves only if something happened, and not because a second passed.
  busy: (lock, now) => Math.round(busyness(lock, now) * 10) * 2 + (isHeld(lock) ? 1 : 0),
  waiters: (lock) => lock.queueDepth,
  wait: waitMs,
  hold: holdMs,
};

export interface Wanted {
  readonly prefix: string;
  readonly shown: Shown;
  readonly sortBy: SortBy;
}

/** The names to show, in order. */
export function ordered(book: LockBook, { prefix, shown, sortBy }: Wanted, now: number): string[] {
  const found = book.all().filter((lock) => lock.lock.startsWith(prefix) && isShown(lock, shown, now));
  if (sortBy === 'name') found.sort(byName);
  else {
    const weigh = weights[sortBy];
    const weighed = new Map(found.map((lock) => [lock, weigh(lock, now)]));
    found.sort((one, other) => (weighed.get(other) ?? 0) - (weighed.get(one) ?? 0) || byName(one, other));
  }
  return found.map(({ lock }) => lock);
}

/** While somebody reads or points at rows, they keep their place. Locks that are gone leave, and new ones come last. */
export function settled(before: readonly string[], wanted: readonly string[]): string[] {
  const still = new Set(wanted);
  const known = new Set(before);
  return [...before.filter((name) => still.has(name)), ...wanted.filter((name) => !known.has(name))];
}

export interface Totals {
  readonly locks: number;
  readonly held: number;
  readonly waited: number;
  readonly waiters: number;
  readonly longestWaitMs: number;
}

export function totalsOf(book: LockBook, now: number): Totals {
  const all = book.all();
  return {
    locks: all.length,
    held: all.filter(isHeld).length,
    waited: all.filter(({ queueDepth }) => queueDepth > 0).length,
    waiters: all.reduce((sum, { queueDepth }) => sum + queueDepth, 0),
    longestWaitMs: all.reduce((longest, lock) => Math.max(longest, waitMs(lock, now)), 0),
  };
}
