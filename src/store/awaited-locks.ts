import type { LockKey } from './lock-store.ts';

/** The locks with waiters. */
export interface AwaitedLocks {
  /** It may also name locks whose queue is empty now, because a release does not write to the index. */
  list(): AsyncIterable<LockKey>;

  /** Removes a lock, unless somebody waits for it. */
  forget(key: LockKey): Promise<void>;
}
