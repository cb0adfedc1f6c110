import { optionsAndWork } from './held.ts';
import type { HeldLock } from './held-lock.ts';
import type { AcquireOptions, TryOptions } from './lock-options.ts';
import type { LockScope, Tried } from './lock-scope.ts';

type Kind = Pick<TryOptions, 'limit' | 'mode'>;

/** How to take a lock whose kind is already known. */
export type NamedTryOptions = Omit<TryOptions, 'limit' | 'mode'>;
export type NamedAcquireOptions = Omit<AcquireOptions, 'limit' | 'mode'>;

/**
 * A lock with a name and a kind: a semaphore, or one side of a read-write lock.
 *
 * @example
 * ```ts
 * const gpus = locks.semaphore('gpu', 4);
 * await using one = await gpus.acquire();
 * ```
 */
export class NamedLock {
  readonly name: string;
  readonly #scope: LockScope;
  readonly #kind: Kind;

  /** @internal */
  constructor(scope: LockScope, name: string, kind: Kind) {
    this.name = name;
    this.#scope = scope;
    this.#kind = kind;
  }

  /** As {@link LockScope.acquire}. */
  acquire(options: NamedAcquireOptions = {}): Promise<HeldLock> {
    return this.#scope.acquire(this.name, { ...options, ...this.#kind });
  }

  /** As {@link LockScope.tryAcquire}. */
  tryAcquire(options: NamedTryOptions = {}): Promise<Tried<HeldLock>> {
    return this.#scope.tryAcquire(this.name, { ...options, ...this.#kind });
  }

  /** As {@link LockScope.withLock}. */
  withLock<T>(work: (lock: HeldLock) => T | Promise<T>): Promise<T>;
  withLock<T>(options: NamedAcquireOptions, work: (lock: HeldLock) => T | Promise<T>): Promise<T>;
  async withLock<T>(
    optionsOrWork: NamedAcquireOptions | ((lock: HeldLock) => T | Promise<T>),
    work?: (lock: HeldLock) => T | Promise<T>,
  ): Promise<T> {
    const [options, run] = optionsAndWork('withLock', optionsOrWork, work);
    return this.#scope.withLock(this.name, { ...options, ...this.#kind }, run);
  }
}
