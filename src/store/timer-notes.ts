import type { EpochMs } from '../time/clock.ts';
import type { LockKey } from './lock-store.ts';

/** When the timer of a lock fires, for timers that can't be asked, such as messages in a queue. */
export interface TimerNotes {
  read(key: LockKey): Promise<EpochMs | undefined>;
  write(key: LockKey, firesAt: EpochMs): Promise<void>;
}
