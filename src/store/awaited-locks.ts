import type { LockKey } from './lock-store.ts';

/** The locks that somebody waits for. */
export interface AwaitedLocks {
  /** Also names locks whose queue has emptied since: a release does not touch the index. */
  list(): AsyncIterable<LockKey>;

  /** Takes a lock out, unless somebody waits for it. */
  forget(key: LockKey): Promise<void>;
}
