import type { LockKey } from './lock-store.ts';

/**
 * Which parked waiters have been told of their grant, by lock and fence. Noted after the telling: who dies in between
 * tells again, so a waiter may be told twice, but never not at all.
 */
export interface TellingStore {
  wasTold(key: LockKey, fence: number): Promise<boolean>;
  noteTold(key: LockKey, fence: number): Promise<void>;
}
