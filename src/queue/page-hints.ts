import { type LockKey, lockIdOf } from '../lock/state.ts';
import { BoundedMap } from '../tools/collections.ts';

/** As many locks as the cache has. */
const locksMax = 1_000;
/** As many waiters in pages as one process has. A forgotten one costs a search of the pages. */
const waitersMax = 10_000;

/** What this process saw of the pages of locks. Hints only: every write checks what it assumes. */
export class PageHints {
  readonly #pages = new BoundedMap<string, number>(waitersMax);
  /** The highest page of each lock that was seen full or closed. Nobody can join such a page again. */
  readonly #full = new BoundedMap<string, number>(locksMax);
  /** How often in a row joiners of this process lost to other processes. */
  readonly #losses = new BoundedMap<string, number>(locksMax);

  /** The page that a lease was seen to join. */
  pageOf(key: LockKey, lease: string): number | undefined {
    return this.#pages.get(waiterId(key, lease));
  }

  learnPage(key: LockKey, lease: string, page: number): void {
    this.#pages.set(waiterId(key, lease), page);
  }

  forgetPage(key: LockKey, lease: string): void {
    this.#pages.delete(waiterId(key, lease));
  }

  isFull(key: LockKey, page: number): boolean {
    return page <= (this.#full.get(lockIdOf(key)) ?? 0);
  }

  learnFull(key: LockKey, page: number): void {
    if (!this.isFull(key, page)) this.#full.set(lockIdOf(key), page);
  }

  /** Counts that another process was faster. */
  noteLoss(key: LockKey): number {
    const losses = (this.#losses.get(lockIdOf(key)) ?? 0) + 1;
    this.#losses.set(lockIdOf(key), losses);
    return losses;
  }

  forgetLosses(key: LockKey): void {
    this.#losses.delete(lockIdOf(key));
  }
}

const waiterId = (key: LockKey, lease: string): string => `${lockIdOf(key)} ${lease}`;
