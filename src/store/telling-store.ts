import type { LockKey } from './lock-store.ts';

/** What is noted of a parked waiter's grant. */
export interface Telling {
  /** How often somebody has begun to tell; counted before the telling, so that none is missed. */
  readonly tries: number;
  /** Noted after the telling: who dies in between tells again, so a waiter may be told twice, but never not at all. */
  readonly told: boolean;
}

/** Which parked waiters have been told of their grant, by lock and fence. */
export interface TellingStore {
  /** Counts one more try and says what is noted with it. May count too many where an answer was lost, never too few. */
  begin(key: LockKey, fence: number): Promise<Telling>;
  read(key: LockKey, fence: number): Promise<Telling>;
  noteTold(key: LockKey, fence: number): Promise<void>;
}

export const untold: Telling = { tries: 0, told: false };
