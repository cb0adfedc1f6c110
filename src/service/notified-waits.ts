import { isInPages } from '../lock/pages.ts';
import type { LockState } from '../lock/state.ts';
import { nextDueAt } from '../lock/validity.ts';
import { lockIdOf } from '../store/lock-store.ts';
import type { Clock } from '../time/clock.ts';
import type { Timers } from '../time/timers.ts';
import type { LockMemory } from './lock-memory.ts';
import type { LockAccess, OpenWait, Wait, Waits } from './waits.ts';

/** After a sweep that could not be made, or changed nothing, the next one waits this long: time passes, nothing spins. */
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
  /** What wakes each waiter, by lease. A request may be repeated while its first copy still waits: then each copy has its own. */
  readonly wakes: Map<string, Set<Waking>>;
  cancelSweep: () => void;
}

/**
 * Waiting where one process serves. Nothing is polled: a write made here, or shown by the stream when it was made elsewhere, wakes the
 * waiters that it concerns, and one timer per lock stands at the instant at which time alone would change something.
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
    // The same state may come by the response and by the stream; only what is newer counts.
    if (waits.known !== undefined && state.rev <= waits.known.rev) return;
    waits.known = state;
    if (waits.wakes.size === 0) return;
    this.#wakeConcerned(waits, state);
    void this.#planSweep(waits, state);
  }

  /** Wakes those that are no longer in the front or in a page: granted, or dropped. The others sleep on. */
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
      // A repeat of the same request waits beside the one before it. If it took over, two callers that both stay would answer each
      // other's 202 with the next request, without end.
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

  /** One timer per lock, moved with each change. A renewal only moves it. */
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
    // A store that can't be reached is met again by the waiters themselves; here it only means to try once more.
    const swept = await waits.access.sweep().catch(() => state);
    this.#learn(waits, swept);
    if (waits.known === state) await this.#planSweep(waits, state, sweepPauseMs);
  }
}
