import { type LockKey, type LockState, lockIdOf } from '../lock/state.ts';
import type { Clock, EpochMs } from '../time/clock.ts';
import { BoundedMap } from '../tools/collections.ts';

/** Enough for every busy lock of a process, in a few megabytes. A forgotten lock costs one refused write. */
const locksMax = 1_000;

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
 * The latest state of each lock that this process wrote, read or got from the stream. It is only a hint, because others may have
 * written since. So every write that is based on it checks its assumptions in its condition.
 */
export class LockCache {
  readonly #clock: Clock;
  readonly #seen = new BoundedMap<string, Seen>(locksMax);
  readonly #listeners = new Set<Listener>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Remembers a state, unless a newer one is known: responses and stream records may arrive in any order. */
  learn(key: LockKey, state: LockState): void {
    const id = lockIdOf(key);
    const known = this.#seen.get(id);
    // A missing item was collected, and its revisions start again.
    if (state.rev === 0) {
      this.#seen.delete(id);
      return;
    }
    if (known !== undefined && isBefore(state, known.state)) return;
    this.#seen.set(id, { state, at: this.#clock.now() });
    const isNewer = known === undefined || isBefore(known.state, state);
    if (isNewer) for (const listener of this.#listeners) listener(key, state);
  }

  seen(key: LockKey): Seen | undefined {
    const seen = this.#seen.get(lockIdOf(key));
    return seen === undefined || this.#clock.now() - seen.at > seenMsMax ? undefined : seen;
  }

  /** Whether a revision is newer than the known one. False if the lock is not known. It is cheaper than to convert the state. */
  isNewer(key: LockKey, rev: number): boolean {
    const known = this.#seen.get(lockIdOf(key));
    return known !== undefined && rev > known.state.rev;
  }

  /** Calls the listener with each state that is newer than the known one, until the returned function is called. */
  onNewerState(listener: Listener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}

/** Fences are compared first, because revisions start again after an item was collected, and fences never do. */
export const isBefore = (one: LockState, other: LockState): boolean =>
  one.fence < other.fence || (one.fence === other.fence && one.rev < other.rev);

export const newerOf = (one: LockState, other: LockState | undefined): LockState =>
  other !== undefined && isBefore(one, other) ? other : one;
