import { type LockKey, lockIdOf } from '../lock/state.ts';
import type { LockTimers } from '../notify/ports.ts';
import { type Clock, type EpochMs, systemClock } from '../time/clock.ts';
import { systemTimers, type Timers } from '../time/timers.ts';

interface Armed {
  readonly at: EpochMs;
  readonly cancel: () => void;
}

/**
 * Timers in this process, at most one per lock. They end with the process. The sweep at the next start sets them again.
 */
export class ProcessTimers implements LockTimers {
  readonly #clock: Clock;
  readonly #timers: Timers;
  readonly #armed = new Map<string, Armed>();
  #onFire: (key: LockKey) => void = () => {};
  #isStopped = false;

  constructor({ clock, timers }: { clock?: Clock; timers?: Timers } = {}) {
    this.#clock = clock ?? systemClock;
    this.#timers = timers ?? systemTimers;
  }

  get size(): number {
    return this.#armed.size;
  }

  /** Set after construction: the reaper also arms timers, so neither of the two can be made first. */
  onFire(look: (key: LockKey) => void): void {
    this.#onFire = look;
  }

  arm(key: LockKey, at: EpochMs): Promise<void> {
    const id = lockIdOf(key);
    const armed = this.#armed.get(id);
    if (this.#isStopped || (armed !== undefined && armed.at <= at)) return Promise.resolve();
    armed?.cancel();
    const cancel = this.#timers.after(at - this.#clock.now(), () => {
      this.#armed.delete(id);
      this.#onFire(key);
    });
    this.#armed.set(id, { at, cancel });
    return Promise.resolve();
  }

  stop(): void {
    this.#isStopped = true;
    for (const { cancel } of this.#armed.values()) cancel();
    this.#armed.clear();
  }
}
