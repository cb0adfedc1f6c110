import type { GrantBody, ManyGrantBody } from '../contract/views.ts';
import { Held, type Hold } from './held.ts';

type Grant = Pick<GrantBody, 'lock' | 'leaseId' | 'fence' | 'limit' | 'permits' | 'waitedMs'> & {
  readonly mode?: GrantBody['mode'] | undefined;
};

/** What another process needs to go on with a lease. It gives the right to the lock: treat it like a password. */
export interface DetachedLease {
  readonly lock: string;
  readonly leaseId: string;
  readonly fence: number;
}

/**
 * A lock that is held. It is renewed in the background until it is released.
 *
 * @example
 * ```ts
 * await using lock = await locks.acquire('wallet:42');
 * await db.query('UPDATE wallet SET … WHERE fence <= $1', [lock.fence]);
 * ```
 */
export class HeldLock extends Held {
  readonly name: string;
  /** How many permits there are. 1 is a mutex. */
  readonly limit: number;
  readonly permits: number;
  readonly mode: 'exclusive' | 'shared' | undefined;
  /** How long the caller waited for it, by the service's clock. */
  readonly waitedMs: number;
  readonly #fence: number;
  readonly #leaseId: string;

  /** @internal */
  constructor(hold: Hold, { lock, leaseId, fence, limit, permits, mode, waitedMs }: Grant) {
    super(hold);
    this.name = lock;
    this.limit = limit;
    this.permits = permits;
    this.mode = mode;
    this.waitedMs = waitedMs;
    this.#fence = fence;
    this.#leaseId = leaseId;
  }

  /**
   * Rises with every grant of this lock. Send it with every write: the resource refuses a fence that is lower than the
   * highest it has seen. You can still read it after the lock is lost: where it is checked, a stale fence does no harm.
   * If the lock {@link Held.failedOpen | failed open}, it is 0, which is lower than every real fence.
   *
   * @example
   * ```ts
   * await locks.record('wallet:42').update((wallet) => debit(wallet, 5), { fence: lock.fence });
   * ```
   */
  get fence(): number {
    this.isHeld();
    return this.#fence;
  }

  /**
   * Stops renewing, but does not release. Another process can go on with the lease by {@link Holdfast.adopt}.
   *
   * @example
   * ```ts
   * const lease = lock.detach(); // Passed to the next step of a workflow.
   * ```
   */
  detach(): DetachedLease {
    this.throwIfLost();
    this.letGo();
    return { lock: this.name, leaseId: this.#leaseId, fence: this.#fence };
  }
}

/**
 * Several locks held at once, under one lease.
 *
 * @example
 * ```ts
 * await using both = await locks.acquireAll(['wallet:1', 'wallet:2']);
 * await transfer(both.fence('wallet:1'), both.fence('wallet:2'));
 * ```
 */
export class HeldLocks extends Held {
  /** In the order of the call. */
  readonly names: readonly string[];
  readonly waitedMs: number;
  readonly #fences: ReadonlyMap<string, number>;

  /** @internal */
  constructor(hold: Hold, { grants, waitedMs }: Pick<ManyGrantBody, 'grants' | 'waitedMs'>) {
    super(hold);
    this.names = grants.map(({ lock }) => lock);
    this.waitedMs = waitedMs;
    this.#fences = new Map(grants.map(({ lock, fence }) => [lock, fence]));
  }

  /** The fence of each lock. */
  get fences(): ReadonlyMap<string, number> {
    this.isHeld();
    return this.#fences;
  }

  /** The fence of one of the locks. */
  fence(name: string): number {
    const fence = this.fences.get(name);
    if (fence === undefined) throw new RangeError(`${name} is not one of the locks that are held here.`);
    return fence;
  }
}
