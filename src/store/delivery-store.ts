import type { LockKey } from './lock-store.ts';

/** What is known about the deliveries of a grant to a parked waiter. */
export interface Delivery {
  /** How many deliveries were begun. Each is counted before it is sent, so none is missed. */
  readonly tries: number;
  /** Marked after the delivery. A notifier that dies in between delivers again: a waiter may be told twice, but is never left out. */
  readonly delivered: boolean;
}

/** Which parked waiters were told of their grant, by lock and fence. */
export interface DeliveryStore {
  /** Counts one more try and answers with the result. If an answer is lost it may count too many, never too few. */
  begin(key: LockKey, fence: number): Promise<Delivery>;
  read(key: LockKey, fence: number): Promise<Delivery>;
  markDelivered(key: LockKey, fence: number): Promise<void>;
}

export const undelivered: Delivery = { tries: 0, delivered: false };
