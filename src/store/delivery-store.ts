import type { LockKey } from './lock-store.ts';

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
