import type { LockState } from '../lock/state.ts';
import { type LockKey, lockIdOf } from '../store/lock-store.ts';
import type { Clock, EpochMs } from '../time/clock.ts';
import { BoundedMap } from '../tools/bounded-map.ts';

/** Locks remembered at once: enough for every busy lock of a process, a few megabytes. One that is forgotten costs a refused write. */
const locksMax = 1_000;

export interface Seen {
  readonly state: LockState;
  readonly at: EpochMs;
}

/**
 * The latest state of each lock that this process wrote, read or was shown by the stream. The one memory of locks: joining a known queue,
 * waking waiters and refusing in the efficiency tier all ask it. It is a hint and no more: others may have written since, so every
 * write that is built on it says in its condition what it took for granted.
 */
export class LockMemory {
  readonly #clock: Clock;
  readonly #seen = new BoundedMap<string, Seen>(locksMax);
  readonly #listeners: ((key: LockKey, state: LockState) => void)[] = [];

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Takes note of a state. Responses and stream records overtake each other, so an older state than the known one changes nothing. */
  learn(key: LockKey, state: LockState): void {
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
    return this.#seen.get(lockIdOf(key));
  }

  /** Whether a revision is newer than the known one, of a lock that is known: it costs less than to read what changed. */
  isNews(key: LockKey, rev: number): boolean {
    const known = this.#seen.get(lockIdOf(key));
    return known !== undefined && rev > known.state.rev;
  }

  /** Calls back with each state that is newer than what was known. */
  onNews(listener: (key: LockKey, state: LockState) => void): void {
    this.#listeners.push(listener);
  }
}

/** By the fence first: revisions begin again if an idle item was collected, fences never do. */
const isBefore = (one: LockState, other: LockState): boolean =>
  one.fence < other.fence || (one.fence === other.fence && one.rev < other.rev);
