import type { Release } from '../contract/views.ts';
import type { LeaseCalls } from './acquire.ts';
import { type CallOptions, type Core, releasePolicyOf } from './core.ts';
import { LeaseLostError, type LostReason } from './errors.ts';
import { asyncDispose } from './runtime.ts';
import type { Tenure } from './tenure.ts';
import type { TracedHold } from './tracing.ts';

/** A hold as the parts of the SDK see it. */
export interface Hold {
  readonly core: Core;
  /** Missing if nothing is held, because the caller failed open. */
  readonly calls?: LeaseCalls;
  readonly tenure: Tenure;
  readonly traced?: TracedHold;
}

/** What {@link HeldLock} and {@link HeldLocks} have in common. */
export abstract class Held {
  // Private, so a printed lock does not show its secrets.
  readonly #hold: Hold;
  #releasing: Promise<Release> | undefined;

  /** @internal */
  constructor(hold: Hold) {
    this.#hold = hold;
    this.onLost((error) => hold.traced?.end('lost', error));
    // A lock of a session is released with the session.
    if (hold.calls?.sessionBound === false) hold.core.open.set(this, () => this.release());
  }

  /**
   * Fires *before* the lease can end on the service. Its reason is the {@link LeaseLostError}. Pass it to all work that the
   * lock protects.
   *
   * @example
   * ```ts
   * await fetch(url, { signal: lock.signal });
   * ```
   */
  get signal(): AbortSignal {
    return this.#hold.tenure.signal;
  }

  /** True if nothing is held: the service could not be reached, and `onUnavailable: 'fail-open'` let the caller go on. */
  get failedOpen(): boolean {
    return this.#hold.calls === undefined;
  }

  /**
   * True if the lease is surely still held now, by both clocks. After a freeze, a process learns here at once that its lease
   * may be over.
   *
   * @example
   * ```ts
   * for (const item of items) { if (!lock.isHeld()) break; await handle(item, lock.fence); }
   * ```
   */
  isHeld(): boolean {
    return this.#hold.tenure.isAlive();
  }

  /** How much time is surely left without another renewal. 0 if it is not held. */
  remainingMs(): number {
    return this.#hold.tenure.remainingMs();
  }

  /**
   * Throws the {@link LeaseLostError} if the lease is lost.
   *
   * @example
   * ```ts
   * lock.throwIfLost();
   * ```
   */
  throwIfLost(): void {
    this.signal.throwIfAborted();
  }

  /**
   * Calls the listener once when the lease is lost, or at once if it already is. The function that it returns removes the listener.
   *
   * @example
   * ```ts
   * lock.onLost((error) => logger.warn('lost the lock', { reason: error.reason }));
   * ```
   */
  onLost(listener: (error: LeaseLostError) => void): () => void {
    const { signal } = this;
    const onAbort = () => listener(signal.reason as LeaseLostError);
    if (signal.aborted) queueMicrotask(onAbort);
    else signal.addEventListener('abort', onAbort, { once: true });
    return () => signal.removeEventListener('abort', onAbort);
  }

  /**
   * Renews now, for `leaseMs` if it is given. Rarely needed: renewal runs in the background. Throws `LeaseLostError` if the
   * lease is over. Under a session, it only asks the service whether the lock is still held.
   *
   * @example
   * ```ts
   * await lock.renew(120_000); // The next step takes longer.
   * ```
   */
  async renew(leaseMs?: number): Promise<void> {
    this.throwIfLost();
    await this.#hold.tenure.renew(leaseMs);
  }

  /**
   * Releases it. The next waiter gets it in the same step. Safe to repeat. If the lease had already ended, it does not
   * throw: the result says so. It throws only if the service is unavailable. Then the lease expires by itself.
   *
   * @example
   * ```ts
   * const { released, reason } = await lock.release();
   * ```
   */
  release({ deadlineMs }: Pick<CallOptions, 'deadlineMs'> = {}): Promise<Release> {
    this.#releasing ??= this.#release(deadlineMs);
    return this.#releasing;
  }

  /** @internal Runs the work as a part of this hold's trace. */
  trace<T>(work: () => T): T {
    const { traced } = this.#hold;
    return traced === undefined ? work() : traced.run(work);
  }

  /** Releases, and never throws, so an error of the work is not replaced. */
  async [asyncDispose](): Promise<void> {
    await this.release().catch(() => undefined);
  }

  /** Stops renewing and does not release. */
  protected letGo(): void {
    const { core, tenure, traced } = this.#hold;
    tenure.end();
    core.open.delete(this);
    traced?.end('detached');
    this.#releasing ??= Promise.resolve({ released: false, reason: 'already_released' });
  }

  async #release(deadlineMs: number | undefined): Promise<Release> {
    const { core, calls, tenure, traced } = this.#hold;
    tenure.end();
    core.open.delete(this);
    if (calls === undefined) return { released: true, reason: 'ok' };
    try {
      const answer = await core.caller.call(calls.release(), releasePolicyOf(core, deadlineMs));
      const release = readRelease(answer.body, answer.tries);
      traced?.end(release.released && release.expired !== true ? 'released' : 'lost');
      return release;
    } catch (error) {
      if (error instanceof LeaseLostError) {
        traced?.end('lost', error);
        return { released: false, reason: error.reason as Release['reason'] };
      }
      traced?.end('unreleased', error);
      core.observe({ type: 'release-failed', name: calls.label, error });
      throw error;
    }
  }
}

function readRelease(body: unknown, tries: number): Release {
  const { released, reason, failed, expired } = (body ?? {}) as {
    released?: boolean | readonly string[];
    reason?: Release['reason'];
    failed?: readonly { reason: Release['reason'] }[];
    expired?: true | readonly string[];
  };
  // A lost lease says more than a lock that was released before: another holder may have worked at the same time.
  const worst = failed?.find((one) => one.reason !== 'already_released') ?? failed?.[0];
  if (worst !== undefined && !(tries > 1 && worst.reason === 'already_released')) {
    return { released: false, reason: worst.reason };
  }
  // If the release was sent more than once, an earlier try released the lease and its answer was lost.
  if (reason === 'already_released' && tries > 1) return { released: true, reason: 'ok' };
  return { released: released !== false, reason: reason ?? 'ok', ...(expired === undefined ? {} : { expired: true }) };
}

/**
 * Why the lease was over before its release. Undefined if it was in force until then. Whether somebody else took the
 * lock in between makes no difference: the work ended too late either way.
 */
export function overBefore({ released, reason, expired }: Release): LostReason | undefined {
  if (expired === true) return 'expired';
  return released || reason === 'already_released' ? undefined : (reason as LostReason);
}

type Work<H, T> = (held: H) => T | Promise<T>;

/** The arguments of a method that runs work under a lock: the options may be left out. */
export function optionsAndWork<Options extends object, H, T>(
  method: string,
  optionsOrWork: Options | Work<H, T>,
  work: Work<H, T> | undefined,
): [Options, Work<H, T>] {
  if (typeof optionsOrWork === 'function') return [{} as Options, optionsOrWork as Work<H, T>];
  if (work !== undefined) return [optionsOrWork, work];
  throw new TypeError(`Expected the work as the last argument of ${method}; got none.`);
}

/** Runs the work and releases in every case. If both the work and the release fail, the caller gets the error of the work. */
export async function runUnder<H extends Held, T>(
  held: H,
  work: Work<H, T>,
  releaseOptions: () => Pick<CallOptions, 'deadlineMs'> = () => ({}),
): Promise<T> {
  let result: T;
  try {
    result = await held.trace(() => work(held));
  } catch (error) {
    await held.release(releaseOptions()).catch(() => undefined);
    throw error;
  }
  await releaseAfterWork(held, releaseOptions());
  return result;
}

/**
 * Releases after the work has succeeded. Throws if the lease ended before the work did: another holder may have worked at
 * the same time, and the caller must know.
 */
export async function releaseAfterWork(held: Held, options: Pick<CallOptions, 'deadlineMs'>): Promise<void> {
  const { signal } = held;
  // If the release can't be sent, the work has still succeeded. The lease expires by itself.
  const lost = await held.release(options).then(overBefore, () => undefined);
  signal.throwIfAborted();
  if (lost !== undefined) throw new LeaseLostError('The lease ended before the work did.', lost);
}
