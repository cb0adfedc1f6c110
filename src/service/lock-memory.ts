import { type LockKey, type LockState, lockIdOf } from '../lock/state.ts';
import { isInPages } from '../queue/pages.ts';
import type { Clock, EpochMs } from '../time/clock.ts';
import type { Timers } from '../time/timers.ts';
import { BoundedMap } from '../tools/collections.ts';
import { withinLimit } from '../tools/time-limit.ts';

/** Enough for every busy lock of a process, in a few megabytes. A forgotten lock costs one refused write. */
const locksMax = 1_000;

/** As many waiters in pages as one process has. A forgotten one costs a search of the pages. */
const placesMax = 10_000;

/** How long work waits for its turn: a tenth of a poll, or some hundred writes. After that, it is decided again. */
const turnMsMax = 2_000;

/**
 * An idle lock and its pages are collected some day. A waiter that joined a remembered page after that would wait in a
 * page that no lock knows. An hour is far less than any item is kept.
 */
const seenMsMax = 3_600_000;

export interface Seen {
  readonly state: LockState;
  readonly at: EpochMs;
}

type Listener = (key: LockKey, state: LockState) => void;

/**
 * The latest state of each lock that this process wrote, read or got from the stream. It is the only memory of locks:
 * waiters join a known queue by it, waiters are woken by it, and the efficiency tier refuses by it. It is only a hint,
 * because others may have written since. So every write that is based on it checks its assumptions in its condition.
 */
export class LockMemory {
  readonly #clock: Clock;
  readonly #seen = new BoundedMap<string, Seen>(locksMax);
  readonly #places = new BoundedMap<string, number>(placesMax);
  /** The highest page of each lock that was seen full or closed. Nobody can join such a page again. */
  readonly #fullPages = new BoundedMap<string, number>(locksMax);
  /** How often in a row joiners of this process lost to other processes. */
  readonly #losses = new BoundedMap<string, number>(locksMax);
  readonly #turns = new Map<string, Promise<unknown>>();
  readonly #sweeps = new Map<string, Promise<LockState>>();
  readonly #listeners = new Set<Listener>();
  readonly #handOffListeners: Listener[] = [];

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Remembers a state. Responses and stream records may arrive in any order, so a state older than the known one is
   * ignored. `isHandOff`: this process wrote the state, and may have granted to others with it.
   */
  learn(key: LockKey, state: LockState, isHandOff = false): void {
    const id = lockIdOf(key);
    const known = this.#seen.get(id);
    // A missing item was collected, and its revisions start again.
    if (state.rev === 0) this.#seen.delete(id);
    else if (known === undefined || !isBefore(state, known.state)) {
      this.#seen.set(id, { state, at: this.#clock.now() });
      const isNewer = known === undefined || isBefore(known.state, state);
      if (isNewer) for (const listener of this.#listeners) listener(key, state);
    }
    if (isHandOff) for (const listener of this.#handOffListeners) listener(key, state);
  }

  seen(key: LockKey): Seen | undefined {
    const seen = this.#seen.get(lockIdOf(key));
    return seen === undefined || this.#clock.now() - seen.at > seenMsMax ? undefined : seen;
  }

  /**
   * Whether a revision is newer than the known one. False if the lock is not known. It is cheaper than to convert the
   * state.
   */
  isNewer(key: LockKey, rev: number): boolean {
    const known = this.#seen.get(lockIdOf(key));
    return known !== undefined && rev > known.state.rev;
  }

  /**
   * The page that a lease was seen to join. Undefined if the page moved up: its waiters are in the front, or hold the
   * lock.
   */
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

  /** Counts that another process was faster. */
  noteLoss(key: LockKey): number {
    const losses = (this.#losses.get(lockIdOf(key)) ?? 0) + 1;
    this.#losses.set(lockIdOf(key), losses);
    return losses;
  }

  forgetLosses(key: LockKey): void {
    this.#losses.delete(lockIdOf(key));
  }

  /**
   * Does work on one lock after the earlier work of this process on it. If many join at once, each learns from the one
   * before which page is the last, and is not refused by a page that is full now. If many release their permits at once,
   * each decides on the state that the one before wrote. `isInTurn` is false if the work waited too long for its turn.
   */
  async inTurn<T>(
    key: LockKey,
    what: 'join' | 'release',
    timers: Timers,
    work: (isInTurn: boolean) => Promise<T>,
  ): Promise<T> {
    // A release never waits for waiters that join: the lock would be held for longer.
    const id = `${what} ${lockIdOf(key)}`;
    const before = this.#turns.get(id);
    const own = (before === undefined ? Promise.resolve(true) : inTime(before, timers)).then(work);
    // The next turn also waits for earlier work for which this one has stopped waiting.
    const ended = Promise.allSettled([before, own]);
    this.#turns.set(id, ended);
    try {
      return await own;
    } finally {
      void ended.then(() => this.#turns.get(id) === ended && this.#turns.delete(id));
    }
  }

  /** Sweeps a lock, unless a sweep of this process is under way. Then that one is waited for. Returns the latest known state. */
  async sweepOnce(key: LockKey, sweep: () => Promise<LockState>): Promise<LockState> {
    const id = lockIdOf(key);
    const underWay = this.#sweeps.get(id);
    if (underWay !== undefined) {
      const swept = await underWay;
      // The caller may have written after that sweep had read the lock. Then it decides on its own state again.
      return this.seen(key)?.state ?? swept;
    }
    const own = sweep();
    this.#sweeps.set(id, own);
    try {
      return await own;
    } finally {
      this.#sweeps.delete(id);
    }
  }

  /** Calls the listener with each state that is newer than the known one, until the returned function is called. */
  onNewerState(listener: Listener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Calls the listener with each state with which this process may have granted to others. */
  onHandOff(listener: Listener): void {
    this.#handOffListeners.push(listener);
  }
}

/** True when the earlier work is done. False if it takes too long. */
const inTime = async (before: Promise<unknown>, timers: Timers): Promise<boolean> =>
  (await withinLimit(before, turnMsMax, timers)).kind === 'done';

const placeId = (key: LockKey, leaseId: string): string => `${lockIdOf(key)} ${leaseId}`;

/** Fences are compared first, because revisions start again after an item was collected, and fences never do. */
export const isBefore = (one: LockState, other: LockState): boolean =>
  one.fence < other.fence || (one.fence === other.fence && one.rev < other.rev);
