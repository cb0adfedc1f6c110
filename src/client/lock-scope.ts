import type { GrantBody, HolderView, ManyGrantBody } from '../contract/views.ts';
import { type Leased, type Taken, take } from './acquire.ts';
import { lockClaim, manyClaim, nameOf } from './claims.ts';
import { type Core, checkName, type Defaults, policyOf } from './core.ts';
import { LockHeldError, UnavailableError } from './errors.ts';
import { runUnder } from './held.ts';
import { HeldLock, HeldLocks } from './held-lock.ts';
import {
  type AcquireAllOptions,
  type AcquireOptions,
  type LeaseOptions,
  type LockEntry,
  resolve,
  type TryOptions,
  waitMsDefault,
} from './lock-options.ts';
import { NamedLock } from './named-lock.ts';
import { leaseTenure, openTenure, SessionTenure, type Tenure } from './tenure.ts';

/** The result of a try. If somebody else holds the lock, it is a value and not an error. */
export type Tried<H> =
  | { readonly ok: true; readonly lock: H }
  | {
      readonly ok: false;
      readonly holders: readonly HolderView[];
      readonly queueDepth: number;
      readonly retryAfterMs: number;
      /** If several locks were asked for: the ones that others hold. */
      readonly blockedBy: readonly string[];
    };

/** The session under which locks are taken. */
export interface SessionHold {
  readonly id: string;
  readonly tenure: Tenure;
}

/** Locks are taken from a client, each with its own lease, or from a session, where all locks end with the session. */
export abstract class LockScope {
  // Private, so a printed client or session does not show its secrets.
  readonly #core: Core;
  readonly #hold: SessionHold | undefined;

  /** @internal */
  constructor(core: Core, hold?: SessionHold) {
    this.#core = core;
    this.#hold = hold;
  }

  /** @internal */
  protected get core(): Core {
    return this.#core;
  }

  /** The values that a call uses if it does not give its own. */
  get defaults(): Defaults {
    return this.#core.defaults;
  }

  /**
   * Takes a lock, and waits in its queue. Throws `WaitTimeoutError` if the wait is over, or `LockHeldError` if `waitMs` is 0.
   *
   * @example
   * ```ts
   * await using lock = await locks.acquire('wallet:42', { waitMs: 10_000 });
   * ```
   */
  async acquire(name: string, options: AcquireOptions = {}): Promise<HeldLock> {
    checkName('lock', name);
    const core = this.#core;
    const hold = this.#hold;
    const resolved = resolve(core, options, hold?.id);
    const { signal, onWaiting } = options;
    const waitMs = options.waitMs ?? core.defaults.waitMs ?? waitMsDefault;
    const claims = lockClaim(core, name, options, resolved, hold?.id);
    const waiting = core.tracing.wait({ namespace: core.namespace, locks: [name] });
    try {
      const taken = await take<GrantBody>(core, claims, {
        waitMs,
        signal,
        onWaiting,
        deadlineMs: options.deadlineMs,
        unavailableBudgetMs: resolved.unavailableBudgetMs,
      });
      const { body } = taken;
      const traced = waiting.granted({ fences: [body.fence], waitedMs: body.waitedMs });
      return new HeldLock(core, taken.claim, this.#tenure(taken, options), { ...body, name }, body.leaseId, traced);
    } catch (error) {
      waiting.failed(error);
      if (!resolved.failOpen || !(error instanceof UnavailableError)) throw error;
      core.observe({ type: 'failed-open', name, error });
      const { limit = 1, permits = 1, mode } = options;
      return new HeldLock(core, undefined, openTenure(), { name, fence: 0, limit, permits, mode, waitedMs: 0 }, '');
    }
  }

  /**
   * Tries for a lock once, without waiting in the queue.
   *
   * @example
   * ```ts
   * const tried = await locks.tryAcquire('nightly-report');
   * if (!tried.ok) return console.log(`held by ${tried.holders[0]?.owner}`);
   * await using lock = tried.lock;
   * ```
   */
  tryAcquire(name: string, options: TryOptions = {}): Promise<Tried<HeldLock>> {
    return tried(this.acquire(name, { ...options, waitMs: 0 }));
  }

  /**
   * Runs the work while holding the lock, and releases it in every case. If the work throws, the caller gets its error. If
   * the work succeeds after its lease was lost, it rejects with `LeaseLostError`: another holder may have worked at the same
   * time.
   *
   * @example
   * ```ts
   * await locks.withLock('wallet:42', { leaseMs: 30_000, waitMs: 10_000 }, async ({ fence, signal }) => {
   *   await debit('42', { fence, signal });
   * });
   * ```
   */
  withLock<T>(name: string, work: (lock: HeldLock) => T | Promise<T>): Promise<T>;
  withLock<T>(name: string, options: AcquireOptions, work: (lock: HeldLock) => T | Promise<T>): Promise<T>;
  async withLock<T>(
    name: string,
    optionsOrWork: AcquireOptions | ((lock: HeldLock) => T | Promise<T>),
    work?: (lock: HeldLock) => T | Promise<T>,
  ): Promise<T> {
    const [options, run] = typeof optionsOrWork === 'function' ? [{}, optionsOrWork] : [optionsOrWork, work];
    if (run === undefined) throw new TypeError('Expected the work as the last argument of withLock; got none.');
    return runUnder(await this.acquire(name, options), run);
  }

  /**
   * Takes several locks at once, all or none, each with its own fence. Other callers may name them in another order.
   *
   * @example
   * ```ts
   * await using both = await locks.acquireAll(['wallet:1', 'wallet:2'], { waitMs: 5_000 });
   * ```
   */
  async acquireAll(entries: readonly LockEntry[], options: AcquireAllOptions = {}): Promise<HeldLocks> {
    for (const entry of entries) checkName('lock', nameOf(entry));
    const core = this.#core;
    const hold = this.#hold;
    const resolved = resolve(core, options, hold?.id);
    const { signal, onWaiting } = options;
    const waitMs = options.waitMs ?? core.defaults.waitMs ?? waitMsDefault;
    const claims = manyClaim(core, entries, resolved, hold?.id);
    const waiting = core.tracing.wait({ namespace: core.namespace, locks: entries.map(nameOf) });
    try {
      const taken = await take<ManyGrantBody>(core, claims, {
        waitMs,
        signal,
        onWaiting,
        deadlineMs: options.deadlineMs,
        unavailableBudgetMs: resolved.unavailableBudgetMs,
      });
      const { grants, waitedMs } = taken.body;
      const traced = waiting.granted({ fences: grants.map(({ fence }) => fence), waitedMs });
      return new HeldLocks(core, taken.claim, this.#tenure(taken, options), grants, waitedMs, traced);
    } catch (error) {
      waiting.failed(error);
      if (!resolved.failOpen || !(error instanceof UnavailableError)) throw error;
      core.observe({ type: 'failed-open', name: entries.map(nameOf).join(', '), error });
      const grants = entries.map((entry) => ({ lock: nameOf(entry), fence: 0 }));
      return new HeldLocks(core, undefined, openTenure(), grants, 0);
    }
  }

  /**
   * Tries for several locks at once, all or none.
   *
   * @example
   * ```ts
   * const tried = await locks.tryAcquireAll(['a', 'b']);
   * if (!tried.ok) console.log(`blocked by ${tried.blockedBy}`);
   * ```
   */
  tryAcquireAll(entries: readonly LockEntry[], options: LeaseOptions = {}): Promise<Tried<HeldLocks>> {
    return tried(this.acquireAll(entries, { ...options, waitMs: 0 }));
  }

  /**
   * Runs the work while holding several locks, and releases them in every case.
   *
   * @example
   * ```ts
   * await locks.withLocks(['wallet:1', 'wallet:2'], { waitMs: 5_000 }, async (both) => transfer(both.fences, both.signal));
   * ```
   */
  withLocks<T>(entries: readonly LockEntry[], work: (locks: HeldLocks) => T | Promise<T>): Promise<T>;
  withLocks<T>(
    entries: readonly LockEntry[],
    options: AcquireAllOptions,
    work: (locks: HeldLocks) => T | Promise<T>,
  ): Promise<T>;
  async withLocks<T>(
    entries: readonly LockEntry[],
    optionsOrWork: AcquireAllOptions | ((locks: HeldLocks) => T | Promise<T>),
    work?: (locks: HeldLocks) => T | Promise<T>,
  ): Promise<T> {
    const [options, run] = typeof optionsOrWork === 'function' ? [{}, optionsOrWork] : [optionsOrWork, work];
    if (run === undefined) throw new TypeError('Expected the work as the last argument of withLocks; got none.');
    return runUnder(await this.acquireAll(entries, options), run);
  }

  /**
   * A semaphore: up to `limit` permits are held at a time. All callers must give the same limit.
   *
   * @example
   * ```ts
   * const gpus = locks.semaphore('gpu', 4);
   * await gpus.withLock({ permits: 2 }, async ({ signal }) => train(signal));
   * ```
   */
  semaphore(name: string, limit: number): NamedLock {
    return new NamedLock(this, name, { limit });
  }

  /**
   * The shared side of a read-write lock: many readers at a time, and no writer.
   *
   * @example
   * ```ts
   * await using reading = await locks.readLock('catalogue').acquire();
   * ```
   */
  readLock(name: string): NamedLock {
    return new NamedLock(this, name, { mode: 'shared' });
  }

  /**
   * The exclusive side of a read-write lock. Readers that come after a waiting writer wait behind it, so writers do not starve.
   *
   * @example
   * ```ts
   * await locks.writeLock('catalogue').withLock(async ({ fence }) => rebuild(fence));
   * ```
   */
  writeLock(name: string): NamedLock {
    return new NamedLock(this, name, { mode: 'exclusive' });
  }

  #tenure(taken: Taken<Leased>, options: LeaseOptions): Tenure {
    const core = this.#core;
    const hold = this.#hold;
    if (hold === undefined) return leaseTenure(core, taken, options);
    const { claim } = taken;
    const policy = policyOf(core);
    return new SessionTenure(claim.label, hold.tenure, () => core.caller.call(claim.renew(), policy));
  }
}

async function tried<H>(acquiring: Promise<H>): Promise<Tried<H>> {
  try {
    return { ok: true, lock: await acquiring };
  } catch (error) {
    if (!(error instanceof LockHeldError)) throw error;
    const { holders, queueDepth, retryAfterMs, blockedBy } = error;
    return { ok: false, holders, queueDepth, retryAfterMs, blockedBy };
  }
}
