import type { Facts } from '../lock/commands.ts';
import type { LockState } from '../lock/state.ts';
import type { LockKey } from '../store/lock-store.ts';
import type { EpochMs } from '../time/clock.ts';

export interface Wait {
  readonly leaseId: string;
  /** The state in which the waiter queued. */
  readonly known: LockState;
  /** The page in which it waits, if that is not the front. */
  readonly page?: number | undefined;
  /** When to come back at the latest. */
  readonly until: EpochMs;
  /** Fires when nobody is there any more to be answered. */
  readonly gone?: AbortSignal | undefined;
}

/** One request that waits for a lock. */
export interface OpenWait {
  /** Comes back with the latest state known, when it concerns the waiter, at the end, or when nobody is there any more. */
  wait(wait: Wait): Promise<LockState>;
  end(): void;
}

/** How waiting gets at the lock. */
export interface LockAccess {
  readonly key: LockKey;
  look(): Promise<LockState>;
  sweep(): Promise<LockState>;
  facts(state: LockState): Promise<Facts>;
}

/** How requests wait for their turn: notified by this process, or by looking. */
export interface Waits {
  /** Begun before queueing: a grant that comes before the waiter has begun to wait must not be missed. */
  begin(access: LockAccess): OpenWait;
  /** How many wait now. */
  readonly openCount: number;
}
