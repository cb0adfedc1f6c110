import type { EpochMs } from '../time/clock.ts';
import type { LockKey } from './lock-store.ts';

/** When the timer of a lock fires. For timers that can't be read back, such as messages in a queue. */
export interface TimerNotes {
  read(key: LockKey): Promise<EpochMs | undefined>;
  write(key: LockKey, firesAt: EpochMs): Promise<void>;
}
