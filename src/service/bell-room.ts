import { nextDueAt } from '../lock/due.ts';
import type { LockState } from '../lock/state.ts';
import { type LockKey, lockIdOf } from '../store/lock-store.ts';
import type { Clock } from '../time/clock.ts';
import type { Timers } from '../time/timers.ts';
import type { LockSight, Seat, Wait, WaitingRoom } from './waiting-room.ts';

/** After a sweep that could not be made, or changed nothing, the next one waits this long: time passes, nothing spins. */
const sweepPauseMs = 100;

interface Waiting {
  readonly wait: Wait;
  readonly wake: (state: LockState) => void;
}

/** The waiters of one lock in this process. */
interface Lobby {
  readonly sight: LockSight;
  seats: number;
  known: LockState | undefined;
  readonly waiting: Map<string, Waiting>;
  cancelSweep: () => void;
}

/**
 * Waiting where one process serves. Nothing is polled: a write made here, or shown by the stream when it was made elsewhere,
 * rings for those whom it concerns, and one timer per lock stands at the instant at which time alone would change something.
 */
export class BellRoom implements WaitingRoom {
  readonly #clock: Clock;
  readonly #timers: Timers;
  readonly #lobbies = new Map<string, Lobby>();

  constructor({ clock, timers }: { clock: Clock; timers: Timers }) {
    this.#clock = clock;
    this.#timers = timers;
  }

  enter(sight: LockSight): Seat {
    const id = lockIdOf(sight.key);
    const lobby = this.#lobbies.get(id) ?? {
      sight,
      seats: 0,
      known: undefined,
      waiting: new Map(),
      cancelSweep: () => {},
    };
    this.#lobbies.set(id, lobby);
    lobby.seats += 1;
    return {
      wait: (wait) => this.#wait(lobby, wait),
      leave: () => {
        lobby.seats -= 1;
        if (lobby.seats > 0) return;
        lobby.cancelSweep();
        this.#lobbies.delete(id);
      },
    };
  }

  awaits(key: LockKey, rev: number): boolean {
    const lobby = this.#lobbies.get(lockIdOf(key));
    return lobby !== undefined && rev > (lobby.known?.rev ?? 0);
  }

  isAwaited(): boolean {
    return this.#lobbies.size > 0;
  }

  known(key: LockKey): LockState | undefined {
    return this.#lobbies.get(lockIdOf(key))?.known;
  }

  announce(key: LockKey, state: LockState): void {
    const lobby = this.#lobbies.get(lockIdOf(key));
    if (lobby !== undefined) this.#learn(lobby, state);
  }

  #learn(lobby: Lobby, state: LockState): void {
    // News may come late and twice, by the response and by the stream; only what is newer counts.
    if (lobby.known !== undefined && state.rev <= lobby.known.rev) return;
    lobby.known = state;
    if (lobby.waiting.size === 0) return;
    this.#wakeConcerned(lobby, state);
    void this.#planSweep(lobby, state);
  }

  /** Wakes those who are no longer in the queue: granted, or dropped. The others sleep on. */
  #wakeConcerned(lobby: Lobby, state: LockState): void {
    const queued = new Set(state.queue.map(({ leaseId }) => leaseId));
    for (const [leaseId, { wake }] of lobby.waiting) if (!queued.has(leaseId)) wake(state);
  }

  #wait(lobby: Lobby, wait: Wait): Promise<LockState> {
    return new Promise((resolve) => {
      const finish = (state: LockState) => {
        cancelEnd();
        wait.gone?.removeEventListener('abort', onGone);
        if (lobby.waiting.get(wait.leaseId)?.wake === finish) lobby.waiting.delete(wait.leaseId);
        resolve(state);
      };
      const onGone = () => finish(lobby.known ?? wait.known);
      const cancelEnd = this.#timers.after(wait.until - this.#clock.now(), () => finish(lobby.known ?? wait.known));
      // A repeat of the same request takes over from the one before it, which is answered with what is known.
      lobby.waiting.get(wait.leaseId)?.wake(lobby.known ?? wait.known);
      lobby.waiting.set(wait.leaseId, { wait, wake: finish });
      wait.gone?.addEventListener('abort', onGone, { once: true });
      if (wait.gone?.aborted) onGone();

      if (lobby.known === undefined || lobby.known.rev < wait.known.rev) this.#learn(lobby, wait.known);
      else {
        this.#wakeConcerned(lobby, lobby.known);
        if (lobby.waiting.size === 1) void this.#planSweep(lobby, lobby.known);
      }
    });
  }

  /** One timer per lock, moved with each change. A renewal only moves it. */
  async #planSweep(lobby: Lobby, state: LockState, notBeforeMs = 0): Promise<void> {
    const facts = await lobby.sight.facts(state).catch(() => undefined);
    if (lobby.known !== state || lobby.waiting.size === 0) return;
    const dueAt = facts === undefined ? this.#clock.now() + sweepPauseMs : nextDueAt(state, facts);
    lobby.cancelSweep();
    if (dueAt === null) return;
    const delayMs = Math.max(notBeforeMs, dueAt - this.#clock.now());
    lobby.cancelSweep = this.#timers.after(delayMs, () => void this.#sweep(lobby, state));
  }

  async #sweep(lobby: Lobby, state: LockState): Promise<void> {
    // A store that can't be reached is met again by the waiters themselves; here it only means to try once more.
    const swept = await lobby.sight.sweep().catch(() => state);
    this.#learn(lobby, swept);
    if (lobby.known === state) await this.#planSweep(lobby, state, sweepPauseMs);
  }
}
