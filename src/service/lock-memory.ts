import { isInPages } from '../lock/pages.ts';
import type { LockState } from '../lock/state.ts';
import { type LockKey, lockIdOf } from '../store/lock-store.ts';
import type { Clock, EpochMs } from '../time/clock.ts';
import type { Timers } from '../time/timers.ts';
import { BoundedMap } from '../tools/bounded-map.ts';

/** Locks remembered at once: enough for every busy lock of a process, a few megabytes. One that is forgotten costs a refused write. */
const locksMax = 1_000;

/** Waiters in pages whose page is remembered: as many as one process waits for. One that is forgotten costs a search of the pages. */
const placesMax = 10_000;

/** How long work waits for its turn: a tenth of a poll, or some hundred writes. What was decided before that is decided again. */
const turnMsMax = 2_000;

/**
 * An idle lock is collected in the end, and its pages too. Whoever joined a page that it remembers would then wait in a page that no lock
 * knows. An hour is far less than anything is kept for.
 */
const seenMsMax = 3_600_000;

export interface Seen {
  readonly state: LockState;
  readonly at: EpochMs;
}

type Listener = (key: LockKey, state: LockState) => void;

/**
 * The latest state of each lock that this process wrote, read or was shown by the stream. The one memory of locks: joining a known queue,
 * waking waiters and refusing in the efficiency tier all ask it. It is a hint and no more: others may have written since, so every
 * write that is built on it says in its condition what it took for granted.
 */
export class LockMemory {
  readonly #clock: Clock;
  readonly #seen = new BoundedMap<string, Seen>(locksMax);
  readonly #places = new BoundedMap<string, number>(placesMax);
  /** The highest page of each lock that was seen full or closed. Such a page takes nobody ever again. */
  readonly #fullPages = new BoundedMap<string, number>(locksMax);
  readonly #turns = new Map<string, Promise<unknown>>();
  readonly #listeners: Listener[] = [];
  readonly #handOffListeners: Listener[] = [];

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Takes note of a state. Responses and stream records overtake each other, so an older state than the known one changes nothing.
   * `isHandOff`: this very process wrote it, and may have granted to others by that.
   */
  learn(key: LockKey, state: LockState, isHandOff = false): void {
    this.#remember(key, state);
    if (isHandOff) for (const listener of this.#handOffListeners) listener(key, state);
  }

  #remember(key: LockKey, state: LockState): void {
    const id = lockIdOf(key);
    const known = this.#seen.get(id);
    // An item that is gone was collected, and its revisions begin again.
    const isCollected = state.rev === 0;
    if (known !== undefined && !isCollected && isBefore(state, known.state)) return;
    if (isCollected) {
      this.#seen.delete(id);
      return;
    }
    this.#seen.set(id, { state, at: this.#clock.now() });
    if (known !== undefined && known.state.rev === state.rev && known.state.fence === state.fence) return;
    for (const listener of this.#listeners) listener(key, state);
  }

  seen(key: LockKey): Seen | undefined {
    const seen = this.#seen.get(lockIdOf(key));
    return seen === undefined || this.#clock.now() - seen.at > seenMsMax ? undefined : seen;
  }

  /** Whether a revision is newer than the known one, of a lock that is known: it costs less than to read what changed. */
  isNews(key: LockKey, rev: number): boolean {
    const known = this.#seen.get(lockIdOf(key));
    return known !== undefined && rev > known.state.rev;
  }

  /** The page that a lease was seen to join. Undefined if the page moved up: its waiters are in the front, or hold the lock. */
  placeOf(key: LockKey, leaseId: string): number | undefined {
    const page = this.#places.get(placeId(key, leaseId));
    const seen = this.seen(key);
    return seen === undefined || isInPages(seen.state, page) ? page : undefined;
  }

  learnPlace(key: LockKey, leaseId: string, page: number): void {
    this.#places.set(placeId(key, leaseId), page);
  }

  forgetPlace(key: LockKey, leaseId: string): void {
    this.#places.delete(placeId(key, leaseId));
  }

  isFull(key: LockKey, page: number): boolean {
    return page <= (this.#fullPages.get(lockIdOf(key)) ?? 0);
  }

  learnFull(key: LockKey, page: number): void {
    if (!this.isFull(key, page)) this.#fullPages.set(lockIdOf(key), page);
  }

  /**
   * Does work on one lock after other such work of this process: of a crowd that joins at once, each learns from the one before which page is
   * the last, instead of being refused by a page that has just filled up. Whoever has waited too long for its turn is told so.
   */
  async inTurn<T>(key: LockKey, timers: Timers, work: (isInTurn: boolean) => Promise<T>): Promise<T> {
    const id = lockIdOf(key);
    const before = this.#turns.get(id);
    const own = (before === undefined ? Promise.resolve(true) : orAfter(timers, turnMsMax, before)).then(work);
    // The turn of the next one also waits for those whom this one has stopped waiting for.
    const ended = Promise.allSettled([before, own]);
    this.#turns.set(id, ended);
    try {
      return await own;
    } finally {
      void ended.then(() => this.#turns.get(id) === ended && this.#turns.delete(id));
    }
  }

  /** Calls back with each state that is newer than what was known. */
  onNews(listener: Listener): void {
    this.#listeners.push(listener);
  }

  /** Calls back with each state by which this process may have granted to others. */
  onHandOff(listener: Listener): void {
    this.#handOffListeners.push(listener);
  }
}

/** Comes back when the work is done, with true; or after so long, with false. */
function orAfter(timers: Timers, ms: number, work: Promise<unknown>): Promise<boolean> {
  return new Promise((resolve) => {
    const cancel = timers.after(ms, () => resolve(false));
    void work.then(() => {
      cancel();
      resolve(true);
    });
  });
}

const placeId = (key: LockKey, leaseId: string): string => `${lockIdOf(key)} ${leaseId}`;

/** By the fence first: revisions begin again if an idle item was collected, fences never do. */
const isBefore = (one: LockState, other: LockState): boolean =>
  one.fence < other.fence || (one.fence === other.fence && one.rev < other.rev);
