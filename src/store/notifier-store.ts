/** What the notifier and the reaper note: deliveries, timers, and the locks with waiters. */
import type { LockKey } from '../lock/state.ts';
import type { EpochMs } from '../time/clock.ts';

/** What is known about the deliveries of a grant to a parked waiter. */
export interface Delivery {
  /** How many deliveries were begun. Each is counted before it is sent, so none is missed. */
  readonly tries: number;
  /** Written after the delivery. A notifier that dies in between delivers again. So a waiter may get its delivery twice, but never not at all. */
  readonly delivered: boolean;
}

/** Which grants were delivered to parked waiters, by lock and fence. */
export interface DeliveryStore {
  /** Counts one more try and returns the result. If an answer is lost, it may count too many, but never too few. */
  begin(key: LockKey, fence: number): Promise<Delivery>;
  read(key: LockKey, fence: number): Promise<Delivery>;
  markDelivered(key: LockKey, fence: number): Promise<void>;
}

/** When the timer of a lock fires. For timers that can't be read back, such as messages in a queue. */
export interface TimerNotes {
  read(key: LockKey): Promise<EpochMs | undefined>;
  write(key: LockKey, firesAt: EpochMs): Promise<void>;
}

/** The locks with waiters. */
export interface AwaitedLocks {
  /** It may also name locks whose queue is empty now, because a release does not write to the index. */
  list(): AsyncIterable<LockKey>;

  /** Removes a lock, unless somebody waits for it. */
  forget(key: LockKey): Promise<void>;
}
