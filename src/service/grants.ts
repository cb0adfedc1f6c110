import type { Holder, LockKey } from '../lock/state.ts';

type Listener = (key: LockKey, grantedTo: readonly Holder[]) => void;

/** Tells the edge of this process to which waiters it granted, so that they can be told at once. The stream is the net below. */
export class Grants {
  readonly #listeners: Listener[] = [];

  /** Calls the listener with each grant to a waiter that this process wrote. */
  on(listener: Listener): void {
    this.#listeners.push(listener);
  }

  tell(key: LockKey, grantedTo: readonly Holder[]): void {
    if (grantedTo.length > 0) for (const listener of this.#listeners) listener(key, grantedTo);
  }
}
