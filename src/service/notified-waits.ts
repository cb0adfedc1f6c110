import { isInPages } from '../lock/pages.ts';
import type { LockState } from '../lock/state.ts';
import { nextDueAt } from '../lock/validity.ts';
import { lockIdOf } from '../store/lock-store.ts';
import type { Clock } from '../time/clock.ts';
import type { Timers } from '../time/timers.ts';
import type { LockMemory } from './lock-memory.ts';
import type { LockAccess, OpenWait, Wait, Waits } from './waits.ts';

/** If a sweep failed or changed nothing, the next one comes after this time, so there is no busy loop. */
const sweepPauseMs = 100;

interface Waking {
  readonly page: number | undefined;
  readonly wake: (state: LockState) => void;
}

/** The waiters of one lock in this process. */
interface LockWaits {
  readonly access: LockAccess;
  open: number;
  known: LockState | undefined;
  /** The functions that wake each waiter, by lease. If a request is repeated while its first copy still waits, each copy has its own. */
  readonly wakes: Map<string, Set<Waking>>;
  cancelSweep: () => void;
}

/**
 * Waiting if one process serves alone. Nothing is polled. A write of this process, or a write of another one in the stream, wakes the
 * waiters that it is about. One timer per lock fires at the instant when time alone changes something.
 */
export class NotifiedWaits implements Waits {
  readonly #clock: Clock;
  readonly #timers: Timers;
  readonly #locks = new Map<string, LockWaits>();

  constructor({ clock, timers, memory }: { clock: Clock; timers: Timers; memory: LockMemory }) {
    this.#clock = clock;
    this.#timers = timers;
    memory.onNews((key, state) => {
      const waits = this.#locks.get(lockIdOf(key));
      if (waits !== undefined) this.#learn(waits, state);
    });
  }

  get openCount(): number {
    let count = 0;
    for (const { open } of this.#locks.values()) count += open;
    return count;
  }

  begin(access: LockAccess): OpenWait {
    const id = lockIdOf(access.key);
    const waits = this.#locks.get(id) ?? {
      access,
      open: 0,
      known: undefined,
      wakes: new Map(),
      cancelSweep: () => {},
    };
    this.#locks.set(id, waits);
    waits.open += 1;
    return {
      wait: (wait) => this.#wait(waits, wait),
      end: () => {
        waits.open -= 1;
        if (waits.open > 0) return;
        waits.cancelSweep();
        this.#locks.delete(id);
      },
    };
  }

  #learn(waits: LockWaits, state: LockState): void {
    // The same state may come by the response and by the stream. Only a newer one counts.
    if (waits.known !== undefined && state.rev <= waits.known.rev) return;
    waits.known = state;
    if (waits.wakes.size === 0) return;
    this.#wakeConcerned(waits, state);
    void this.#planSweep(waits, state);
  }

  /** Wakes the waiters that are no longer in the front or in a page, because they were granted or dropped. */
  #wakeConcerned({ wakes }: LockWaits, state: LockState): void {
    const queued = new Set(state.queue.map(({ leaseId }) => leaseId));
    for (const [leaseId, copies] of wakes) {
      if (queued.has(leaseId)) continue;
      for (const { page, wake } of copies) if (!isInPages(state, page)) wake(state);
    }
  }

  #wait(waits: LockWaits, wait: Wait): Promise<LockState> {
    return new Promise((resolve) => {
      const finish = (state: LockState) => {
        cancelEnd();
        wait.gone?.removeEventListener('abort', onGone);
        copies.delete(waking);
        if (copies.size === 0 && waits.wakes.get(wait.leaseId) === copies) waits.wakes.delete(wait.leaseId);
        resolve(state);
      };
      const onGone = () => finish(waits.known ?? wait.known);
      const cancelEnd = this.#timers.after(wait.until - this.#clock.now(), () => finish(waits.known ?? wait.known));
      // If the same request comes again, both copies wait. If the second ended the first, the first would get a 202 and ask again, and
      // so on without end.
      const waking: Waking = { page: wait.page, wake: finish };
      const copies = waits.wakes.get(wait.leaseId) ?? new Set();
      waits.wakes.set(wait.leaseId, copies.add(waking));
      wait.gone?.addEventListener('abort', onGone, { once: true });
      if (wait.gone?.aborted) onGone();

      if (waits.known === undefined || waits.known.rev < wait.known.rev) this.#learn(waits, wait.known);
      else {
        this.#wakeConcerned(waits, waits.known);
        if (waits.wakes.size === 1) void this.#planSweep(waits, waits.known);
      }
    });
  }

  /** One timer per lock. Each change moves it. */
  async #planSweep(waits: LockWaits, state: LockState, notBeforeMs = 0): Promise<void> {
    const facts = await waits.access.facts(state).catch(() => undefined);
    if (waits.known !== state || waits.wakes.size === 0) return;
    const dueAt = facts === undefined ? this.#clock.now() + sweepPauseMs : nextDueAt(state, facts);
    waits.cancelSweep();
    if (dueAt === null) return;
    const delayMs = Math.max(notBeforeMs, dueAt - this.#clock.now());
    waits.cancelSweep = this.#timers.after(delayMs, () => void this.#sweep(waits, state));
  }

  async #sweep(waits: LockWaits, state: LockState): Promise<void> {
    // If the store can't be reached, the waiters' own requests report it. Here it is only tried again.
    const swept = await waits.access.sweep().catch(() => state);
    this.#learn(waits, swept);
    if (waits.known === state) await this.#planSweep(waits, state, sweepPauseMs);
  }
}
