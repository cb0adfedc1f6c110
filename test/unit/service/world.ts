import type { LockCommand } from '../../../src/lock/commands.ts';
import { decide } from '../../../src/lock/decide.ts';
import { lockLimits } from '../../../src/lock/limits.ts';
import { type LockState, unusedLock } from '../../../src/lock/state.ts';
import { systemLockContext } from '../../../src/service/context.ts';
import type { LockAccess } from '../../../src/service/waits.ts';
import { VirtualTime } from '../../../src/testing/virtual-time.ts';
import { epochMs } from '../../../src/time/clock.ts';
import { memoryStores } from '../../support/memory-table.ts';

export const key = { namespace: 'test', name: 'lock' };

/** One process on a table that tests can watch, in virtual time. `newProcess` makes more of them. */
export function serviceOnTable({ alone = true, ...more }: Partial<Parameters<typeof systemLockContext>[0]> = {}) {
  const time = new VirtualTime();
  const parts = { clock: time, timers: time, random: () => 0.5 };
  const { table, elsewhere, engine, ...stores } = memoryStores(parts);
  const newProcess = () => systemLockContext({ ...stores, ...parts, alone, ...more });
  return { time, table, elsewhere, engine, ...stores, newProcess, locks: newProcess() };
}

/** A lock in virtual time, as a wait sees it. Every look and sweep is counted. */
export class SeenLock implements LockAccess {
  readonly key = key;
  readonly time = new VirtualTime();
  state: LockState = unusedLock;
  looks = 0;
  peeks = 0;
  /** If set, what a peek shows instead of the state. */
  earlier: LockState | undefined;
  sweeps = 0;
  /** Set to make the store fail. */
  failure: Error | undefined;

  write(command: LockCommand): LockState {
    const { next } = decide(this.state, command, this.#factsNow());
    this.state = next;
    return next;
  }

  /** An instant this many milliseconds from now. */
  in(ms: number) {
    return epochMs(this.time.now() + ms);
  }

  async read(): Promise<LockState> {
    this.looks += 1;
    if (this.failure !== undefined) throw this.failure;
    return this.state;
  }

  async peek(endsWait: (state: LockState) => boolean): Promise<LockState> {
    this.peeks += 1;
    const shown = this.earlier ?? this.state;
    if (endsWait(shown)) return this.read();
    this.looks += 1;
    if (this.failure !== undefined) throw this.failure;
    return shown;
  }

  async sweep(): Promise<LockState> {
    this.sweeps += 1;
    if (this.failure !== undefined) throw this.failure;
    return this.write({ kind: 'sweep' });
  }

  async facts() {
    return this.#factsNow();
  }

  #factsNow() {
    return { now: this.time.now(), graceMs: lockLimits.graceMs };
  }
}

/** Shows whether a promise has settled, without waiting for it. */
export function watched<T>(promise: Promise<T>): { readonly done: boolean; readonly promise: Promise<T> } {
  const seen = { done: false, promise };
  const settle = () => {
    seen.done = true;
  };
  promise.then(settle, settle);
  return seen;
}
