import type { LockState } from '../../lock/state.ts';
import { type LockKey, lockIdOf } from '../lock-store.ts';
import { fromLockItem } from './lock-item.ts';
import { isPlain, type QueueItem, queueIn } from './queue-item.ts';
import type { Item } from './reading.ts';

/** Locks with many waiters in one process at a time: few. One that is forgotten costs a refused write, which shows it again. */
const locksMax = 100;

export interface SeenQueue {
  readonly state: LockState;
  readonly queue: QueueItem;
}

/**
 * How the queues that are long, or have places struck out, were last seen to lie. A hint and no more: every write that is built on it says
 * in its condition what it took for granted.
 */
export class SeenQueues {
  readonly #byLock = new Map<string, SeenQueue>();

  /** Takes note of an item that came back from the store, and tells its state. */
  see(key: LockKey, item: Item | undefined): LockState {
    const state = fromLockItem(item);
    const id = lockIdOf(key);
    const earlier = this.#byLock.get(id);
    // Responses overtake each other.
    if (earlier !== undefined && item !== undefined && isBefore(state, earlier.state)) return state;
    this.#byLock.delete(id);
    const queue = item === undefined ? undefined : queueIn(item);
    if (queue === undefined || isPlain(queue)) return state;
    this.#byLock.set(id, { state, queue });
    const [oldest] = this.#byLock.keys();
    if (this.#byLock.size > locksMax && oldest !== undefined) this.#byLock.delete(oldest);
    return state;
  }

  of(key: LockKey): SeenQueue | undefined {
    return this.#byLock.get(lockIdOf(key));
  }

  forget(key: LockKey): void {
    this.#byLock.delete(lockIdOf(key));
  }
}

/** By the fence first: revisions start again if an idle item was collected, fences never do. */
const isBefore = (one: LockState, other: LockState): boolean =>
  one.fence < other.fence || (one.fence === other.fence && one.rev < other.rev);
