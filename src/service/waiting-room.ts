import type { Facts } from '../lock/commands.ts';
import type { LockState } from '../lock/state.ts';
import type { LockKey } from '../store/lock-store.ts';
import type { EpochMs } from '../time/clock.ts';

export interface Wait {
  readonly leaseId: string;
  /** The state in which the waiter queued. */
  readonly known: LockState;
  /** When to come back at the latest. */
  readonly until: EpochMs;
  /** Fires when nobody is there any more to be answered. */
  readonly gone?: AbortSignal | undefined;
}

export interface Seat {
  /** Comes back with the latest state known, when it concerns the waiter, at the end, or when nobody is there any more. */
  wait(wait: Wait): Promise<LockState>;
  leave(): void;
}

/** How a waiting room gets at the lock that is waited for. */
export interface LockSight {
  readonly key: LockKey;
  look(): Promise<LockState>;
  sweep(): Promise<LockState>;
  facts(state: LockState): Promise<Facts>;
}

/** Where waiters wait for their turn. */
export interface WaitingRoom {
  /** Taken before queueing: a grant that is announced before the waiter has sat down must not be missed. */
  enter(sight: LockSight): Seat;
  /** Whether this revision would be news to somebody here: it costs less than reading what changed. */
  awaits(key: LockKey, rev: number): boolean;
  /** Whether anybody here waits for anything. */
  isAwaited(): boolean;
  /** The latest state of a lock that somebody here waits for, where the room keeps track of it. Others may have written since. */
  known(key: LockKey): LockState | undefined;
  /** A state of a lock that this process wrote or was shown. */
  announce(key: LockKey, state: LockState): void;
}
