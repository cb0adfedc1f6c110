import type { LockTimers } from '../notify/ports.ts';
import { type LockKey, lockIdOf } from '../store/lock-store.ts';
import { type Clock, type EpochMs, systemClock } from '../time/clock.ts';
import { systemTimers, type Timers } from '../time/timers.ts';

interface Armed {
  readonly at: EpochMs;
  readonly cancel: () => void;
}

/** Timers inside the process, one per lock at most. They end with it: the sweep at the next start sets them again. */
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

  /** How many locks have a timer. */
  get size(): number {
    return this.#armed.size;
  }

  /** Set once: the reaper that is called arms timers itself, so neither can be made before the other. */
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
