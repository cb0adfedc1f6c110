import { lockLimits } from '../../lock/limits.ts';
import { type Ended, type LockState, permitsHeld, unusedLock, type Waiter } from '../../lock/state.ts';
import { hasPlace } from '../../lock/weight.ts';
import type { EpochMs } from '../../time/clock.ts';
import { type LockKey, type LockPage, type LockStore, lockIdOf, type Written } from '../lock-store.ts';

/**
 * Locks in memory, for simulation and for users' own tests. It has no shortcuts: every command is refused at first, so that
 * `decide` and the compare-and-swap behind it are what runs.
 */
export class MemoryLockStore implements LockStore {
  readonly #locks = new Map<string, LockState>();

  read(key: LockKey): Promise<LockState> {
    return Promise.resolve(this.#stateOf(key));
  }

  readMany(keys: readonly LockKey[]): Promise<LockState[]> {
    return Promise.resolve(keys.map((key) => this.#stateOf(key)));
  }

  attempt(key: LockKey): Promise<Written> {
    return Promise.resolve(this.#refuse(key));
  }

  enqueue(key: LockKey, waiter: Waiter, limit: number): Promise<Written> {
    const state = this.#stateOf(key);
    const known = [...state.queue, ...state.holders, ...state.ended].some(({ leaseId }) => leaseId === waiter.leaseId);
    const taken = state.queue.length > 0 || permitsHeld(state) + waiter.permits > limit;
    if (known || !taken || state.limit !== limit || !hasPlace(state.queue, waiter)) {
      return Promise.resolve(this.#refuse(key));
    }
    return Promise.resolve(
      this.#apply(key, { ...state, rev: state.rev + 1, changedAt: waiter.queuedAt, queue: [...state.queue, waiter] }),
    );
  }

  attend(key: LockKey, index: number, waiter: Waiter, now: EpochMs): Promise<Written> {
    const state = this.#stateOf(key);
    const place = state.queue[index];
    if (place?.leaseId !== waiter.leaseId) return Promise.resolve(this.#refuse(key));
    const queue = state.queue.with(index, { ...place, aliveUntil: waiter.aliveUntil });
    return Promise.resolve(this.#apply(key, { ...state, rev: state.rev + 1, changedAt: now, queue }));
  }

  leave(key: LockKey, index: number, waiter: Waiter, isRemembered: boolean, now: EpochMs): Promise<Written> {
    const state = this.#stateOf(key);
    if (state.queue[index]?.leaseId !== waiter.leaseId) return Promise.resolve(this.#refuse(key));
    const queue = state.queue.toSpliced(index, 1);
    const ending: Ended = { leaseId: waiter.leaseId, how: 'released' };
    const ended = isRemembered ? [ending, ...state.ended].slice(0, lockLimits.endedRemembered) : state.ended;
    return Promise.resolve(this.#apply(key, { ...state, rev: state.rev + 1, changedAt: now, queue, ended }));
  }

  swap(key: LockKey, next: LockState): Promise<Written> {
    const unchanged = this.#stateOf(key).rev === next.rev - 1;
    return Promise.resolve(unchanged ? this.#apply(key, next) : this.#refuse(key));
  }

  swapAll(swaps: readonly { readonly key: LockKey; readonly next: LockState }[]): Promise<boolean> {
    const unchanged = swaps.every(({ key, next }) => this.#stateOf(key).rev === next.rev - 1);
    if (unchanged) for (const { key, next } of swaps) this.#apply(key, next);
    return Promise.resolve(unchanged);
  }

  list(
    namespace: string,
    { prefix, after, limit }: { prefix: string; after?: string; limit: number },
  ): Promise<LockPage> {
    const start = `${namespace}/`;
    const names = [...this.#locks.keys()]
      .filter((id) => id.startsWith(`${start}${prefix}`))
      .map((id) => id.slice(start.length))
      .filter((name) => after === undefined || name > after)
      .sort();
    const page = names.slice(0, limit);
    const last = page.at(-1);
    return Promise.resolve({
      locks: page.map((name) => ({ name, state: this.#stateOf({ namespace, name }) })),
      ...(names.length > limit && last !== undefined ? { after: last } : {}),
    });
  }

  #stateOf(key: LockKey): LockState {
    return this.#locks.get(lockIdOf(key)) ?? unusedLock;
  }

  #apply(key: LockKey, state: LockState): Written {
    this.#locks.set(lockIdOf(key), state);
    return { applied: true, state };
  }

  #refuse(key: LockKey): Written {
    return { applied: false, state: this.#stateOf(key), perhapsMine: false };
  }
}
