import type { Facts, LockCommand } from '../lock/commands.ts';
import type { LockState, Waiter } from '../lock/state.ts';
import type { EpochMs } from '../time/clock.ts';

export interface LockKey {
  readonly namespace: string;
  readonly name: string;
}

/** One text for a lock. A namespace has no slash, so no two locks have the same. */
export const lockIdOf = ({ namespace, name }: LockKey): string => `${namespace}/${name}`;

/** What became of a write. A refusal carries the state that refused it, so that nothing has to be read again. */
export type Written =
  | { readonly applied: true; readonly state: LockState }
  | {
      readonly applied: false;
      readonly state: LockState;
      /** The request was sent more than once, so the state that refused the last try may be what the first try wrote. */
      readonly perhapsMine: boolean;
    };

export interface LockPage {
  readonly locks: readonly { readonly name: string; readonly state: LockState }[];
  /** The last name that was looked at, where there may be more behind it. */
  readonly after?: string;
}

/**
 * Keeps one item per lock. An adapter decides nothing: it applies what `decide` would, in fewer requests where it can,
 * and otherwise writes what `decide` made. It throws `StoreError` when it can't tell, and never answers "held" instead.
 */
export interface LockStore {
  /** Strongly consistent. A lock that was never used is `unusedLock`. */
  read(key: LockKey): Promise<LockState>;

  /** Strongly consistent, each for itself: not a snapshot across locks. In the order asked. */
  readMany(keys: readonly LockKey[]): Promise<LockState[]>;

  /**
   * Tries the command's common case in one write, without reading first. Refused if the case is another, or where
   * the adapter has no such write for it; then the state in force comes back for `decide`.
   */
  attempt(key: LockKey, command: LockCommand, facts: Facts): Promise<Written>;

  /** Appends to the queue of a lock that still can't be had. It commutes with every other arrival, so arrivals never conflict. */
  enqueue(key: LockKey, waiter: Waiter, limit: number): Promise<Written>;

  /** Says until when the waiter at this place is present. Refused if it stands elsewhere by now. */
  attend(key: LockKey, index: number, waiter: Waiter, now: EpochMs): Promise<Written>;

  /**
   * Takes the waiter at this place out of the queue, and remembers that it gave its place back, or, where it may come again, nothing. Not for the first in line:
   * its leaving may be somebody's turn, which is for `decide`. Refused if it stands elsewhere by now. It commutes with arrivals and
   * with others that leave.
   */
  leave(key: LockKey, index: number, waiter: Waiter, isRemembered: boolean, now: EpochMs): Promise<Written>;

  /** Replaces the state whose revision is `next.rev - 1`. */
  swap(key: LockKey, next: LockState): Promise<Written>;

  /** Swaps many in one step, all or nothing. False if somebody wrote to one of them in between. */
  swapAll(swaps: readonly { readonly key: LockKey; readonly next: LockState }[]): Promise<boolean>;

  /** Locks by name, in order, complete over pages. */
  list(
    namespace: string,
    page: { readonly prefix: string; readonly after?: string; readonly limit: number },
  ): Promise<LockPage>;
}
