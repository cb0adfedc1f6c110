import type { HotLockRow } from './scenarios/hot-lock.ts';
import type { LongWaitRow } from './scenarios/long-wait.ts';
import type { ManyLocksRow } from './scenarios/many-locks.ts';
import type { DeadHolderRow, StampedeRow, TroubleRow } from './scenarios/trouble.ts';

export interface Results {
  readonly seed: number;
  readonly hotLock: readonly HotLockRow[];
  readonly longWait: readonly LongWaitRow[];
  readonly manyLocks: ManyLocksRow;
  readonly stampede: readonly StampedeRow[];
  readonly deadHolder: readonly DeadHolderRow[];
  readonly trouble: readonly TroubleRow[];
}
