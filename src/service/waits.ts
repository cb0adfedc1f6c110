import type { Facts } from '../lock/commands.ts';
import type { LockKey, LockState } from '../lock/state.ts';
import type { EpochMs } from '../time/clock.ts';

export interface Wait {
  readonly leaseId: string;
  /** The state after the waiter joined. */
  readonly known: LockState;
  /** The page in which it waits. Missing if it waits in the front. */
  readonly page?: number | undefined;
  /** The end of the wait. */
  readonly until: EpochMs;
  /** Aborts if the caller is gone. */
  readonly gone?: AbortSignal | undefined;
}

/** One request that waits for a lock. */
export interface OpenWait {
  /** Returns the latest known state: when it concerns the waiter, at the end, or when the caller is gone. */
  wait(wait: Wait): Promise<LockState>;
  end(): void;
}

/** What a wait may do with its lock. */
export interface LockAccess {
  readonly key: LockKey;
  read(): Promise<LockState>;
  /**
   * An eventually consistent read, for half of the price. It may show an older state: none that is older than the known one, and
   * none that ends a wait.
   */
  peek(endsWait: (state: LockState) => boolean): Promise<LockState>;
  sweep(): Promise<LockState>;
  facts(state: LockState): Promise<Facts>;
}

/** How requests wait for their turn: notified by this process, or by polling the store. */
export interface Waits {
  /** Called before the waiter queues, so that it can't miss a grant that comes at once. */
  begin(access: LockAccess): OpenWait;
  /** How many requests wait now. */
  readonly openCount: number;
}
