import type { Release } from '../contract/views.ts';
import type { Claim } from './acquire.ts';
import { type CallOptions, type Closable, type Core, releasePolicyOf } from './core.ts';
import { LeaseLostError, type LostReason } from './errors.ts';
import { asyncDispose } from './runtime.ts';
import type { Tenure } from './tenure.ts';
import type { TracedHold } from './tracing.ts';

/** What {@link HeldLock} and {@link HeldLocks} have in common. */
export abstract class Held implements Closable {
  readonly #core: Core;
  readonly #claim: Claim | undefined;
  readonly #tenure: Tenure;
  readonly #traced: TracedHold | undefined;
  #releasing: Promise<Release> | undefined;

  /** @internal */
  constructor(core: Core, claim: Claim | undefined, tenure: Tenure, traced?: TracedHold) {
    this.#core = core;
    this.#claim = claim;
    this.#tenure = tenure;
    this.#traced = traced;
    if (traced !== undefined) this.onLost((error) => traced.end('lost', error));
    // A lock of a session is released with the session.
    if (claim?.sessionBound === false) core.open.add(this);
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
    return this.#tenure.signal;
  }

  /** True if nothing is held: the service could not be reached, and `onUnavailable: 'fail-open'` let the caller go on. */
  get failedOpen(): boolean {
    return this.#claim === undefined;
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
    return this.#tenure.isAlive();
  }

  /** How much time is surely left without another renewal. 0 if it is not held. */
  remainingMs(): number {
    return this.#tenure.remainingMs();
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
    this.#tenure.signal.throwIfAborted();
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
    const tell = () => listener(signal.reason as LeaseLostError);
    if (signal.aborted) queueMicrotask(tell);
    else signal.addEventListener('abort', tell, { once: true });
    return () => signal.removeEventListener('abort', tell);
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
    await this.#tenure.renew(leaseMs);
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
    return this.#traced === undefined ? work() : this.#traced.run(work);
  }

  /** @internal */
  giveBack(): Promise<unknown> {
    return this.release();
  }

  /** Releases, and never throws, so an error of the work is not replaced. */
  async [asyncDispose](): Promise<void> {
    await this.release().catch(() => undefined);
  }

  /** Stops renewing and does not release. */
  protected letGo(): void {
    this.#tenure.end();
    this.#core.open.delete(this);
    this.#traced?.end('detached');
    this.#releasing ??= Promise.resolve({ released: false, reason: 'already_released' });
  }

  async #release(deadlineMs: number | undefined): Promise<Release> {
    const { caller, observe, open } = this.#core;
    const claim = this.#claim;
    this.#tenure.end();
    open.delete(this);
    if (claim === undefined) return { released: true, reason: 'ok' };
    try {
      const answer = await caller.call(claim.release(), releasePolicyOf(this.#core, deadlineMs));
      const release = readRelease(answer.body, answer.tries);
      this.#traced?.end(release.released ? 'released' : 'lost');
      return release;
    } catch (error) {
      if (error instanceof LeaseLostError) {
        this.#traced?.end('lost', error);
        return { released: false, reason: error.reason as Release['reason'] };
      }
      this.#traced?.end('unreleased', error);
      observe({ type: 'release-failed', name: claim.label, error });
      throw error;
    }
  }
}

function readRelease(body: unknown, tries: number): Release {
  const { released, reason, failed } = (body ?? {}) as {
    released?: boolean | readonly string[];
    reason?: Release['reason'];
    failed?: readonly { reason: Release['reason'] }[];
  };
  // A lost lease says more than a lock that was released before: another holder may have worked at the same time.
  const worst = failed?.find((one) => one.reason !== 'already_released') ?? failed?.[0];
  if (worst !== undefined && !(tries > 1 && worst.reason === 'already_released')) {
    return { released: false, reason: worst.reason };
  }
  // If the release was sent more than once, an earlier try released the lease and its answer was lost.
  if (reason === 'already_released' && tries > 1) return { released: true, reason: 'ok' };
  return { released: released !== false, reason: reason ?? 'ok' };
}

/** Runs the work and releases in every case. If both the work and the release fail, the caller gets the error of the work. */
export async function runUnder<H extends Held, T>(
  held: H,
  work: (held: H) => T | Promise<T>,
  releaseOptions: () => Pick<CallOptions, 'deadlineMs'> = () => ({}),
): Promise<T> {
  let result: T;
  try {
    result = await held.trace(() => work(held));
  } catch (error) {
    await held.release(releaseOptions()).catch(() => undefined);
    throw error;
  }
  const { signal } = held;
  // If the release can't be sent, the work has still succeeded. The lease expires by itself.
  const { released, reason } = await held
    .release(releaseOptions())
    .catch(() => ({ released: true, reason: 'ok' }) as Release);
  // If the lease ended before the work did, another holder may have worked at the same time. The caller must know, even if the work succeeded.
  signal.throwIfAborted();
  if (released || reason === 'already_released') return result;
  throw new LeaseLostError('The lease ended before the work did.', reason as LostReason);
}
