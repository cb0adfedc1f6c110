import type { GrantBody, HolderView, ManyGrantBody } from '../contract/views.ts';
import { type LeaseCalls, type Leased, type Taken, take } from './acquire.ts';
import { type Core, checkName, type Defaults, policyOf } from './core.ts';
import { LockHeldError, UnavailableError } from './errors.ts';
import { type Hold, optionsAndWork, runUnder } from './held.ts';
import { HeldLock, HeldLocks } from './held-lock.ts';
import { lockCalls, manyCalls, nameOf } from './lease-calls.ts';
import {
  type AcquireAllOptions,
  type AcquireOptions,
  checkOptions,
  type LeaseOptions,
  type LockEntry,
  type Resolved,
  resolve,
  type TryOptions,
  waitMsDefault,
} from './lock-options.ts';
import { NamedLock } from './named-lock.ts';
import { holding, refuseNested } from './nesting.ts';
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
  /** The owner that the session was opened with. Undefined if the service chose it. */
  readonly owner: string | undefined;
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
    checkOptions(options);
    checkName('lock', name);
    const { limit = 1, permits = 1, mode } = options;
    const unheld = { leaseId: '', fence: 0, limit, permits, mode, waitedMs: 0 };
    const { body = unheld, ...hold } = await this.#take<GrantBody>([name], options, {
      callsFor: (resolved, sessionId) => lockCalls(this.#core, name, options, resolved, sessionId),
      fences: ({ fence }) => [fence],
    });
    return new HeldLock(hold, { ...body, lock: name });
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
   * time. A `withLock` of the same lock inside the work throws `DeadlockError` at once, where the runtime has
   * AsyncLocalStorage: it would wait for itself.
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
    const [options, run] = optionsAndWork('withLock', optionsOrWork, work);
    const isWhole = takesWhole(options);
    if (isWhole) refuseNested(this.#core, name);
    const lock = await this.acquire(name, options);
    // Only a lock that nobody else can share is known to block a second one.
    if (!isWhole) return runUnder(lock, run);
    return runUnder(lock, (held) =>
      holding(
        this.#core,
        name,
        () => held.isHeld(),
        () => run(held),
      ),
    );
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
    checkOptions(options);
    const names = entries.map((entry) => checkName('lock', nameOf(entry)));
    const unheld = { grants: names.map((lock) => ({ lock, fence: 0 })), waitedMs: 0 };
    const { body = unheld, ...hold } = await this.#take<ManyGrantBody>(names, options, {
      callsFor: (resolved, sessionId) => manyCalls(this.#core, entries, resolved, sessionId),
      fences: ({ grants }) => grants.map(({ fence }) => fence),
    });
    return new HeldLocks(hold, body);
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
    const [options, run] = optionsAndWork('withLocks', optionsOrWork, work);
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

  /** Takes one lock or several. The body is missing if the service can't be reached and the caller fails open. */
  async #take<Body extends GrantBody | ManyGrantBody>(
    locks: readonly string[],
    options: AcquireAllOptions,
    kind: {
      callsFor(resolved: Resolved, sessionId: string | undefined): (leaseId: string) => LeaseCalls;
      fences(body: Body): readonly number[];
    },
  ): Promise<Hold & { readonly body?: Body }> {
    const core = this.#core;
    const sessionId = this.#hold?.id;
    const resolved = resolve(core, options, this.#hold);
    const { signal, onWaiting, deadlineMs, waitMs = core.defaults.waitMs ?? waitMsDefault } = options;
    const { unavailableBudgetMs } = resolved;
    const waiting = core.tracing.wait({ namespace: core.namespace, locks });
    try {
      const asked = { waitMs, signal, onWaiting, deadlineMs, unavailableBudgetMs };
      const taken = await take<Body>(core, kind.callsFor(resolved, sessionId), asked);
      const { calls, body } = taken;
      const traced = waiting.granted({ fences: kind.fences(body), waitedMs: body.waitedMs });
      return { core, calls, tenure: this.#tenure(taken, options), traced, body };
    } catch (error) {
      waiting.failed(error);
      if (!resolved.failOpen || !(error instanceof UnavailableError)) throw error;
      core.observe({ type: 'failed-open', name: locks.join(', '), error });
      return { core, tenure: openTenure() };
    }
  }

  #tenure(taken: Taken<Leased>, options: LeaseOptions): Tenure {
    const core = this.#core;
    const hold = this.#hold;
    if (hold === undefined) return leaseTenure(core, taken, options);
    const { calls } = taken;
    const policy = policyOf(core);
    return new SessionTenure(calls.label, hold.tenure, () => core.caller.call(calls.renew(), policy));
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

/** True if no other holder fits beside this one: a mutex, or the writer of a read-write lock. */
const takesWhole = ({ limit = 1, permits = 1, mode, waitMs }: AcquireOptions): boolean =>
  waitMs !== 0 && (mode === 'exclusive' || (mode === undefined && permits >= limit));
